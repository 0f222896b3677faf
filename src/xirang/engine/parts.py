"""A request of more rows than one run may hold: cut into parts, and their answers joined."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xirang.core.run import Run
from xirang.engine.call import Answer, Reply
from xirang.engine.clock import Clock
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

    def __init__(self, reply: Reply, *, count: int, clock: Clock, arrival_ns: int) -> None:
        self._reply = reply
        self._results: list[Any] = [None] * count
        self._missing = count
        self._runs: list[Run] = []
        self._clock = clock
        self._arrival_ns = arrival_ns
        self._is_closed = False
        self.on_error: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Reply nothing any more."""
        self._is_closed = True

    def finish(self, index: int) -> Callable[[Any, Run | None], None]:
        """The callback of one part."""

        def finish(result: Any, run: Run | None) -> None:
            self._take(index, result, run)

        return finish

    def _take(self, index: int, result: Any, run: Run | None) -> None:
        if self._is_closed:
            return
        if isinstance(result, XirangError):
            self.close()
            self._reply(result)
            self.on_error()
            return
        assert run is not None
        self._results[index] = result
        self._runs.append(run)
        self._missing -= 1
        if not self._missing:
            self.close()
            self._reply(self._answer())

    def _answer(self) -> Answer:
        names = self._results[0]
        outputs = {name: np.concatenate([r[name] for r in self._results]) for name in names}
        started_ns = min(run.start_ns for run in self._runs)
        elements = sum(run.elements for run in self._runs)
        return Answer(
            outputs=outputs,
            batch_rows=max(run.rows for run in self._runs),
            padding=sum(run.padding for run in self._runs) / elements,
            queue_ns=started_ns - self._arrival_ns,
            run_ns=self._clock.now_ns() - started_ns,
        )
