"""The heap of latest starts, whose members leave without telling it."""

from xirang.core.queueing.latest_starts import STALE_MAX, LatestStarts


def filled(*latest):
    waiting = {}
    starts = LatestStarts(waiting)
    for id, latest_ns in enumerate(latest):
        waiting[id] = None
        starts.push(latest_ns, id)
        starts.check_integrity()
    return starts, waiting


def test_nobody():
    assert filled()[0].first() is None


def test_the_earliest_comes_first_and_ties_go_by_number():
    starts, waiting = filled(30, 10, 20, 10)
    order = []
    while (first := starts.first()) is not None:
        order.append(first)
        del waiting[first[1]]
    assert order == [(10, 1), (10, 3), (20, 2), (30, 0)]


def test_whoever_left_is_passed_over():
    starts, waiting = filled(10, 20, 30)
    del waiting[0], waiting[1]
    assert starts.first() == (30, 2)


def test_long_budgets_that_left_do_not_pile_up_behind_a_short_one():
    starts, waiting = filled(1)
    for id in range(1, 2000):
        waiting[id] = None
        starts.push(10**9, id)
        del waiting[id]
        starts.trim()
        assert len(starts._heap) <= STALE_MAX + 4
    assert starts.first() == (1, 0)
