"""Captured graphs of the shapes that a room runs most: one call to a device instead of hundreds.

Everything in them has its address in the room's arena, inputs and outputs too, so they need no
memory of their own, and a replay is good for whatever lies there. What operations take while they
run, all graphs of a room take from one place of PyTorch's, which is why that is bounded.
"""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from xirang.backends.torch_cuda import Act, Captured

log = logging.getLogger(__name__)

GRAPHS_MAX = 8
"""Graphs of each room; each takes some memory of the driver's."""

HOT = 3
"""A shape is captured when it is run so often: before, all that is made once has been made."""

SEEN_MAX = 256
"""Shapes that are counted; at so many all counts are halved."""

OUTSIDE_BYTES = 64 << 20
"""A shape that takes more outside of its plan is not captured: large runs gain nothing from it."""


@dataclass(slots=True)
class _Graph:
    replay: Callable[[], object]
    outputs: tuple[Any, ...]
    reach_bytes: int


class Graphs:
    """Of one room.

    Attributes:
        captures, replays: How many there were.
        refusal: Why nothing is captured any more; empty while it is.
    """

    def __init__(self, capture: Callable[[Act], Captured]) -> None:
        """None yet.

        Args:
            capture: See `Accelerator.capturer`.
        """
        self.captures = self.replays = 0
        self.refusal = ""
        self._capture = capture
        self._graphs: dict[Hashable, _Graph] = {}
        self._counts: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._graphs)

    def run(
        self, key: Hashable, act: Act, *, reach_bytes: int, outside_bytes: int
    ) -> tuple[Any, ...]:
        """The results of something, by a graph if there is one, or should be.

        Args:
            key: What is the same whenever the same is to be done at the same addresses.
            act: It.
            reach_bytes: How far it reaches in the arena.
            outside_bytes: What it takes elsewhere while it runs.
        """
        self._count(key)
        graph = self._graphs.get(key)
        if graph is None and self._is_due(key, outside_bytes):
            graph = self._captured(key, act, reach_bytes)
        if graph is None:
            return act()
        graph.replay()
        self.replays += 1
        return graph.outputs

    def refuse(self, why: str) -> None:
        """Capture nothing any more."""
        if not self.refusal:
            self.refusal = why
            log.info("no graphs are captured: %s", why)

    def forget_above(self, reach_bytes: int) -> None:
        """Drop those whose pages went: whether they would be true of others nobody promises."""
        for key in [key for key, graph in self._graphs.items() if graph.reach_bytes > reach_bytes]:
            del self._graphs[key]

    def _count(self, key: Hashable) -> None:
        counts = self._counts
        if len(counts) >= SEEN_MAX and key not in counts:
            halved = {each: count // 2 for each, count in counts.items() if count > 1}
            # Those that all came but once say nothing of what comes next.
            self._counts = counts = halved if len(halved) < SEEN_MAX else {}
        counts[key] = counts.get(key, 0) + 1

    def _is_due(self, key: Hashable, outside_bytes: int) -> bool:
        if self.refusal or self._counts[key] < HOT or outside_bytes > OUTSIDE_BYTES:
            return False
        if len(self._graphs) < GRAPHS_MAX:
            return True
        coldest = min(self._graphs, key=lambda each: self._counts.get(each, 0))
        if self._counts[key] <= 2 * self._counts.get(coldest, 0):
            return False  # or two shapes in turns would drive each other out
        del self._graphs[coldest]
        return True

    def _captured(self, key: Hashable, act: Act, reach_bytes: int) -> _Graph | None:
        try:
            graph = self._graphs[key] = _Graph(*self._capture(act), reach_bytes)
        except Exception as error:  # whatever a program does that a graph cannot
            self.refuse(str(error).strip().partition("\n")[0] or type(error).__name__)
            return None
        self.captures += 1
        return graph
