"""Triton's dynamic batcher behind the planner's calls, for models whose configuration asks for it.

Where our own planner forms a run only when an instance is free, this one binds requests to batches
early: while all instances are busy, up to two batches an instance wait, and the last of them goes
on growing. Instants of arrival decide all of it, so it is found out when an instance is free, not
whenever somebody comes. Models with levels, timeouts or bounded queues bind late.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain, takewhile

from xirang.core.batching.shaping import filled
from xirang.core.cost import CostModel
from xirang.core.memory.account import Account
from xirang.core.planner import Short
from xirang.core.policy import Policy
from xirang.core.queueing.backlog import Backlog
from xirang.core.request import (
    NEVER_NS,
    Request,
    mean_length,
    packed_size,
    target_length,
    target_size,
)
from xirang.core.rules import BatcherRules
from xirang.core.run import Trigger
from xirang.core.scheduling.launch import Candidate, Waiting
from xirang.core.scheduling.reach import Held, Reach, reach
from xirang.core.scheduling.selection import Group

BOUND_PER_INSTANCE = 2


class Bound:
    """Requests that are bound to one batch, which waits for an instance."""

    __slots__ = ("is_cut", "requests", "rows", "waited_ns")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.rows = 0
        self.is_cut = False  # the next one had another shape: no other batch may join it
        self.waited_ns = 0  # how long its oldest was kept waiting on purpose

    def add(self, requests: Iterable[Request]) -> None:
        """These join it."""
        self.requests.extend(requests)
        self.rows = sum([request.rows for request in self.requests])

    def oldest_ns(self) -> int:
        """Arrival of the one that came first."""
        return min([request.arrival_ns for request in self.requests])


class Batcher:
    """One model's.

    Attributes:
        policy: The model's, with the rules of a batcher.
    """

    __slots__ = (
        "_account",
        "_again_ns",
        "_backlog",
        "_bound",
        "_cost",
        "_free",
        "_has_left",
        "_held",
        "_is_tentative",
        "_open",
        "_rules",
        "_seen_ns",
        "_was_busy",
        "policy",
    )

    def __init__(
        self,
        policy: Policy,
        cost: CostModel,
        backlog: Backlog,
        rules: BatcherRules,
        *,
        free: Sequence[int],
        account: Account | None = None,
    ) -> None:
        """Bind nobody yet.

        Args:
            policy: The model's.
            cost: The model's.
            backlog: The model's.
            rules: Of the batcher.
            free: The model's free instances, as they are at any time.
            account: The model's memory, if it has a part in a pool.
        """
        self._account = account
        self.policy = policy
        self._rules = rules
        self._cost = cost
        self._backlog = backlog
        self._free = free
        self._bound: deque[Bound] = deque()  # the first of the queue, in order
        self._is_tentative = False  # whether only the device keeps them from running
        self._open: Bound | None = None  # the last of them, if it may grow
        self._held = rules.held
        self._again_ns = NEVER_NS  # when to look again, if nobody comes
        self._seen_ns = 0  # who came until then was looked at
        self._was_busy = False  # whether no instance was free since
        self._has_left = False

    def forget(self) -> None:
        """Somebody came, or left without running."""
        self._has_left = True

    def depth_max(self, level: int) -> int:
        """Most requests of a level that may wait; 0 for any."""
        return self._rules.queue_of(level).depth_max

    def on_free(self, now_ns: int) -> None:
        """An instance is free again."""
        if self._was_busy and self._rules.binds_early:
            self._leave_out()
            self._catch_up(now_ns)
        self._was_busy = False

    def candidate(self, name: str, *, now_ns: int) -> Candidate:
        """What this model would run now, and when; there is a free instance.

        Args:
            name: The model's.
            now_ns: The time.
        """
        self._look(now_ns)
        if self._bound:
            since_ns, wait_ns = self._bound[0].oldest_ns(), self._bound[0].waited_ns
        else:
            since_ns = self._backlog.most_urgent().arrival_ns
            wait_ns = max(0, self._again_ns - since_ns)
        return Candidate(
            model=name,
            waiting=(Waiting(since_ns, 1.0),),
            # Only for the order among models: it neither ends nor shortens a wait.
            deadline_ns=since_ns + 2 * max(self.policy.age_ns_max, wait_ns),
            run_ns=0,
            company=1.0,
            is_full=bool(self._bound) and not wait_ns,
            window_ns_max=wait_ns,
            waits_as=Trigger.DELAY,  # to the instant
        )

    def take(self, *, now_ns: int, instance: int = 0) -> Group | Short:
        """The batch to run now, which leaves the backlog; or who is short of memory.

        Args:
            now_ns: The time.
            instance: Which one will run it, and has memory for it from now on.
        """
        self._look(now_ns)
        if not self._bound:  # nobody waits for company any more
            self._bind_next(now_ns, is_forced=True)
        batch = self._joined(self._bound.popleft(), now_ns)
        self._is_tentative = not self._rules.binds_early
        if self._account is not None and (short := self._leased(batch, self._account, instance)):
            return short
        group = self._group(batch)
        self._backlog.take_run(group.requests)
        self._was_busy = len(self._free) == 1  # that one is about to be taken
        self._seen_ns = now_ns
        if self._was_busy and self._rules.binds_early:
            self._bind(now_ns, batches_max=self._slots())
        return group

    def _group(self, batch: "Bound") -> Group:
        requests, length = batch.requests, self._length(batch.requests)
        rows = filled(batch.rows, self.policy.row_sizes)
        return Group(
            requests,
            length,
            self._cost.predict_ns(rows=rows, length=length),
            batch.rows,
            min([request.deadline_ns for request in requests]),
            min([request.urgency_ns for request in requests]),
        )

    def _length(self, requests: Sequence[Request]) -> int:
        return mean_length(requests) if self.policy.is_ragged else target_length(requests)

    def _size(self, requests: Sequence[Request]) -> int | tuple[int, ...]:
        return packed_size(requests) if self.policy.is_ragged else target_size(requests)

    def _leased(self, batch: "Bound", account: Account, instance: int) -> Short | None:
        """Get memory for a batch, without its last ones if there is none for all."""
        rest: list[Request] = []
        while True:
            rows = filled(batch.rows, self.policy.row_sizes)
            refused = account.lease(instance, rows, self._size(batch.requests))
            if refused is None or len(batch.requests) == 1:
                break
            rest.append(batch.requests.pop())
            batch.add(())
        if refused is not None:
            rest.append(batch.requests[0])
        if rest:
            behind = Bound()
            behind.add(reversed(rest))
            self._bound.appendleft(behind)
        return None if refused is None else Short(batch.requests[0], refused)

    def _slots(self) -> int:
        return BOUND_PER_INSTANCE * self.policy.instances

    # ------------------------------------------------------------------ binding

    def _look(self, now_ns: int) -> None:
        """Bring the batches up to date."""
        if self._held > len(self._backlog):
            self._again_ns = NEVER_NS
            return
        self._held = 0
        self._leave_out()
        if self._is_tentative:
            self._bound.clear()  # others may have come meanwhile
            self._open = None
        if not self._bound:
            self._bind(now_ns, batches_max=1)
            self._is_tentative = bool(self._bound)

    def _catch_up(self, now_ns: int) -> None:
        """Bind those who came while all instances were busy, each at its own instant."""
        slots = self._slots()
        while True:
            coming = self._queue(now_ns)
            fresh = [each.arrival_ns for each in coming if each.arrival_ns > self._seen_ns]
            at_ns = min([self._again_ns, *fresh[:1]])
            if at_ns > now_ns:
                break
            self._seen_ns = max(self._seen_ns, at_ns)
            self._bind(at_ns, batches_max=slots)
            if len(self._bound) >= slots:
                break  # whoever came later is looked at when one of them has started
        self._seen_ns = now_ns

    def _bind(self, now_ns: int, *, batches_max: int) -> None:
        """Bind as far as the rules go and there is room for so many batches."""
        self._again_ns = NEVER_NS
        self._let_late_go_behind(now_ns)
        while len(self._bound) < batches_max and self._bind_next(now_ns):
            pass

    def _bind_next(self, now_ns: int, *, is_forced: bool = False) -> bool:
        """Bind those who are next; false if nothing more is to be done now."""
        queue = self._queue(now_ns)
        if not queue:
            return False
        found = self._reach(queue, NEVER_NS if is_forced else now_ns)
        batch = self._open
        if batch is not None:
            batch.is_cut = batch.is_cut or found.is_cut
        if found.again_ns is not None:
            self._again_ns = min(self._again_ns, found.again_ns)
            return False
        if found.taken:
            if batch is None:
                batch = self._open = Bound()
                batch.is_cut = found.is_cut
                self._bound.append(batch)
            joining = queue[: found.taken]
            oldest_ns = min([each.arrival_ns for each in joining])
            if self._rules.delay_ns and now_ns - oldest_ns >= self._rules.delay_ns:
                batch.waited_ns = self._rules.delay_ns
            batch.add(joining)
        if found.is_closed:
            self._open = None
        return found.taken > 0 or found.is_closed

    def _reach(self, queue: Sequence[Request], now_ns: int) -> Reach:
        batch = self._open
        held = Held() if batch is None else Held(batch.rows, batch.requests[0].group)
        return reach(
            queue, self._rules, rows_max=self._rows_max(queue[0]), held=held, now_ns=now_ns
        )

    def _rows_max(self, request: Request) -> int:
        room = self.policy.elements_room
        rows_max = self.policy.rows_max
        return rows_max if room is None else max(1, min(rows_max, room // request.length))

    def _queue(self, now_ns: int) -> list[Request]:
        """Who is next: as many as a batch could hold, and one."""
        bound = sum([len(batch.requests) for batch in self._bound])
        queue = self._backlog.urgent(bound + self.policy.rows_max + 1)[bound:]
        return list(takewhile(lambda request: request.arrival_ns <= now_ns, queue))

    def _let_late_go_behind(self, now_ns: int) -> None:
        """Those of the next who have waited too long, where that does not end their wait."""
        rules = self._rules
        while True:
            queue = self._queue(now_ns)
            waiting = [r for r in queue if r.urgency_ns == rules.urgency_ns(r)]
            kept = [r for r in waiting if rules.queue_of(r.priority).is_kept]
            late = [request for request in kept if request.deadline_ns < now_ns]
            if not late:
                self._again_ns = min([r.deadline_ns + 1 for r in kept], default=NEVER_NS)
                return
            self._backlog.move(late, [rules.urgency_behind_ns(r, now_ns) for r in late])

    # ------------------------------------------------------------------ leaving

    def _joined(self, batch: Bound, now_ns: int) -> Bound:
        """A batch that starts, with those behind it that have waited for longer than the delay."""
        if batch is self._open:
            self._open = None
        if not self._rules.delay_ns or batch.is_cut:
            return batch
        while self._bound:
            behind = self._bound[0]
            if behind.is_cut or now_ns - behind.oldest_ns() <= self._rules.delay_ns:
                break
            if behind is self._open:
                self._open = None  # it counts as started, whether or not it fits
            is_alike = behind.requests[0].group == batch.requests[0].group
            if not is_alike or batch.rows + behind.rows > self.policy.rows_max:
                break
            batch.add(self._bound.popleft().requests)
        return batch

    def _leave_out(self) -> None:
        """Those who are bound and have left."""
        if not self._has_left:
            return
        self._has_left = False
        for batch in self._bound:
            present = [request for request in batch.requests if request.id in self._backlog]
            if len(present) < len(batch.requests):
                batch.requests = []
                batch.add(present)
        if self._open is not None and not self._open.requests:
            self._open = None
        self._bound = deque([batch for batch in self._bound if batch.requests])

    def check_integrity(self) -> None:
        """Who is bound is the first in line, unless he has left."""
        bound = [r for r in chain(*[b.requests for b in self._bound]) if r.id in self._backlog]
        if self._is_tentative:
            assert len({request.id for request in bound}) == len(bound)
        else:
            assert self._backlog.urgent(len(bound)) == bound
        assert self._open is None or self._open in self._bound
