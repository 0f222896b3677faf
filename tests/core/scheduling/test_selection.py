"""Which run goes: by virtual deadline while all can be on time, by value for device time if not."""

from itertools import combinations, permutations

import pytest
from hypothesis import given, strategies as st
from tests.support.core import MS, fixed_shape, learned, request

from xirang.core.cost import CostModel
from xirang.core.scheduling.selection import Scene, first_of, group_of, rescued, tried, worthiest


def steady(call_ms, row_ms):
    """A cost model without a margin: it has seen that runs take what it predicts."""
    cost = fixed_shape(call_ms, row_ms)
    for rows in [1, 2, 4, 16, 64] * 10:
        cost.observe(rows=rows, length=1, ran_ns=round((call_ms + row_ms * rows) * MS))
    return cost


FLAT = steady(5, 0)  # every run takes 5 ms


def scene(*, now_ms=0, cost=FLAT, parallelism=1, rows_max=64, weight=lambda _: 1, filled=int):
    return Scene(cost, now_ms * MS, parallelism, rows_max, filled, weight)


def asked(id, *, budget_ms, urgency_ms=None, **fields):
    made = request(id, budget_ms=budget_ms, **fields)
    made.urgency_ns = (budget_ms if urgency_ms is None else urgency_ms) * MS
    return made


def group(id, *deadlines_ms, cost=FLAT):
    requests = [asked(id * 10 + i, budget_ms=ms) for i, ms in enumerate(deadlines_ms)]
    return group_of(requests, scene(cost=cost))


def ids(made):
    return [r.id for r in made.requests]


def test_group_sums_its_requests():
    requests = [asked(1, rows=2, length=30, budget_ms=9), asked(2, length=40, budget_ms=7)]
    made = group_of(requests, scene(cost=learned(1e6, 0.0, 1e4)))
    assert (made.rows, made.length, made.deadline_ns, made.urgency_ns) == (3, 40, 7 * MS, 7 * MS)
    assert made.run_ns == pytest.approx(1e6 + 3 * 40 * 1e4, rel=1e-6)


def test_of_several_lengths_the_target_is_the_largest_of_each():
    sizes = [(10, 40), (20, 30)]
    requests = [
        asked(i, budget_ms=9, length=h * w, lengths=(h, w)) for i, (h, w) in enumerate(sizes)
    ]
    assert group_of(requests, scene()).length == 20 * 40


FEASIBLE = {
    "only one": ([(50,)], 0, 1, 0),
    "most urgent first": ([(50, 50), (20,)], 0, 1, 1),
    # 5 + 5 > 9: not both are on time.
    "not all on time": ([(6,), (9, 9)], 0, 1, None),
    "on two instances both are": ([(6,), (9, 9)], 0, 2, 0),
    "time passes": ([(50,), (20,)], 18, 1, None),
}


@pytest.mark.parametrize(
    ("groups", "now_ms", "parallelism", "index"), FEASIBLE.values(), ids=FEASIBLE
)
def test_if_all_are_on_time_the_most_urgent_goes(groups, now_ms, parallelism, index):
    made = [group(i, *deadlines) for i, deadlines in enumerate(groups)]
    found = first_of(made, scene(now_ms=now_ms, parallelism=parallelism))
    assert found is (None if index is None else made[index])


def test_a_priority_goes_first_as_long_as_nobody_is_late_for_it():
    low = group_of([asked(1, budget_ms=50)], scene())
    high = group_of([asked(2, budget_ms=60, urgency_ms=30)], scene())
    assert first_of([low, high], scene()) is high


WORTH = {
    # 5 + 5 > 9, so the two requests are worth more than the one.
    "value": ([(6,), (9, 9)], 1),
    "by deadline among those kept": ([(30, 30), (12,), (12, 12, 12)], 1),
    "the least for its time is left out": ([(12,), (8, 8), (7, 7)], 2),
}


@pytest.mark.parametrize(("groups", "index"), WORTH.values(), ids=WORTH)
def test_worthiest(groups, index):
    made = [group(i, *deadlines) for i, deadlines in enumerate(groups)]
    assert worthiest(made, scene()) is made[index]


def test_a_weight_counts_like_so_many_requests():
    made = [group(1, 6), group(2, 9, 9)]
    heavy = scene(weight=lambda r: 5 if r.id == 10 else 1)
    assert worthiest(made, heavy) is made[0]


@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.integers(1, 30)).map(lambda t: (t[0], max(t))),
        min_size=1,
        max_size=6,
    )
)
def test_single_requests_are_chosen_as_by_trying_all_subsets(jobs):
    """Moore and Hodgson: with equal weights as many as possible are on time."""
    groups = []
    for i, (run_ms, deadline_ms) in enumerate(jobs):
        made = group_of([asked(i, budget_ms=deadline_ms)], scene())
        groups.append(made._replace(run_ns=run_ms * MS))
    served, now_ms = 0, 0
    left = list(groups)
    while left := [g for g in left if now_ms * MS + g.run_ns <= g.deadline_ns]:
        found = worthiest(left, scene(now_ms=now_ms))
        left.remove(found)
        now_ms += found.run_ns // MS
        served += now_ms * MS <= found.deadline_ns
    assert served == _most_on_time(jobs)


def _most_on_time(jobs):
    for size in range(len(jobs), 0, -1):
        for chosen in combinations(jobs, size):
            ordered = sorted(chosen, key=lambda job: job[1])
            if all(sum(t for t, _ in ordered[: i + 1]) <= d for i, (_, d) in enumerate(ordered)):
                return size
    return 0


RESCUED = {
    # Two rows take 5 + 2 = 7 ms, one takes 6.
    "all are": ((8, 9), 64, 0, [0, 1]),
    "the first is not": ((26, 29), 64, 20, [1]),
    "fewer are faster": ((3, 6), 64, 0, [1]),
    "time has passed": ((28, 29), 64, 22, [1]),
    "nobody is": ((3, 4), 64, 0, [1]),
    "no more than fit": ((8, 9, 9), 2, 0, [0, 1]),
    # Ten rows take half of the first's 30 ms: for so many it is passed over, not for all 14.
    "a batch of which two fit a budget": ((16.1, *[30] * 13), 64, 0, list(range(11))),
    "not the half of it": ((14, *[30] * 13), 64, 0, list(range(1, 14))),
}


@pytest.mark.parametrize(
    ("deadlines_ms", "rows_max", "now_ms", "kept"), RESCUED.values(), ids=RESCUED
)
def test_whom_a_batch_would_answer_on_time(deadlines_ms, rows_max, now_ms, kept):
    pool = [asked(i, budget_ms=ms) for i, ms in enumerate(deadlines_ms)]
    found = rescued(pool, scene(now_ms=now_ms, rows_max=rows_max, cost=steady(5, 1)))
    assert ids(found) == kept


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_of_those_the_most_urgent_go(order):
    pool = [asked(i, budget_ms=50, urgency_ms=20 + 5 * rank) for i, rank in enumerate(order)]
    found = rescued(pool, scene(rows_max=2, cost=steady(5, 1)))
    assert set(ids(found)) == {order.index(0), order.index(1)}


def test_a_size_that_never_ran_is_tried_only_with_time_to_spare():
    cost = CostModel()
    for _ in range(8):
        cost.observe(rows=2, length=1, ran_ns=5 * MS)
    bound = cost.trusted_elements()
    assert 2 <= bound < 6
    made = group_of([asked(i, budget_ms=40) for i in range(6)], scene(cost=cost))
    assert tried(made, scene(cost=cost)) is made
    tight = scene(cost=cost, now_ms=40 - made.run_ns * 1.5 / MS)
    assert tried(made, tight).rows == bound
    alone = group_of([asked(1, rows=6, budget_ms=40)], scene(cost=cost))
    assert tried(alone, tight) is alone


def test_what_was_measured_is_never_held_back():
    made = group(1, *[7] * 60)
    assert tried(made, scene()) is made


def test_a_run_takes_the_time_of_the_size_it_is_filled_up_to():
    eights = scene(cost=steady(5, 1), filled=lambda rows: -(-rows // 8) * 8)
    pool = [asked(i, budget_ms=ms) for i, ms in enumerate((12, *[60] * 9))]
    assert group_of(pool[:3], eights).run_ns == pytest.approx(13 * MS, abs=100)
    # Ten rows would run as sixteen, until 21; one or eight end at 13.
    assert ids(rescued(pool, eights)) == list(range(1, 10))
