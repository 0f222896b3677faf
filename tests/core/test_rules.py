"""What the rules of Triton's batcher say of one request."""

from tests.support.core import MS, request

from xirang.core.request import NEVER_NS, PRIORITY_NORMAL
from xirang.core.rules import BatcherRules, QueueRules


def test_a_timeout_of_its_own_counts_only_where_it_may_and_is_the_shorter_one():
    fixed, open_ = QueueRules(timeout_ns=100), QueueRules(timeout_ns=100, can_override=True)
    assert [fixed.budget_ns(asked) for asked in (None, 7, 700)] == [100, 100, 100]
    assert [open_.budget_ns(asked) for asked in (None, 0, 7, 700)] == [100, 100, 7, 100]
    assert QueueRules(can_override=True).budget_ns(7) == NEVER_NS


def test_a_priority_that_there_is_not_is_the_default():
    rules = BatcherRules(levels=5, level_default=4)
    assert [rules.level_of(asked) for asked in (0, 1, 5, 6)] == [4, 1, 5, 4]
    assert BatcherRules().level_of(1) == PRIORITY_NORMAL


def test_preferred_sizes_that_can_never_be_are_none():
    assert BatcherRules((2, 8)).sizes(8) == (2, 8)
    assert BatcherRules((2, 8)).sizes(4) == (2,)
    assert BatcherRules((8,)).sizes(4) == (4,)
    assert BatcherRules().sizes(4) == (4,)


def test_only_plain_queues_bind_early():
    assert BatcherRules((4,), 100).binds_early
    assert not BatcherRules(levels=2, level_default=1).binds_early
    for queue in (QueueRules(timeout_ns=1), QueueRules(depth_max=1), QueueRules(can_override=True)):
        assert not BatcherRules(queue=queue).binds_early


def test_levels_go_one_after_the_other_and_who_is_late_behind_those_of_its_level():
    rules = BatcherRules(levels=3, level_default=2)
    first, late, last = (request(i, at_ms=9 - i, priority=p) for i, p in enumerate((1, 2, 3)))
    order = [
        rules.urgency_ns(first),
        rules.urgency_behind_ns(first, 99 * MS),
        rules.urgency_ns(late),
        rules.urgency_behind_ns(late, 1 * MS),
        rules.urgency_behind_ns(late, 2 * MS),
        rules.urgency_ns(last),
    ]
    assert order == sorted(order)


def test_who_is_kept_is_never_given_up():
    kept = BatcherRules(queue=QueueRules(timeout_ns=MS, is_kept=True))
    assert kept.latest_ns(request(1)) == NEVER_NS
    assert BatcherRules().latest_ns(request(1, budget_ms=3)) == 3 * MS
