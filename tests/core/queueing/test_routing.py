"""Cost classes and virtual deadlines."""

import pytest
from tests.support.core import MS, request

from xirang.core.queueing.routing import cost_class, urgency_ns, weight

AGE_NS = 1000 * MS


@pytest.mark.parametrize(
    ("work_ns", "expected"),
    [(0.0, 0), (0.9, 0), (1.0, 1), (3.0, 2), (4.0, 3), (1023.9, 10), (1024.0, 11)],
)
def test_cost_classes_double(work_ns, expected):
    assert cost_class(work_ns) == expected


@pytest.mark.parametrize(
    ("priority", "urgency_ms"),
    [(1, 60), (2, 85), (3, 110), (9, 110)],
    ids=["high", "normal", "low", "unknown is low"],
)
def test_a_priority_is_worth_a_part_of_the_budget(priority, urgency_ms):
    asked = request(1, at_ms=10, budget_ms=100, priority=priority)
    assert urgency_ns(asked, age_ns_max=AGE_NS) == urgency_ms * MS
    assert urgency_ns(asked, age_ns_max=AGE_NS) <= asked.deadline_ns


def test_an_old_low_request_overtakes_a_young_high_one():
    old = request(1, at_ms=0, budget_ms=100, priority=3)
    young = request(2, at_ms=60, budget_ms=100, priority=1)
    assert urgency_ns(old, age_ns_max=AGE_NS) < urgency_ns(young, age_ns_max=AGE_NS)


def test_a_long_budget_is_no_less_urgent_than_the_greatest_age():
    long, longest = (request(1, budget_ms=ms, priority=3) for ms in (1000, 10**9))
    assert urgency_ns(long, age_ns_max=AGE_NS) == urgency_ns(longest, age_ns_max=AGE_NS)


def test_a_higher_priority_weighs_more():
    assert weight(1) > weight(2) > weight(3) == weight(9) > 0
