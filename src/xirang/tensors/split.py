"""Give a run's outputs back to their owners: each gets its rows, cut to its own lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from xirang.core.signature import ROWS_FIRST, Layout, Tie
from xirang.tensors.tensor import Array


class RowsMismatchError(ValueError):
    """The model returned another number of rows, or another length, than it was given."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What belongs to whom in a run.

    Attributes:
        rows: Rows of each owner.
        lengths: Each owner's own lengths.
        target: The lengths that they were padded to.
        total: Rows that the model was given, filler included.
        is_strict: Whether the rows of a lone owner are checked too; else it takes what there is.
    """

    rows: Sequence[int]
    lengths: Sequence[tuple[int, ...]]
    target: tuple[int, ...]
    total: int
    is_strict: bool = True


def split(
    outputs: Mapping[str, Array], shares: Shares, layouts: Mapping[str, Layout]
) -> dict[str, list[Array]]:
    """Every output in parts, one an owner, in the order of the rows.

    Args:
        outputs: Name to array.
        shares: What belongs to whom.
        layouts: Output name to what its axes mean, where that is not rows first.

    Returns:
        Views where possible: they keep the run's arrays alive until the last one is gone.

    Raises:
        RowsMismatchError: An output has not the rows or the lengths that the run had.
    """
    return {
        name: _parts(name, array, shares, layouts.get(name, ROWS_FIRST))
        for name, array in outputs.items()
    }


def _parts(name: str, array: Array, shares: Shares, layout: Layout) -> list[Array]:
    axis = layout.batch_axis
    if axis is not None and (array.ndim <= axis or array.shape[axis] != shares.total):
        if len(shares.rows) > 1 or shares.is_strict:
            raise RowsMismatchError(
                f"output '{name}' has shape {array.shape} for {shares.total} rows; "
                f"expected {shares.total} along axis {axis}"
            )
        axis = None  # one owner takes whatever the model gave
    cuts = [tie for tie in layout.ties if _is_padded(tie.length, shares)] if layout.ties else []
    for tie in cuts:
        _check_length(name, array, tie, shares.target)
    if cuts and axis == 0 and [tie.axis for tie in cuts] == [1]:
        return _cut_rows(array, shares, cuts[0])
    if cuts:
        return _cut(array, shares, axis, cuts)
    if axis is None:
        return [array] * len(shares.rows)
    if axis == 0 and max(shares.rows) == 1:
        return list(array[:, None])[: len(shares.rows)]  # a third of the time of slicing each
    prefix = (slice(None),) * axis
    return [array[(*prefix, span)] for span in _spans(shares.rows)]


def _is_padded(length: int, shares: Shares) -> bool:
    target = shares.target[length]
    return any(own[length] != target for own in shares.lengths)


def _check_length(name: str, array: Array, tie: Tie, target: Sequence[int]) -> None:
    expected = tie.size(target[tie.length])
    if array.ndim <= tie.axis or array.shape[tie.axis] != expected:
        raise RowsMismatchError(
            f"output '{name}' has shape {array.shape} for rows of length {target[tie.length]}; "
            f"expected {expected} along axis {tie.axis}"
        )


def _cut_rows(array: Array, shares: Shares, tie: Tie) -> list[Array]:
    """The length is the first axis of a row, as for text."""
    length, factor, offset, stride = tie.length, tie.factor, tie.offset, tie.stride
    parts = []
    begin = 0
    for rows, own in zip(shares.rows, shares.lengths, strict=True):
        end = begin + rows
        parts.append(array[begin:end, : (own[length] * factor + offset) // stride])
        begin = end
    return parts


def _cut(array: Array, shares: Shares, axis: int | None, cuts: Sequence[Tie]) -> list[Array]:
    parts = []
    for span, own in zip(_spans(shares.rows), shares.lengths, strict=True):
        index = [slice(None)] * array.ndim
        if axis is not None:
            index[axis] = span
        for tie in cuts:
            index[tie.axis] = slice(tie.size(own[tie.length]))
        parts.append(array[tuple(index)])
    return parts


def _spans(rows: Sequence[int]) -> list[slice]:
    ends = list(accumulate(rows, initial=0))
    return [slice(begin, end) for begin, end in pairwise(ends)]
