"""Answers of one model in the order in which its requests came, where that is asked for."""

from collections import deque
from collections.abc import Callable


class Turns:
    """Holds back what is ready too early."""

    __slots__ = ("_line", "_ready")

    def __init__(self) -> None:
        self._line: deque[int] = deque()
        self._ready: dict[int, Callable[[], object]] = {}

    def enter(self, request_id: int) -> None:
        """A request came."""
        self._line.append(request_id)

    def answered(self, request_id: int, deliver: Callable[[], object]) -> None:
        """Its answer is ready: deliver it, and whom it held up, when all before it have gone."""
        self._ready[request_id] = deliver
        line, ready = self._line, self._ready
        while line and line[0] in ready:
            ready.pop(line.popleft())()

    def left(self, request_id: int) -> None:
        """It got its answer out of turn, or nobody waits for one: it holds up nobody any more."""
        self.answered(request_id, _nothing)


def _nothing() -> None:
    """What is left to deliver to who has been answered."""
