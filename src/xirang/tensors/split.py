"""Give a run's outputs back to their owners: each gets its rows, cut to its own length."""

from collections.abc import Mapping, Sequence

from xirang.core.signature import ROWS_FIRST, Layout
from xirang.tensors.tensor import Array


class RowsMismatchError(ValueError):
    """The model returned another number of rows than it was given."""


def split(
    outputs: Mapping[str, Array],
    *,
    rows: Sequence[int],
    lengths: Sequence[int],
    length: int,
    layouts: Mapping[str, Layout],
) -> list[dict[str, Array]]:
    """Every owner's outputs, in the order of the rows.

    Args:
        outputs: Name to array; axis 0 is the batch axis.
        rows: Rows of each owner.
        lengths: Length of each owner.
        length: The target length they were padded to.
        layouts: Output name to what its axes mean, where that is not rows first.

    Returns:
        Views where possible: they keep the run's arrays alive until the last one is gone.

    Raises:
        RowsMismatchError: Axis 0 of an output is not the sum of the rows.
    """
    owned: list[dict[str, Array]] = [{} for _ in rows]
    total = sum(rows)
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != total:
            if len(rows) > 1:
                raise RowsMismatchError(
                    f"output '{name}' has shape {array.shape} for {total} rows; "
                    f"expected {total} as its first dimension"
                )
            owned[0][name] = array  # one owner takes whatever the model gave
            continue
        ties = layouts.get(name, ROWS_FIRST).ties
        axis = ties[0].axis if ties else None
        begin = 0
        for outputs_of_owner, count, own_length in zip(owned, rows, lengths, strict=True):
            part = array[begin : begin + count]
            if axis is not None and own_length < length:
                part = part[(slice(None),) * axis + (slice(0, own_length),)]
            outputs_of_owner[name] = part
            begin += count
    return owned
