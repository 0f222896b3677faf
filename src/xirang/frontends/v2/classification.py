"""The classification extension: an output's largest values as texts, `score:index:label`."""

from collections.abc import Sequence

import numpy as np

from xirang.errors import InvalidRequest
from xirang.tensors.tensor import Array


def classified(
    array: Array, count: int, *, labels: Sequence[str], is_batched: bool, name: str
) -> Array:
    """The best classes of each row, the best first; of equals the one that stands first.

    Args:
        array: Scores.
        count: How many are wanted; all are given if there are not so many.
        labels: By index; those that are missing or empty are left out.
        is_batched: Whether the first axis counts rows; else all is one row.
        name: Of the output.

    Raises:
        InvalidRequest: There is no order among such elements.
    """
    if array.dtype.kind not in "iuf":
        raise InvalidRequest(
            f"class result not available for output '{name}' due to unsupported type; "
            "expected numbers"
        )
    rows = array.reshape(array.shape[0] if is_batched else 1, -1)
    form = "%f" if array.dtype.kind == "f" else "%d"
    found = np.empty((len(rows), min(count, rows.shape[1])), object)
    for place, row in enumerate(rows):
        # Turned over either way the order of equals stays, and NaN comes last.
        turned = -row if array.dtype.kind == "f" else ~row
        best = np.argsort(turned, kind="stable")[:count].tolist()
        found[place] = [_text(form % row[index], index, labels) for index in best]
    return found if is_batched else found[0]


def _text(score: str, index: int, labels: Sequence[str]) -> bytes:
    label = labels[index] if index < len(labels) else ""
    return (f"{score}:{index}:{label}" if label else f"{score}:{index}").encode()
