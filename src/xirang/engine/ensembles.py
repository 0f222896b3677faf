"""Requests to models made of models: each step goes the way of any other request.

So steps of different requests share runs. A step has what is left of the budget, and the priority,
the tenant and the parameters of the whole. Tensors are handed on as they are. The first step that
fails takes back those that wait, and says in which ensemble and at which model it was.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

from xirang.core.event import RequestCancelled, RequestExpired, RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Failed, Outcome, Run, Trigger
from xirang.engine.call import Answer, Call, Ran, Terms
from xirang.engine.clock import Clock
from xirang.engine.extent import Extent
from xirang.engine.model import Model
from xirang.engine.pending import Finish, FinishOne, Ticket
from xirang.engine.pipeline import Step
from xirang.engine.traffic import Traffic
from xirang.errors import Cancelled, Expired, ModelFailed, XirangError
from xirang.observe.statistics import Statistics
from xirang.tensors.tensor import Array, Tensor, of_array, to_array

Submit = Callable[[Call], Ticket]


class Ensembles:
    """All requests to ensembles that are on their way."""

    def __init__(
        self, traffic: Traffic, submit: Submit, statistics: Statistics, clock: Clock
    ) -> None:
        """None is yet.

        Args:
            traffic: Knows who waits for an answer.
            submit: Takes the call of a step.
            statistics: Count what ensembles do.
            clock: The time.
        """
        self.traffic = traffic
        self.make_call = submit
        self.statistics = statistics
        self.clock = clock

    def submit(
        self,
        call: Call,
        model: Model,
        extent: Extent,
        wanted: Sequence[str],
        times: tuple[int, int],
    ) -> Ticket:
        """Take a call in and make the first steps.

        Args:
            call: What was asked.
            model: It has a pipeline.
            extent: How large the request is.
            wanted: Names of outputs.
            times: Arrival and deadline.

        Raises:
            XirangError: Nobody is admitted any more.
        """
        finish = FinishOne(call.reply, times[0], model.version)

        def finish_of(request: Request) -> Finish:
            finish.request_id = request.id
            return finish

        terms = Terms(call.priority, call.client, call.tenant, call.fast, call.is_inner)
        request = self.traffic.hold(model.lanes, extent, times, terms, finish_of)
        course = _Course(self, request, call, model, wanted)
        course.go_on()
        return Ticket(course, (request.id,))


class Nobody:
    """Stands where an instance would, behind a name whose requests are made of others."""

    def start(self, run: Run, members: Sequence[Any]) -> None:
        """See `instances.Startable`."""
        raise AssertionError(f"a run of {run.model} with {len(members)} members; it has none")

    def close(self) -> None:
        """There is nothing to end."""


class _Course:
    """The way of one request through a pipeline."""

    __slots__ = (
        "_begun_ns",
        "_call",
        "_house",
        "_is_over",
        "_left",
        "_model",
        "_rans",
        "_request",
        "_steps",
        "_tensors",
        "_tickets",
        "_wanted",
    )

    def __init__(
        self, house: Ensembles, request: Request, call: Call, model: Model, wanted: Sequence[str]
    ) -> None:
        assert model.pipeline is not None
        self._house = house
        self._request = request
        self._call = call
        self._model = model
        self._wanted = wanted
        self._steps = model.pipeline.steps
        self._left = set(model.pipeline.needed(wanted))
        self._tensors: dict[str, Tensor | Array] = dict(call.inputs)
        self._tickets: dict[int, Ticket | None] = {}
        self._rans: list[Ran] = []
        self._begun_ns = house.clock.now_ns()
        self._is_over = False

    def cancel(self, _request_id: int) -> None:
        """The client went away: no more steps, and those that wait are taken back."""
        if not self._is_over:
            now_ns = self._house.clock.now_ns()
            self._house.statistics.on_event(RequestCancelled(self._request, now_ns))
            self._end(Cancelled("the client went away"), None)

    # ------------------------------------------------------------------ steps

    def go_on(self) -> None:
        """Make whatever steps can be made now; answer when none is left."""
        for number in sorted(self._left):
            step = self._steps[number]
            if not self._is_over and all(name in self._tensors for name in step.inputs.values()):
                self._left.remove(number)
                self._make(number, step)
        if not self._is_over and not self._tickets:
            self._finish()

    def _make(self, number: int, step: Step) -> None:
        self._tickets[number] = None  # it may be answered before it is submitted
        outer, now_ns = self._call, self._house.clock.now_ns()
        try:
            call = Call(
                step.model,
                {name: self._tensor(tensor, step) for name, tensor in step.inputs.items()},
                partial(self._made, number, step),
                step.version or None,
                tuple(step.outputs),
                self._request.deadline_ns - now_ns,
                outer.priority,
                outer.client,
                outer.tenant,
                outer.fast,
                now_ns,
                about=outer.about,
                is_inner=True,
            )
            ticket = self._house.make_call(call)
        except XirangError as error:
            self._fail(step, error)
            return
        if number in self._tickets:
            self._tickets[number] = ticket

    def _tensor(self, name: str, step: Step) -> Tensor:
        found = self._tensors[name]
        tensor = found if isinstance(found, Tensor) else of_array(found)
        if step.gets_rows:
            return Tensor(tensor.datatype, (1, *tensor.shape), tensor.data)
        return tensor

    def _made(self, number: int, step: Step, answer: Answer | XirangError) -> None:
        if self._is_over:
            return
        del self._tickets[number]
        if isinstance(answer, XirangError):
            self._fail(step, answer)
            return
        self._rans.append(answer.ran)
        for output, tensor in step.outputs.items():
            array = answer.outputs.get(output)
            if array is None:
                self._fail(step, ModelFailed(f"output '{output}' is missing"))
                return
            is_one_row = step.gets_rows and array.shape[:1] == (1,)
            self._tensors[tensor] = array[0] if is_one_row else array
        self.go_on()

    # ------------------------------------------------------------------ ends

    def _finish(self) -> None:
        outputs = {}
        for name in self._wanted:
            found = self._tensors.get(name)
            assert found is not None, "a pipeline is checked before it serves"
            outputs[name] = to_array(found) if isinstance(found, Tensor) else found
        assemble_ns = sum(ran.assemble_ns for ran in self._rans)
        split_ns = sum(ran.split_ns for ran in self._rans)
        now_ns = self._house.clock.now_ns()
        event = self._note(Done(now_ns - self._begun_ns, assemble_ns, split_ns), now_ns)
        run = event.run
        ran = Ran(run.rows, 0.0, run.start_ns, now_ns, assemble_ns, split_ns, event)
        self._end(outputs, ran)

    def _fail(self, step: Step, error: XirangError) -> None:
        words = f"in ensemble '{self._model.name}', model '{step.model}': {error}"
        told = copy(error)
        told.args = (words,)
        now_ns = self._house.clock.now_ns()
        if isinstance(error, Expired):
            self._house.statistics.on_event(RequestExpired(self._request, now_ns))
        else:
            self._note(Failed((self._request.id,)), now_ns)
        self._end(told, None)

    def _end(self, result: Any, ran: Ran | None) -> None:
        self._is_over = True
        tickets, self._tickets = self._tickets, {}
        for ticket in tickets.values():
            if ticket is not None:
                ticket.cancel()
        self._house.traffic.settle(self._request.id, result, ran)

    def _note(self, outcome: Outcome, now_ns: int) -> RunEnded:
        """Count the request: as with Triton, one execution each."""
        request = self._request
        event = RunEnded(
            Run(
                id=0,
                model=request.model,
                instance=0,
                requests=(request,),
                rows=request.rows,
                length=request.length,
                trigger=Trigger.ALONE,
                start_ns=self._begun_ns,
                predicted_ns=now_ns - self._begun_ns,
                window_ns=0,
                depth=0,
            ),
            outcome,
            now_ns,
        )
        self._house.statistics.on_pipeline(event)
        return event
