"""A request of more rows than one run may hold: cut into parts, and their answers joined."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xirang.engine.call import Answer, Ran, Reply
from xirang.engine.model import Extent
from xirang.errors import XirangError
from xirang.tensors.tensor import Tensor


def cut_rows(
    inputs: Mapping[str, Tensor], extent: Extent, rows_max: int
) -> list[tuple[dict[str, Tensor], Extent]]:
    """Parts of at most `rows_max` rows each, in order; their bytes are views."""
    parts = []
    for begin in range(0, extent.rows, rows_max):
        rows = min(rows_max, extent.rows - begin)
        part = {name: _rows_of(tensor, begin, rows) for name, tensor in inputs.items()}
        parts.append((part, Extent(rows, extent.length, extent.group)))
    return parts


def _rows_of(tensor: Tensor, begin: int, rows: int) -> Tensor:
    per_row = len(tensor.data) // tensor.shape[0]
    data = tensor.data if isinstance(tensor.data, list) else memoryview(tensor.data)
    part = data[begin * per_row : (begin + rows) * per_row]
    return Tensor(tensor.datatype, (rows, *tensor.shape[1:]), part)


class Join:
    """Waits for all parts, then replies once: with all rows in order, or with the first error."""

    def __init__(self, reply: Reply, *, count: int, arrival_ns: int) -> None:
        self._reply = reply
        self._results: list[Any] = [None] * count
        self._missing = count
        self._started_ns: int | None = None
        self._arrival_ns = arrival_ns
        self._is_closed = False
        self.on_error: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Reply nothing any more."""
        self._is_closed = True

    def finish(self, index: int) -> Callable[[Any, Ran | None], None]:
        """The callback of one part."""

        def finish(result: Any, ran: Ran | None) -> None:
            if not self._is_closed:
                self._take(index, result, ran)

        return finish

    def _take(self, index: int, result: Any, ran: Ran | None) -> None:
        if ran is None or isinstance(result, XirangError):
            self.close()
            self._reply(result)
            self.on_error()
            return
        self._results[index] = result
        if self._started_ns is None or ran.start_ns < self._started_ns:
            self._started_ns = ran.start_ns
        self._missing -= 1
        if not self._missing:
            self.close()
            names = self._results[0]
            outputs = {name: np.concatenate([r[name] for r in self._results]) for name in names}
            self._reply(Answer(outputs, self._started_ns - self._arrival_ns, ran))
