"""Requests that models make of other models of the same server, within their runs.

Such a request goes the way of any other. It has what is left of the budget of the run that it is
made for, the most patient one where several requests share that, and the run's highest priority. A
run that waits for another leaves the device to it, or two of them could hold it against each other
for ever.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xirang.backends.requests import InnerCall, Respond, Responded
from xirang.core.request import Request
from xirang.core.run import Run
from xirang.engine.call import Answer, Call
from xirang.engine.clock import Clock
from xirang.engine.member import Member
from xirang.engine.pending import Ticket
from xirang.engine.traffic import Traffic
from xirang.errors import Cancelled, NotReady, XirangError
from xirang.tensors.tensor import of_array

Submit = Callable[[Call], Ticket]
Check = Callable[[Member, Responded], Responded]


class InnerCalls:
    """The way from instances' threads to the engine and back."""

    def __init__(self, traffic: Traffic, submit: Submit, clock: Clock) -> None:
        """Let nobody ask yet.

        Args:
            traffic: Knows who runs.
            submit: Takes a call, on the loop's thread.
            clock: The time.
        """
        self._traffic = traffic
        self._submit = submit
        self._clock = clock

    def line(self, members: Sequence[Member], check: Check) -> "RunLine":
        """For the run of these members, or a part of it.

        Args:
            members: They.
            check: Holds a part of a member's answer against what the model promised.
        """
        return RunLine(self, members, check)

    def post(self, act: Callable[[], None]) -> None:
        """Do something on the loop's thread."""
        loop = self._traffic.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(act)

    def enter(
        self, members: Sequence[Member], inner: InnerCall, respond: Respond, ticket: "InnerTicket"
    ) -> None:
        """Make the request, on the loop's thread."""
        if ticket.is_given_back:
            return
        found = self._run_of(members)
        if found is None:
            respond(Cancelled("nobody waits for this run any more"))
            return
        run, requests = found
        self._traffic.leave_device(run)

        def reply(answer: Answer | XirangError) -> None:
            respond(answer if isinstance(answer, XirangError) else answer.outputs)

        try:
            ticket.made = self._submit(self._call(requests, inner, reply))
        except XirangError as error:
            respond(error)
        except (TypeError, ValueError) as error:
            respond(NotReady(f"model '{inner.model}' cannot be asked: {error}"))

    def _call(
        self, requests: Sequence[Request], inner: InnerCall, reply: Callable[[Any], None]
    ) -> Call:
        now_ns = self._clock.now_ns()
        budget_ns = max([request.deadline_ns for request in requests]) - now_ns
        if inner.about.timeout_us:
            budget_ns = min(budget_ns, inner.about.timeout_us * 1000)
        first = min(requests, key=lambda request: request.priority)
        tenants = {request.tenant for request in requests}
        return Call(
            inner.model,
            {name: of_array(array) for name, array in inner.inputs.items()},
            reply,
            inner.version or None,
            tuple(inner.wanted) or None,
            budget_ns,
            first.priority,
            first.client,
            tenants.pop() if len(tenants) == 1 else "",
            first.fast,
            now_ns,
            about=inner.about,
            is_inner=True,
        )

    def _run_of(self, members: Sequence[Member]) -> tuple[Run, list[Request]] | None:
        """The run that these are a part of, and those of its requests that somebody waits for."""
        numbers = {id(member) for member in members}
        pending = self._traffic.pending
        for run in self._traffic.watchdog.running():
            waiting = [
                request
                for request in run.requests
                if (known := pending.get(request.id)) is not None and id(known.member) in numbers
            ]
            if waiting:
                return run, waiting
        return None


class InnerTicket:
    """The ticket of an inner request, which may be given back before that has been made.

    Attributes:
        made: The request's own ticket; None while it is on its way to the loop.
        is_given_back: Whether nobody wants the answer any more.
    """

    __slots__ = ("is_given_back", "made")

    def __init__(self) -> None:
        self.made: Ticket | None = None
        self.is_given_back = False

    def cancel(self) -> None:
        """Nobody wants the answer any more; on the loop's thread."""
        self.is_given_back = True
        if self.made is not None:
            self.made.cancel()


class RunLine:
    """What the models of one run may ask of the server; see `requests.Line`."""

    __slots__ = ("_check", "_inner", "_members")

    def __init__(self, inner: InnerCalls, members: Sequence[Member], check: Check) -> None:
        self._inner = inner
        self._members = members
        self._check = check

    def call(self, inner: InnerCall, respond: Respond) -> Callable[[], None]:
        """Ask another model; see `requests.Line`."""
        ticket = InnerTicket()
        calls, members = self._inner, self._members
        calls.post(lambda: calls.enter(members, inner, respond, ticket))
        return lambda: calls.post(ticket.cancel)

    def tell(self, index: int, part: Responded) -> None:
        """Hand out one part of an answer; see `requests.Line`."""
        member = self._members[index]
        if member.take_part is not None:
            take_part, checked = member.take_part, self._check(member, part)
            self._inner.post(lambda: take_part(checked))
