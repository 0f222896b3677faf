"""Why a request was answered when it was: the decision about its run, read back.

Everything is in the run and its outcome, which the core made anyway; nothing is computed until
somebody asks.
"""

from dataclasses import asdict, dataclass
from typing import Any

from xirang.core.event import RunEnded
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Done
from xirang.observe.costs import device_ns, share_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """One request and the run that it shared.

    Attributes:
        model: Who answered.
        request: The scheduler's number for the request.
        run: And for the run.
        instance: Of the model, that ran it.
        priority: Of the lane that it waited in.
        cost_class: The lane's too: its own device time was predicted to be below 2^this ns.
        trigger: What made the run go.
        window_ms: The window when the run was cut.
        threshold_ms: Waiting work that would have let the run go at once.
        level: Of overload of the device then, 0…3.
        left_behind: Requests of the model that stayed in the lanes then.
        budget_ms: Arrival to deadline; None if it had none.
        slack_ms: What was left of it when the run was cut, less the run's predicted time.
        queue_ms: Arrival to start of the run.
        predicted_ms: What the run was expected to take.
        ran_ms: What it took.
        assemble_ms: The part of it before the model.
        split_ms: The part of it after the model.
        handover_ms: On the way to the instance and back to the loop.
        total_ms: Arrival to end: waiting, run and handover.
        mates: Other requests in the run.
        rows: Of the request.
        batch_rows: Of the run.
        length: Of the request.
        target_length: That all rows of the run were padded to.
        padding_share: How much of its part of the batch was padding, 0…1.
        device_share: Its share of the run's time, 0…1, by its own elements.
        device_ms: The time that is.
        memory_mib: The same share of the memory that the run took; None where that is not known.
        is_answered: Whether it got outputs, not an error.
    """

    model: str
    request: int
    run: int
    instance: int
    priority: int
    cost_class: int
    trigger: str
    window_ms: float
    threshold_ms: float
    level: int
    left_behind: int
    budget_ms: float | None
    slack_ms: float | None
    queue_ms: float
    predicted_ms: float
    ran_ms: float
    assemble_ms: float
    split_ms: float
    handover_ms: float
    total_ms: float
    mates: int
    rows: int
    batch_rows: int
    length: int
    target_length: int
    padding_share: float
    device_share: float
    device_ms: float
    memory_mib: float | None
    is_answered: bool

    def as_json(self) -> dict[str, Any]:
        """For headers, parameters and pages; of bounded size."""
        told = asdict(self)
        if self.memory_mib is None:
            del told["memory_mib"]
        return told


def explain(event: RunEnded, request: Request) -> Explanation:
    """What the scheduler decided about a request of this run, and how it went."""
    run, outcome = event.run, event.outcome
    ran_ns = device_ns(outcome, run, event.end_ns)
    done = outcome if isinstance(outcome, Done) else Done(ran_ns)
    share = share_of(request, run)
    has_budget = request.deadline_ns < NEVER_NS
    slack_ns = request.deadline_ns - run.start_ns - run.predicted_ns
    return Explanation(
        model=run.model,
        request=request.id,
        run=run.id,
        instance=run.instance,
        priority=request.priority,
        cost_class=request.cost_class,
        trigger=run.trigger.value,
        window_ms=_ms(run.window_ns),
        threshold_ms=_ms(run.threshold_ns),
        level=run.level,
        left_behind=run.depth,
        budget_ms=_ms(request.deadline_ns - request.arrival_ns) if has_budget else None,
        slack_ms=_ms(slack_ns) if has_budget else None,
        queue_ms=_ms(run.start_ns - request.arrival_ns),
        predicted_ms=_ms(run.predicted_ns),
        ran_ms=_ms(ran_ns),
        assemble_ms=_ms(done.assemble_ns),
        split_ms=_ms(done.split_ns),
        handover_ms=_ms(event.end_ns - run.start_ns - ran_ns),
        total_ms=_ms(event.end_ns - request.arrival_ns),
        mates=len(run.requests) - 1,
        rows=request.rows,
        batch_rows=run.rows,
        length=request.length,
        target_length=run.length,
        padding_share=0.0 if run.is_ragged else round(1.0 - request.length / max(1, run.length), 4),
        device_share=round(share, 4),
        device_ms=_ms(ran_ns * share),
        memory_mib=_mib(done.memory_bytes, share),
        is_answered=isinstance(outcome, Done) or request.id not in outcome.guilty,
    )


def explain_id(event: RunEnded, request_id: int) -> Explanation | None:
    """The same by the request's number; None if it was not in that run."""
    for request in event.run.requests:
        if request.id == request_id:
            return explain(event, request)
    return None


def _ms(span_ns: float) -> float:
    return round(span_ns / 1e6, 4)


def _mib(memory_bytes: int, share: float) -> float | None:
    # In whole KiB, as a recording keeps them.
    return round(-(-memory_bytes >> 10) * share / 1024, 3) if memory_bytes else None
