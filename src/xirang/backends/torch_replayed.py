"""Models of PyTorch without a whole plan from a graph: what they allocate is recorded and placed.

Eager modules, TorchScript and convolutions run as they are, and ask our allocator in the place of
PyTorch's own. Answers are the same bits: nothing but addresses has changed.
"""

from collections.abc import Callable, Sequence

import numpy as np

from xirang.backends.torch_study import Feed
from xirang.core.memory.law import Traced
from xirang.core.memory.lifetime import Allocate, Traffic, of_traffic
from xirang.core.memory.polynomial import Polynomial, Size
from xirang.memory.arena import HostArena
from xirang.memory.footprint import NativeFootprint
from xirang.memory.native.library import Library
from xirang.memory.room import Ground
from xirang.tensors.tensor import Array

ATTEMPTS_MAX = 4
"""TorchScript rewrites itself in its first runs, and caches are made in them: then it is the same
each time, or hangs on something that more runs would not show either."""

Act = Callable[[Feed], object]
"""Runs the model, and drops its answers."""


def replayed(
    library: Library,
    act: Act,
    feeds: Sequence[Feed],
    inputs: Sequence[Polynomial],
    lengths: Sequence[Size],
) -> NativeFootprint:
    """What a model takes, from its allocations in tiny runs.

    Args:
        library: Our allocator, inside PyTorch.
        act: Runs the model.
        feeds: Tiny runs, at least one.
        inputs: What each input takes.
        lengths: For which plans are made.
    """
    recorder = _Recorder(library, act)
    act(feeds[0])
    samples = [recorder.settled(feed) for feed in feeds]
    if len({(one.lifetimes.starts, one.lifetimes.ends) for one in samples}) > 1:
        # Convolutions go by the number of rows: then three of them no longer tell what each takes.
        samples += [recorder.settled(feed) for feed in _grown(feeds)]
    return NativeFootprint(library, samples, inputs, lengths)


def _grown(feeds: Sequence[Feed]) -> list[Feed]:
    """Those of the most rows with one row more; none if rows are fixed."""
    rows = {feed.rows for feed in feeds}
    if len(rows) == 1:
        return []
    most = max(rows)
    return [
        Feed(most + 1, feed.length, {name: _longer(x, most) for name, x in feed.inputs.items()})
        for feed in feeds
        if feed.rows == most
    ]


def _longer(array: Array, rows: int) -> Array:
    return np.concatenate([array, array[:1]]) if array.shape[:1] == (rows,) else array


class _Recorder:
    """Listens to runs whose memory is the system's: what outlives them lies in no arena."""

    def __init__(self, library: Library, act: Act) -> None:
        self._ground = Ground(library, HostArena(1))
        self._act = act
        self._known: set[tuple[int, ...]] = set()

    def settled(self, feed: Feed) -> Traced:
        """What a run of it asks for, as soon as an earlier run has asked in the same order."""
        traffic = self._once(feed)
        for _ in range(ATTEMPTS_MAX):
            way = _way(traffic)
            if way in self._known:
                break
            self._known.add(way)
            traffic = self._once(feed)
        return Traced(feed.rows, feed.length, of_traffic(traffic))

    def _once(self, feed: Feed) -> Traffic:
        ground = self._ground
        ground.listen()
        ground.begin(None, 0, 0)
        try:
            self._act(feed)
        finally:
            ground.end()
            traffic = ground.heard()
        if traffic is None:
            raise ValueError("a run asks for more than could be recorded")
        return traffic


def _way(traffic: Traffic) -> tuple[int, ...]:
    """Who is asked for and given back when, whatever the sizes."""
    return tuple([-1 if isinstance(each, Allocate) else each.block for each in traffic])
