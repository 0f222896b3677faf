"""As many are followed as shall be, in no order that anybody could guess."""

from random import Random

import pytest

from xirang.observe.sampling import NEVER, Sampler


def taken(sampler, count):
    """Which of so many are followed."""
    found = []
    for number in range(count):
        sampler.left -= 1
        if sampler.take():
            found.append(number)
    return found


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.9])
def test_the_share_is_kept(ratio):
    count = 100_000
    found = taken(Sampler(ratio, random=Random(7)), count)
    deviation = (ratio * (1 - ratio) * count) ** 0.5
    assert abs(len(found) - ratio * count) < 4 * deviation


def test_neighbours_are_independent():
    found = set(taken(Sampler(0.5, random=Random(3)), 20_000))
    pairs = sum(number + 1 in found for number in found)
    assert pairs / len(found) == pytest.approx(0.5, abs=0.03)


def test_all_or_none():
    assert taken(Sampler(1.0, random=Random(1)), 5) == [0, 1, 2, 3, 4]
    assert taken(Sampler(0.0, random=Random(1)), 1000) == []


def test_it_may_be_turned_while_requests_go_by():
    sampler = Sampler(0.0, random=Random(1))
    sampler.ratio = 1.0
    assert taken(sampler, 2) == [0, 1]
    sampler.is_on = False
    assert sampler.left == NEVER
    assert taken(sampler, 9) == []
    sampler.is_on = True
    assert sampler.ratio == 1.0
    assert taken(sampler, 2) == [0, 1]
