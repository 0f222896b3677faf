"""Waiting requests by length, so that planning never has to sort.

A shelf holds requests of equal lengths. There are far fewer shelves than requests, and a plan of
runs is made from shelf to shelf.
"""

from bisect import bisect_left
from itertools import chain
from operator import is_

from xirang.core.request import Request

Size = tuple[int, tuple[int, ...]]
"""A length; of several lengths their product, and each of them."""


class Shelves:
    """Requests that may share runs."""

    __slots__ = ("_lengths", "_shelves", "_sizes", "_stored")

    def __init__(self) -> None:
        self._sizes: list[Size] = []  # ascending
        self._lengths: list[int] = []  # the first of each
        self._shelves: list[dict[int, Request]] = []  # of each size, in order of arrival
        self._stored: dict[Size, dict[int, Request]] = {}  # the same by size

    def __len__(self) -> int:
        return sum(map(len, self._shelves))

    def add(self, request: Request) -> None:
        """Put a request on its shelf."""
        size = (request.length, request.lengths)
        shelf = self._stored.get(size)
        if shelf is None:
            shelf = self._stored[size] = {}
            index = bisect_left(self._sizes, size)
            self._sizes.insert(index, size)
            self._lengths.insert(index, request.length)
            self._shelves.insert(index, shelf)
        shelf[request.id] = request

    def remove(self, request: Request) -> bool:
        """Take a request from its shelf; returns whether any are left on any."""
        size = (request.length, request.lengths)
        shelf = self._stored[size]
        del shelf[request.id]
        if not shelf:
            del self._stored[size]
            index = bisect_left(self._sizes, size)
            del self._sizes[index], self._lengths[index], self._shelves[index]
        return bool(self._sizes)

    def ordered(self) -> tuple[list[Request], list[int], list[int]]:
        """All requests, the shortest first; the different lengths; how many there are of each."""
        shelves = self._shelves
        requests = list(chain.from_iterable(map(dict.values, shelves)))
        return requests, self._lengths.copy(), list(map(len, shelves))

    def check_integrity(self) -> None:
        """Sizes are sorted, no shelf is empty, everybody lies on the right one."""
        assert self._sizes == sorted(self._stored)
        assert self._lengths == [length for length, _ in self._sizes]
        assert all(map(is_, self._shelves, map(self._stored.__getitem__, self._sizes)))
        for size, shelf in self._stored.items():
            assert shelf
            assert all((request.length, request.lengths) == size for request in shelf.values())
