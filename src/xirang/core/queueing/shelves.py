"""Waiting requests by length, so that planning never has to sort.

A shelf holds requests of equal lengths. There are far fewer shelves than requests, and a plan of
runs is made from shelf to shelf.
"""

from bisect import bisect_left, insort
from itertools import chain

from xirang.core.request import Request

Size = tuple[int, tuple[int, ...]]
"""A length; of several lengths their product, and each of them."""


class Shelves:
    """Requests that may share runs."""

    __slots__ = ("_sizes", "_stored")

    def __init__(self) -> None:
        self._sizes: list[Size] = []  # ascending
        self._stored: dict[Size, dict[int, Request]] = {}  # each in order of arrival

    def __len__(self) -> int:
        return sum(map(len, self._stored.values()))

    def add(self, request: Request) -> None:
        """Put a request on its shelf."""
        size = (request.length, request.lengths)
        shelf = self._stored.get(size)
        if shelf is None:
            self._stored[size] = {request.id: request}
            insort(self._sizes, size)
        else:
            shelf[request.id] = request

    def remove(self, request: Request) -> bool:
        """Take a request from its shelf; returns whether any are left on any."""
        size = (request.length, request.lengths)
        shelf = self._stored[size]
        del shelf[request.id]
        if not shelf:
            del self._stored[size]
            del self._sizes[bisect_left(self._sizes, size)]
        return bool(self._sizes)

    def ordered(self) -> tuple[list[Request], list[int], list[int]]:
        """All requests, the shortest first; the different lengths; how many there are of each."""
        stored, sizes = self._stored, self._sizes
        shelves = [stored[size] for size in sizes]
        requests = list(chain.from_iterable([shelf.values() for shelf in shelves]))
        return requests, [size[0] for size in sizes], list(map(len, shelves))

    def check_integrity(self) -> None:
        """Sizes are sorted, no shelf is empty, everybody lies on the right one."""
        assert self._sizes == sorted(self._stored)
        for size, shelf in self._stored.items():
            assert shelf
            assert all((request.length, request.lengths) == size for request in shelf.values())
