"""Triton's batcher behind the scheduler's calls, at literal instants.

What whole sequences come to is held against a genuine server in tests/simulation.
"""

from tests.support.core import MS, fixed_shape, request

from xirang.core.batcher import Batcher
from xirang.core.memory.arena import Refused
from xirang.core.planner import Short
from xirang.core.policy import Batching, Policy
from xirang.core.queueing.backlog import Backlog
from xirang.core.request import NEVER_NS
from xirang.core.rules import BatcherRules, QueueRules
from xirang.core.run import Cause, Done, Expire, Rejected, Run, Trigger
from xirang.core.scheduler import Scheduler

COST = fixed_shape(call_ms=1, row_ms=0.1)


class House:
    """A scheduler with one model under rules."""

    def __init__(self, rules, **policy):
        self.policy = Policy(
            **({"max_batch_size": 4, "rejects_early": False} | policy), batcher=rules
        )
        self.scheduler = Scheduler(devices={"cpu": 4})
        self.scheduler.add_model("m", self.policy, COST)
        self.runs = []

    def submit(self, id, at_ms, **fields):
        level = self.policy.priority_of(fields.pop("priority", 0))
        budget_ns = self.policy.batcher.queue_of(level).budget_ns(None)
        came = request(id, at_ms=at_ms, priority=level, **fields)
        came.deadline_ns = came.arrival_ns + budget_ns
        return self.scheduler.submit(came, now_ns=at_ms * MS)

    def come(self, *at_ms, first=0, **fields):
        for id, each in enumerate(at_ms, first):
            self.submit(id, each, **fields)
            self.poll(each)

    def poll(self, at_ms):
        actions = self.scheduler.poll(now_ns=int(at_ms * MS))
        self.runs += [action for action in actions if isinstance(action, Run)]
        self.scheduler.check_integrity()
        return [
            [each.id for each in action.requests] if isinstance(action, Run) else action.request.id
            for action in actions
        ]

    def end(self, at_ms):
        run = self.runs.pop(0)
        self.scheduler.complete(run.id, now_ns=at_ms * MS, outcome=Done(MS))
        return self.poll(at_ms)


def test_a_lone_request_waits_the_whole_delay():
    house = House(BatcherRules(delay_ns=10 * MS))
    house.come(0)
    assert house.scheduler.wakeup_ns() == 10 * MS
    assert house.poll(10) == [[0]]
    assert house.runs[0].trigger is Trigger.DELAY


def test_a_full_batch_goes_at_once():
    house = House(BatcherRules(delay_ns=10 * MS))
    house.come(0, 1, 2, 3)
    assert [len(run.requests) for run in house.runs] == [4]
    assert house.runs[0].trigger is Trigger.THRESHOLD


def test_a_budget_far_away_shortens_no_delay_and_no_deadline_makes_a_run_early():
    house = House(BatcherRules(delay_ns=20_000 * MS), age_ns_max=MS)
    house.come(0)
    assert house.scheduler.wakeup_ns() == 20_000 * MS


def test_who_leaves_while_all_are_busy_makes_room_for_the_next():
    house = House(BatcherRules((2, 4)))
    house.come(0, 1, 2, 3)
    assert house.scheduler.cancel(1, now_ns=4 * MS)
    assert house.end(5) == [[2, 3]]


def test_who_is_bound_may_still_leave():
    house = House(BatcherRules((2, 4)))
    house.come(*range(6))
    assert house.end(6) == [[1, 2]]  # 3 and 4 are bound, and 5
    assert house.scheduler.cancel(3, now_ns=7 * MS)
    assert house.end(8) == [[4]]
    assert house.end(9) == [[5]]


def test_a_batch_of_which_everybody_left_is_no_batch():
    house = House(BatcherRules())
    house.come(0, 1, 2)
    for id in (1, 2):
        assert house.scheduler.cancel(id, now_ns=3 * MS)
    assert house.end(4) == []
    house.come(5, first=3)
    assert [r.id for r in house.runs[0].requests] == [3]


def test_who_comes_to_an_idle_instance_in_one_turn_shares_a_run():
    house = House(BatcherRules((2, 4)))
    for id in range(4):
        house.submit(id, 0)
    assert house.poll(0) == [[0, 1, 2, 3]]
    house.end(1)
    for id in range(4, 7):
        house.submit(id, 2)
    assert house.poll(2) == [[4, 5]]


def test_only_two_batches_an_instance_are_bound():
    house = House(BatcherRules((1, 4)))
    house.come(*range(8))  # 0 runs, 1 and 2 are a batch each, the others wait in the queue
    assert house.end(9) == [[1]]
    assert house.end(10) == [[2]]
    assert house.end(11) == [[3, 4, 5, 6]]


def test_nothing_runs_before_enough_wait():
    house = House(BatcherRules(held=3))
    house.come(0, 1)
    assert not house.runs
    house.come(2, first=2)
    assert [len(run.requests) for run in house.runs] == [3]
    house.end(3)
    house.come(4, first=3)
    assert [r.id for r in house.runs[0].requests] == [3], "once is enough"


def test_draining_waits_for_nobody():
    for rules in (BatcherRules(delay_ns=50 * MS), BatcherRules(held=9)):
        house = House(rules)
        house.come(0, 1)
        house.scheduler.drain()
        assert house.poll(2) == [[0, 1]]


def test_a_level_may_be_full_while_others_are_not():
    rules = BatcherRules(levels=2, level_default=2, queues=((1, QueueRules(depth_max=1)),), held=9)
    house = House(rules)
    assert not isinstance(house.submit(0, 0, priority=1), Rejected)
    refused = house.submit(1, 1, priority=1)
    assert isinstance(refused, Rejected)
    assert refused.cause is Cause.QUEUE_FULL
    assert refused.reason.startswith("Exceeds maximum queue size")
    assert not isinstance(house.submit(2, 2), Rejected)


def test_a_timeout_ends_to_the_instant():
    house = House(BatcherRules(queue=QueueRules(timeout_ns=10 * MS), held=9))
    house.come(0)
    assert house.scheduler.wakeup_ns() == 10 * MS + 1
    assert house.poll(10) == []
    (action,) = house.scheduler.poll(now_ns=10 * MS + 1)
    assert isinstance(action, Expire)


def test_who_is_kept_goes_behind_and_the_next_delay_counts():
    rules = BatcherRules(delay_ns=30 * MS, queue=QueueRules(timeout_ns=10 * MS, is_kept=True))
    house = House(rules)
    house.come(0, 5)
    assert house.scheduler.wakeup_ns() == 10 * MS + 1
    house.scheduler.poll(now_ns=10 * MS + 1)
    assert house.poll(30) == [[0, 1]], "both have been put behind, in order"


def test_a_model_that_takes_no_company_gets_none():
    house = House(BatcherRules(delay_ns=9 * MS), batching=Batching.OFF)
    house.come(0, 1)
    assert [len(run.requests) for run in house.runs] == [1]
    assert house.end(2) == [[1]]


def test_a_device_that_was_out_of_memory_gets_less():
    house = House(BatcherRules(), elements_room=2)
    for id in range(3):
        house.submit(id, 0)
    assert house.poll(0) == [[0, 1]]


def test_it_takes_no_fast_lane_and_nobody_is_turned_away_by_prediction():
    house = House(BatcherRules(), fast_priority=3, fast_budget_ns=NEVER_NS)
    house.come(0, 1, 2)
    (model,) = house.scheduler.snapshot(now_ns=3 * MS).models
    assert (model.waiting, model.fast_waiting) == (2, 0)


class Purse:
    """Memory for so many rows."""

    def __init__(self, rows):
        self.rows = rows

    def lease(self, instance, rows, length):
        return None if rows <= self.rows else Refused(room_bytes=0)


def test_who_there_is_no_memory_for_goes_next():
    policy, purse = Policy(max_batch_size=4, batcher=BatcherRules()), Purse(2)
    backlog = Backlog(COST, age_ns_max=MS, is_shelved=False, rules=policy.batcher)
    batcher = Batcher(policy, COST, backlog, policy.batcher, free=[0], account=purse)
    for id in range(3):
        backlog.push(request(id))
    assert [r.id for r in batcher.take(now_ns=0).requests] == [0, 1]
    purse.rows = 0
    short = batcher.take(now_ns=0)
    assert isinstance(short, Short)
    assert short.request.id == 2
    purse.rows = 1
    assert [r.id for r in batcher.take(now_ns=0).requests] == [2]
