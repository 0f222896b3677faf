"""What the scheduler decides: runs to start, requests to give up; and how a run ended."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from xirang.core.request import Request


class Trigger(Enum):
    """Why a batch was cut when it was."""

    THRESHOLD = "threshold"  # enough had gathered
    WINDOW = "window"  # its oldest request had waited a whole window
    DEADLINE = "deadline"  # waiting longer would have spent somebody's slack
    ALONE = "alone"  # nobody else was expected in time
    FAST = "fast"  # requests of the fast lane never wait for company
    DRAIN = "drain"  # the server is going down
    DELAY = "delay"  # its oldest had waited for as long as a configuration says


class Cause(Enum):
    """Why a request was turned away at the door."""

    DRAINING = "draining"  # the server is going down
    QUEUE_FULL = "queue full"  # as many wait as may
    BUDGET = "budget"  # its budget could not be kept, by prediction
    OVERLOAD = "overload"  # the level of overload costs requests like it their place
    ALLOWANCE = "allowance"  # its tenant asks for more than it may
    MEMORY = "memory"  # it alone needs more than its model may ever have


class Run(NamedTuple):
    """One call of a model on one of its instances.

    Attributes:
        id: Unique; `Scheduler.complete` takes it.
        model: Name of the model.
        instance: Which of the model's instances runs it, lowest free number first.
        requests: Whose rows it holds, in the order of the rows.
        rows: Sum of the requests' rows.
        length: The target length that all rows are padded to; of a ragged run the mean length.
        trigger: Why it was cut.
        start_ns: When it was cut.
        predicted_ns: How long the cost model expects it to take.
        window_ns: The window of its lane at that moment.
        depth: Requests of its model that stayed behind.
        is_ragged: Whether its rows stand as they are, without padding.
        threshold_ns: Waiting work that would have let it go at once; 0 where nobody asked.
        level: Of overload of its device at that moment, 0…3.
        lease_bytes: What it may use of the memory pool; 0 where its model has no part in it.
    """

    id: int
    model: str
    instance: int
    requests: tuple[Request, ...]
    rows: int
    length: int
    trigger: Trigger
    start_ns: int
    predicted_ns: int
    window_ns: int
    depth: int
    is_ragged: bool = False
    threshold_ns: int = 0
    level: int = 0
    lease_bytes: int = 0

    @property
    def elements(self) -> int:
        """Elements of the run, padding included."""
        if self.is_ragged:
            return sum([r.rows * r.length for r in self.requests])
        return self.rows * self.length

    @property
    def padding(self) -> int:
        """Elements of the run that are padding."""
        return self.elements - sum([r.rows * r.length for r in self.requests])


@dataclass(frozen=True, slots=True)
class Expire:
    """A request that can no longer be answered: say so now, never run it.

    Attributes:
        request: Its budget is spent, unless there is another reason.
        reason: The other reason, as a sentence for the client.
    """

    request: Request
    reason: str = ""


Action = Run | Expire


class Done(NamedTuple):
    """The run gave its answers.

    Attributes:
        ran_ns: Time on the instance, from assembly to split; teaches the cost model.
        assemble_ns: The part of it before the model.
        split_ns: The part of it after the model.
        memory_bytes: What it took of the memory pool, in whole KiB; 0 where that is not known.
    """

    ran_ns: int
    assemble_ns: int = 0
    split_ns: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The run raised, wholly or for some requests; its time teaches nothing.

    Attributes:
        guilty: Ids of the requests that got an error; the others of the run got their answers.
        is_out_of_memory: Whether the device had no room for it: later runs stay below.
        memory_bytes: What it would have taken then, in whole KiB; 0 where that is not known.
        expired: Those of the guilty who are so only because their budgets were spent meanwhile.
    """

    guilty: tuple[int, ...] = ()
    is_out_of_memory: bool = False
    memory_bytes: int = 0
    expired: tuple[int, ...] = ()

    def is_unforeseen(self, run: Run) -> bool:
        """Whether a larger lease would not have helped: there is less memory than was thought."""
        return self.is_out_of_memory and self.memory_bytes <= run.lease_bytes


Outcome = Done | Failed


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request is in a lane and will get exactly one answer."""


class Rejected(NamedTuple):
    """The request was turned away at the door.

    Attributes:
        reason: What was full or overloaded, as a sentence for the client.
        retry_after_ns: When a new try is likely to be admitted, from now.
        cause: The same for those who count.
    """

    reason: str
    retry_after_ns: int
    cause: Cause = Cause.QUEUE_FULL


Verdict = Admitted | Rejected
