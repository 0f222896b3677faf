"""Lifetimes: the bound, the sections, and what an allocator's traffic says."""

from hypothesis import given
from tests.support.memory import lifetimes

from xirang.core.memory.lifetime import Allocate, Free, Lifetimes, aligned, of_rows, of_traffic


def test_the_bound_is_the_most_that_lives_at_once():
    found = of_rows([(0, 2, 10), (1, 3, 20), (2, 4, 15)])
    assert found.bound_bytes == 35
    assert found.sum_bytes == 45


def test_who_ends_where_another_begins_does_not_meet_it():
    found = of_rows([(0, 2, 10), (2, 4, 10)])
    assert not found.overlaps(0, 1)
    assert found.bound_bytes == 10


def test_nothing_takes_nothing():
    assert Lifetimes((), (), ()).bound_bytes == 0
    assert Lifetimes((), (), ()).sections() == []


def test_traffic_becomes_lifetimes_and_who_is_never_freed_lives_to_the_end():
    traffic = [Allocate(5), Allocate(7), Free(0), Allocate(0)]
    assert of_traffic(traffic) == Lifetimes((0, 1, 3), (2, 4, 4), (5, 7, 0))


def test_sizes_are_rounded_up():
    assert of_rows([(0, 1, 1), (0, 1, 64), (0, 1, 65)]).aligned(64).sizes_bytes == (64, 64, 128)
    assert aligned(0, 64) == 0


@given(lifetimes())
def test_two_blocks_share_a_section_just_if_they_meet(found):
    together = {
        (one, other) for section in found.sections() for one in section for other in section
    }
    for one in range(len(found)):
        for other in range(len(found)):
            assert ((one, other) in together) == found.overlaps(one, other)


@given(lifetimes())
def test_no_section_is_a_part_of_another_and_the_fullest_is_the_bound(found):
    sections = [set(section) for section in found.sections()]
    assert not any(a < b for a in sections for b in sections)
    sizes = found.sizes_bytes
    assert found.bound_bytes == max(sum(sizes[block] for block in s) for s in sections)
