"""Which requests of a model make its next run: partition and selection, composed.

A plan is kept between launches. An optimal partition without one of its runs is optimal for the
requests that are left, so as long as nobody comes or leaves otherwise the next launch takes its run
from the same plan.
"""

from collections.abc import Sequence
from typing import NamedTuple

from xirang.core.batching.grouping import by_length, in_order
from xirang.core.batching.shaping import emptied, filled
from xirang.core.cost import CostModel
from xirang.core.memory.account import Account
from xirang.core.memory.arena import Refused
from xirang.core.policy import Batching, Policy
from xirang.core.queueing.backlog import CONSIDERED_MAX, Backlog
from xirang.core.queueing.routing import weight
from xirang.core.request import Request, mean_length, packed_size, target_length, target_of
from xirang.core.scheduling.selection import (
    Group,
    Scene,
    first_of,
    full,
    group_of,
    rescued,
    tried,
    worthiest,
)

FULL_RUNS_MAX = 4
"""Where lengths do not matter, planning looks at so many full runs, which costs little."""

Run = Sequence[Request]


class Short(NamedTuple):
    """There is no memory for even one request now.

    Attributes:
        request: The one that was to go first.
        refused: What there is.
    """

    request: Request
    refused: Refused


class Planner:
    """One model's."""

    __slots__ = (
        "_account",
        "_backlog",
        "_cost",
        "_fitting",
        "_parallelism",
        "_plan",
        "_planned_ns",
        "policy",
    )

    def __init__(
        self,
        policy: Policy,
        cost: CostModel,
        backlog: Backlog,
        *,
        parallelism: int,
        account: Account | None = None,
    ) -> None:
        """Plan nothing yet.

        Args:
            policy: The model's.
            cost: The model's.
            backlog: The model's.
            parallelism: Runs that its device can hold at once.
            account: The model's memory, if it has a part in a pool.
        """
        self.policy = policy
        self._account = account
        self._fitting = None if account is None else account.rows_max
        self._cost = cost
        self._backlog = backlog
        self._parallelism = parallelism
        self._plan: list[Run] | None = None
        self._planned_ns = 0.0

    def forget(self) -> None:
        """Somebody came, or left without running."""
        self._plan = None

    def take(self, *, now_ns: int, instance: int = 0) -> Group | Short:
        """The group to run now, which leaves the backlog; or who is short of memory.

        Args:
            now_ns: The time.
            instance: Which one will run it, and has memory for it from now on.
        """
        scene = self._scene(now_ns)
        group = tried(self._choose(scene), scene)
        if self._account is not None:
            found = self._leased(group, scene, self._account, instance)
            if isinstance(found, Short):
                return found
            group = found
        if not self._backlog.take_run(group.requests):
            self._plan = None  # others are looked at now
        self._shorten_plan(group)
        return group

    def _leased(self, group: Group, scene: Scene, account: Account, instance: int) -> Group | Short:
        """The group, or its most urgent requests for which there is memory now."""
        while True:
            size = self._size(group)
            refused = account.lease(instance, scene.filled(group.rows), size)
            if refused is None:
                return group
            if len(group.requests) == 1:
                return Short(group.requests[0], refused)
            rows = emptied(account.rows_within(size, refused.room_bytes), self.policy.row_sizes)
            if self.policy.is_ragged:  # with the rows go their elements
                rows = group.rows * refused.room_bytes // account.need_bytes(group.rows, size)
            # One fewer at least: the room may lie between two sizes that are filled up alike.
            part = full(group.requests, max(1, min(rows, group.rows - 1)))
            group = group_of(part, scene)

    def _size(self, group: Group) -> int | tuple[int, ...]:
        if self.policy.is_ragged:
            return packed_size(group.requests)
        return target_of(group.requests) if group.requests[0].lengths else group.length

    def _choose(self, scene: Scene) -> Group:
        backlog, policy = self._backlog, self.policy
        if len(backlog) == 1:
            return group_of([backlog.most_urgent()], scene)
        if policy.batching is not Batching.OPTIMAL:
            runs = in_order(backlog.urgent(), policy=policy, fitting=self._fitting)
            return group_of(runs[0][0], scene)
        if policy.is_shelved:
            return self._choose_by_length(scene)
        limit = max(CONSIDERED_MAX, FULL_RUNS_MAX * policy.rows_max)
        pools = in_order(backlog.urgent(limit), policy=policy, fitting=self._fitting)
        return self._choose_among(
            [run for runs in pools for run in runs],
            [[request for run in runs for request in run] for runs in pools],
            scene,
        )

    def _choose_by_length(self, scene: Scene) -> Group:
        backlog, cost = self._backlog, self._cost
        if self._plan is None:
            self._plan, self._planned_ns = [], 0.0
            for shelves in backlog.shelves():
                runs, planned_ns = by_length(
                    *shelves.ordered(), policy=self.policy, cost=cost, fitting=self._fitting
                )
                self._plan += runs
                self._planned_ns += planned_ns
        end_ns = scene.now_ns + self._planned_ns * (1.0 + cost.margin_fit())
        if end_ns <= backlog.latest_start_ns():
            # Nobody will be late, in whatever order: no need to look at each run.
            return group_of(self._planned_with(backlog.most_urgent()), scene)
        return self._choose_among(self._plan, self._plan, scene)

    def _planned_with(self, request: Request) -> Run:
        assert self._plan is not None
        length = request.length
        for run in self._plan:
            # Runs end with their longest: most need not be searched.
            if run[-1].length >= length and request in run:
                return run
        raise AssertionError("whoever is most urgent has been planned")

    def _choose_among(self, runs: Sequence[Run], pools: Sequence[Run], scene: Scene) -> Group:
        groups = [group_of(run, scene) for run in runs]
        if scene.cost.is_cold:
            return min(groups, key=_urgency_ns)
        first = first_of(groups, scene)
        if first is not None:
            return first
        groups = [rescued(pool, scene) for pool in pools]
        self._pass_over(pools, groups, scene.now_ns)
        starved = self._backlog.starved(now_ns=scene.now_ns)
        if starved is not None:
            for group in groups:
                if any(map(starved.__contains__, group.requests)):
                    return group
        return worthiest(groups, scene)

    def _pass_over(self, pools: Sequence[Run], groups: Sequence[Group], now_ns: int) -> None:
        """Let others be looked at instead of those who are late anyway, if there are others."""
        if len(self._backlog) <= sum(map(len, pools)):
            return
        late = [
            request
            for pool, group in zip(pools, groups, strict=True)
            for request in pool
            if request.deadline_ns < now_ns + group.run_ns
        ]
        self._backlog.demote(late)
        self._plan = None

    def _shorten_plan(self, group: Group) -> None:
        plan = self._plan
        if plan is None:
            return
        for i, run in enumerate(plan):
            if run is group.requests:
                del plan[i]
                self._planned_ns -= group.run_ns
                return
        self._plan = None

    def _scene(self, now_ns: int) -> Scene:
        return Scene(
            cost=self._cost,
            now_ns=now_ns,
            parallelism=self._parallelism,
            rows_max=self.policy.rows_max,
            filled=self._filled,
            weight=_weight,
            length=mean_length if self.policy.is_ragged else target_length,
        )

    def _filled(self, rows: int) -> int:
        sizes = self.policy.row_sizes
        return filled(rows, sizes) if sizes else rows


def _weight(request: Request) -> int:
    return weight(request.priority)


def _urgency_ns(group: Group) -> int:
    return group.urgency_ns
