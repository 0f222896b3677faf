"""A request of more rows than one run may hold: cut into parts, and their answers joined."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xirang.core.signature import Signature
from xirang.engine.call import Answer, Ran, Reply
from xirang.engine.extent import Extent
from xirang.errors import XirangError
from xirang.tensors.tensor import Array, Tensor, rows_of


def cut_rows(
    inputs: Mapping[str, Tensor], extent: Extent, rows_max: int, signature: Signature
) -> list[tuple[dict[str, Tensor], Extent]]:
    """Parts of at most `rows_max` rows each, in order; their bytes are views where they can be."""
    parts = []
    for begin in range(0, extent.rows, rows_max):
        rows = min(rows_max, extent.rows - begin)
        part = {}
        for name, tensor in inputs.items():
            axis = signature.input_layout(name).batch_axis
            part[name] = tensor if axis is None else rows_of(tensor, axis, begin, rows)
        parts.append((part, replace(extent, rows=rows)))
    return parts


class Join:
    """Waits for all parts, then replies once: with all rows in order, or with the first error.

    Attributes:
        request_ids: Of the parts, in order, as they are admitted.
        on_error: Called when there will be no answer.
        is_cropped: Whether the request was longer than the model takes, and cut.
    """

    def __init__(
        self, reply: Reply, *, count: int, arrival_ns: int, signature: Signature, version: str = "1"
    ) -> None:
        self._reply = reply
        self._signature = signature
        self._version = version
        self._results: list[Any] = [None] * count
        self._missing = count
        self._started_ns: int | None = None
        self._arrival_ns = arrival_ns
        self._is_closed = False
        self.request_ids: list[int] = []
        self.on_error: Callable[[], None] = lambda: None
        self.is_cropped = False

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
            outputs = {name: self._joined(name) for name in self._results[0]}
            queue_ns = self._started_ns - self._arrival_ns
            request_id = self.request_ids[index]
            cropped = self.is_cropped
            self._reply(Answer(outputs, queue_ns, ran, request_id, self._version, cropped))

    def _joined(self, name: str) -> Array:
        axis = self._signature.output_layout(name).batch_axis
        parts: list[Array] = [result[name] for result in self._results]
        return parts[0] if axis is None else np.concatenate(parts, axis=axis)
