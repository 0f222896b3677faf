"""Requests by length, without sorting."""

from hypothesis import given, strategies as st
from tests.support.core import request

from xirang.core.queueing.shelves import Shelves


def ids(requests):
    return [waiting.id for waiting in requests]


def test_requests_come_by_length_then_by_arrival():
    shelves = Shelves()
    for i, length in enumerate((9, 3, 9, 5, 3)):
        shelves.add(request(i, length=length))
    requests, lengths, counts = shelves.ordered()
    assert ids(requests) == [1, 4, 3, 0, 2]
    assert (lengths, counts, len(shelves)) == ([3, 5, 9], [2, 1, 2], 5)


def test_images_of_one_area_lie_by_shape():
    shelves = Shelves()
    for i, lengths in enumerate(((2, 6), (3, 4), (2, 6))):
        shelves.add(request(i, length=12, lengths=lengths))
    requests, lengths, counts = shelves.ordered()
    assert ids(requests) == [0, 2, 1]
    assert (lengths, counts) == ([12, 12], [2, 1])


@given(st.lists(st.integers(1, 5), max_size=12), st.data())
def test_anybody_may_leave(lengths, data):
    shelves = Shelves()
    stored = [request(i, length=length) for i, length in enumerate(lengths)]
    for waiting in stored:
        shelves.add(waiting)
    while stored:
        gone = stored.pop(data.draw(st.integers(0, len(stored) - 1)))
        assert shelves.remove(gone) == bool(stored)
        shelves.check_integrity()
        assert ids(shelves.ordered()[0]) == ids(sorted(stored, key=lambda r: (r.length, r.id)))
