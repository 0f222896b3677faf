"""Which run goes: by deadline while all can be on time, by value for device time otherwise."""

import pytest
from tests.support.core import MS, fixed_shape, learned, request

from xirang.core.cost import CostModel
from xirang.core.scheduling.selection import choose, group_of, in_time

COST = fixed_shape(5, 0)  # every run takes 5 ms


def group(id, *deadlines_ms):
    requests = [request(id * 10 + i, budget_ms=ms) for i, ms in enumerate(deadlines_ms)]
    return group_of(requests, COST)


def chosen(groups, *, now_ms=0, parallelism=1):
    return groups.index(choose(groups, now_ns=now_ms * MS, parallelism=parallelism))


def test_group_sums_its_requests():
    requests = [request(1, rows=2, length=30, budget_ms=9), request(2, length=40, budget_ms=7)]
    made = group_of(requests, learned(1e6, 0.0, 1e4))
    assert (made.rows, made.length, made.deadline_ns) == (3, 40, 7 * MS)
    assert made.run_ns == pytest.approx(1e6 + 3 * 40 * 1e4, rel=1e-6)


CASES = {
    "only one": ([(50,)], 0, 1, 0),
    "most urgent first": ([(50, 50), (20,)], 0, 1, 1),
    # 5 + 5 > 9: not both on time, so the two requests are worth more than the one.
    "not all on time: value": ([(6,), (9, 9)], 0, 1, 1),
    "on two instances both are": ([(6,), (9, 9)], 0, 2, 0),
    "late requests are worth nothing": ([(1, 1, 1), (9,)], 0, 1, 1),
    "time passes": ([(50,), (20,)], 18, 1, 0),
}


@pytest.mark.parametrize(("groups", "now_ms", "parallelism", "index"), CASES.values(), ids=CASES)
def test_choice(groups, now_ms, parallelism, index):
    made = [group(i, *deadlines) for i, deadlines in enumerate(groups)]
    assert chosen(made, now_ms=now_ms, parallelism=parallelism) == index


def test_if_all_are_late_the_earliest_deadline_goes():
    assert chosen([group(0, 3), group(1, 2)], now_ms=40) == 1


IN_TIME = {
    # Two rows take 5 + 2 = 7 ms.
    "all are": ((8, 9), 2, 0, [0, 1]),
    "the first is not": ((6, 9), 2, 0, [1]),
    "nobody is": ((3, 4), 2, 0, [0, 1]),
    "time has passed": ((8, 9), 2, 2, [1]),
    "a full batch is what counts": ((6, 9, 9), 1, 0, [0, 1, 2]),
}


@pytest.mark.parametrize(
    ("deadlines_ms", "rows_max", "now_ms", "kept"), IN_TIME.values(), ids=IN_TIME
)
def test_whom_a_batch_would_answer_on_time(deadlines_ms, rows_max, now_ms, kept):
    urgent = [request(i, budget_ms=ms) for i, ms in enumerate(deadlines_ms)]
    found = in_time(urgent, rows_max=rows_max, cost=fixed_shape(5, 1), now_ns=now_ms * MS)
    assert [r.id for r in found] == kept


def test_a_cold_model_passes_nobody_over():
    urgent = [request(0, budget_ms=0), request(1, budget_ms=9)]
    assert in_time(urgent, rows_max=2, cost=CostModel(), now_ns=0) == urgent
