"""How far a batch reaches: preferred sizes, a delay, shapes, and batches that go on growing."""

import pytest
from tests.support.core import request

from xirang.core.rules import BatcherRules
from xirang.core.scheduling.reach import Held, Reach, reach

DELAY_NS = 1000


def queue(rows, groups=""):
    """Requests that came at 0, 1, 2, … ns."""
    made = [request(i, rows=held) for i, held in enumerate(rows)]
    for at_ns, each in enumerate(made):
        each.arrival_ns = at_ns
        each.group = groups[at_ns] if groups else "a"
    return made


def reached(rows, *preferred, groups="", delay_ns=0, held=0, now_ns=500):
    rules = BatcherRules(preferred, delay_ns)
    return reach(
        queue(rows, groups),
        rules,
        rows_max=8,
        held=Held(held, "a" if held else None),
        now_ns=now_ns,
    )


WAIT = Reach(0, is_closed=False, again_ns=DELAY_NS)

AT_ONCE = {
    "few": (([1, 1], ()), Reach(2, is_closed=False)),
    "full": (([1] * 9, ()), Reach(8, is_closed=True)),
    "as many as fit": (([5, 2, 3], ()), Reach(2, is_closed=True)),
    "preferred": (([1] * 6, (4,)), Reach(4, is_closed=True)),
    "the largest preferred": (([1] * 7, (2, 6)), Reach(6, is_closed=True)),
    "fewer than preferred": (([1] * 3, (4,)), Reach(3, is_closed=False)),
    "more than preferred in one request": (([5, 1], (4,)), Reach(1, is_closed=True)),
    "a jump over the preferred": (([3, 2, 1], (4,)), Reach(1, is_closed=True)),
}


@pytest.mark.parametrize(("given", "expected"), AT_ONCE.values(), ids=AT_ONCE)
def test_without_a_delay(given, expected):
    rows, preferred = given
    assert reached(rows, *preferred) == expected


DELAYED = {
    "few wait": (([1, 1], ()), WAIT),
    "preferred goes": (([1] * 4, (4,)), Reach(4, is_closed=False)),
    "preferred goes, the others stay": (([1] * 6, (4,)), Reach(4, is_closed=False)),
    "more rows than preferred": (([6], (4,)), Reach(1, is_closed=True)),
    "no more fits": (([5, 4], ()), Reach(1, is_closed=True)),
}


@pytest.mark.parametrize(("given", "expected"), DELAYED.values(), ids=DELAYED)
def test_within_the_delay(given, expected):
    rows, preferred = given
    assert reached(rows, *preferred, delay_ns=DELAY_NS) == expected


def test_after_the_delay_everything_goes_preferred_or_not():
    assert reached([1] * 3, 4, delay_ns=DELAY_NS, now_ns=DELAY_NS - 1) == WAIT
    assert reached([1] * 3, 4, delay_ns=DELAY_NS, now_ns=DELAY_NS) == Reach(3, is_closed=False)
    assert reached([1] * 6, 4, delay_ns=DELAY_NS, now_ns=DELAY_NS) == Reach(6, is_closed=True)


def test_another_shape_ends_a_batch():
    cut = Reach(2, is_closed=True, is_cut=True)
    assert reached([1] * 4, groups="aaba") == cut
    assert reached([1] * 4, groups="aaba", delay_ns=DELAY_NS) == cut
    assert reached([1] * 4, 2, groups="aaba") == cut


def test_a_batch_that_waits_grows():
    assert reached([1, 1], held=3) == Reach(2, is_closed=False)
    assert reached([1] * 3, 4, held=2) == Reach(2, is_closed=True)
    assert reached([1] * 3, held=7) == Reach(1, is_closed=True)
    assert reached([2], held=7) == Reach(0, is_closed=True)


def test_a_batch_that_waits_takes_no_other_shape():
    assert reached([1, 1], groups="ba", held=3) == Reach(0, is_closed=False, is_cut=True)


def test_a_batch_of_a_preferred_size_is_joined_only_by_enough_or_by_the_late():
    assert reached([1], 2, 4, held=2, delay_ns=DELAY_NS) == WAIT
    assert reached([1], 2, 4, held=3, delay_ns=DELAY_NS) == Reach(1, is_closed=False)
    assert reached([1], 2, 4, held=2, delay_ns=DELAY_NS, now_ns=DELAY_NS).taken == 1


def test_a_batch_of_the_largest_preferred_size_is_overfilled_by_one_who_comes():
    assert reached([1], 4, held=4, delay_ns=DELAY_NS) == Reach(1, is_closed=True)
