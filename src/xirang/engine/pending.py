"""Requests on their way: who waits for what, and the lanes that they are in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from xirang.backends.executable import Workers
from xirang.core.event import RunEnded
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Done, Failed, Outcome, Run
from xirang.engine.call import Answer, Call, Ran, Reply, Terms
from xirang.engine.extent import Extent
from xirang.engine.instances import MakeInstance, Post, Startable
from xirang.engine.turns import Turns
from xirang.errors import XirangError

CLIENT_MASK = 2**31 - 1
"""A recording keeps so many bits of a client's number."""

_NOT_TIMED = Done(ran_ns=0)

Finish = Callable[[Any, Ran | None], None]
"""Takes a member's result or an error, and how its run went if it ran."""


class Pending(msgspec.Struct, gc=False):
    """A request on its way: what an instance needs, and who waits for it."""

    request: Request
    member: Any
    finish: Finish


class FinishOne(msgspec.Struct, gc=False):
    """The `Finish` of a call that is one member: no closure, because there is one a request."""

    reply: Reply
    arrival_ns: int
    version: str
    is_cropped: bool = False
    request_id: int = 0

    def __call__(self, result: Any, ran: Ran | None) -> None:
        """See `Finish`."""
        if ran is None or isinstance(result, XirangError):
            self.reply(result)
            return
        queue_ns = ran.start_ns - self.arrival_ns
        self.reply(Answer(result, queue_ns, ran, self.request_id, self.version, self.is_cropped))


def request_of(
    number: int,
    lanes: str,
    extent: Extent,
    times: tuple[int, int],
    terms: Terms | Call,
    policy: Policy,
) -> Request:
    """A member as the scheduler sees it.

    Args:
        number: Its id.
        lanes: Where it waits.
        extent: How large it is.
        times: Arrival and deadline.
        terms: Its priority, and whose it is.
        policy: Of those lanes.
    """
    # By position, which takes half of the time: in the order of the fields.
    return Request(
        number,
        lanes,
        times[0],
        times[1],
        policy.priority_of(terms.priority),
        extent.rows,
        extent.length,
        extent.group,
        extent.lengths,
        terms.client & CLIENT_MASK,
        terms.tenant,
        terms.fast,
    )


def ran_of(run: Run, outcome: Outcome, *, end_ns: int) -> Ran:
    """How a run went, for all who shared it."""
    done = outcome if isinstance(outcome, Done) else _NOT_TIMED
    event = RunEnded(run, outcome, end_ns)
    share = run.padding / run.elements
    return Ran(run.rows, share, run.start_ns, end_ns, done.assemble_ns, done.split_ns, event)


def drop(_result: Any, _ran: Ran | None) -> None:
    """The `Finish` of a request whose answer nobody waits for any more."""


@dataclass(slots=True, eq=False)
class Served:
    """What stands behind the lanes of one name.

    Attributes:
        policy: How they are scheduled.
        make: Makes an instance.
        workers: The processes that the model runs in, if it does.
        instances: As they were made.
        turns: Keeps answers in order, if the model asks for it.
        asks_others: Whether its requests may be made of requests to others.
    """

    policy: Policy
    make: MakeInstance
    workers: Workers | None = None
    instances: list[Startable] = field(default_factory=list)
    turns: Turns | None = None
    asks_others: bool = False

    def __post_init__(self) -> None:
        rules = self.policy.batcher
        if rules is not None and rules.is_ordered:
            self.turns = Turns()

    def open(self, name: str, post: Post) -> None:
        """Start the instances."""
        self.instances = [self.make(f"{name}-{n}", post) for n in range(self.policy.instances)]

    def close(self) -> None:
        """End the threads, and the processes if there are any."""
        for instance in self.instances:
            instance.close()
        self.instances.clear()
        if self.workers is not None:
            self.workers.close()


def without(
    pending: Mapping[int, Pending], run: Run, results: Sequence[Any], outcome: Outcome
) -> tuple[Sequence[Request], Sequence[Any], Outcome]:
    """A run that took too long for some, without those who have been answered meanwhile.

    Args:
        pending: Who still waits.
        run: The run.
        results: One for each of its requests.
        outcome: How it ended.

    Returns:
        Requests that wait, their results, and the outcome with the others as its victims.
    """
    gone = tuple([request.id for request in run.requests if request.id not in pending])
    pairs = zip(run.requests, results, strict=True)
    left = [(request, result) for request, result in pairs if request.id in pending]
    failed = outcome if isinstance(outcome, Failed) else Failed()
    if gone:
        outcome = replace(
            failed,
            guilty=tuple({*failed.guilty, *gone}),
            expired=tuple({*failed.expired, *gone}),
        )
    return [request for request, _ in left], [result for _, result in left], outcome


class Cancels(Protocol):
    """What takes requests back."""

    def cancel(self, request_id: int) -> None:
        """The owner of a request went away."""
        ...


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """A claim on an answer, to be given back if the client goes away."""

    engine: Cancels
    request_ids: Sequence[int]

    def cancel(self) -> None:
        """Take the request out of its lane; if it already runs, its answer is dropped."""
        for request_id in self.request_ids:
            self.engine.cancel(request_id)
