"""Sequences end to end: nothing between them, and everybody gets their own back."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from xirang.core.signature import ROWS_FIRST, Layout, Tie
from xirang.tensors.packed import can_pack, offsets, pack, unpack
from xirang.tensors.split import RowsMismatchError
from xirang.tensors.tensor import of_array, to_array

TOKENS = Layout(ties=(Tie(1),))
LAYOUTS = {"hidden": TOKENS}


def test_offsets_count_every_row():
    got = offsets(rows=[1, 2, 1], lengths=[3, 2, 5])
    assert got.tolist() == [0, 3, 5, 7, 12]
    assert got.dtype == np.int64


def test_rows_stand_end_to_end():
    first, second = np.array([[1, 2, 3]]), np.array([[4, 5], [6, 7]])
    got = pack([of_array(first), of_array(second)], TOKENS)
    assert got.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_axes_behind_the_length_stay():
    given_arrays = [np.full((1, size, 2), size, np.float32) for size in (2, 3)]
    got = pack([of_array(each) for each in given_arrays], TOKENS)
    assert got.tolist() == [[2, 2]] * 2 + [[3, 3]] * 3


def test_an_input_without_a_length_is_stacked():
    tensors = [of_array(np.full((rows, 2), rows, np.float32)) for rows in (1, 2)]
    got = pack(tensors, ROWS_FIRST)
    assert got.tolist() == [[1, 1], [2, 2], [2, 2]]


def test_words_are_packed_too():
    tensors = [of_array(np.array([words], object)) for words in ([b"a"], [b"b", b"c"])]
    got = pack(tensors, TOKENS)
    assert got.tolist() == [b"a", b"b", b"c"]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=9))
def test_unpacking_undoes_packing(extents):
    rows, lengths = [list(each) for each in zip(*extents, strict=True)]
    rng = np.random.default_rng(0)
    tensors = [of_array(rng.integers(0, 99, extent)) for extent in extents]
    ids = pack(tensors, TOKENS)
    bounds = offsets(rows=rows, lengths=lengths)
    assert bounds[-1] == len(ids)
    sums = np.add.reduceat(ids, bounds[:-1])
    parts = unpack({"hidden": ids, "sum": sums}, rows=rows, lengths=lengths, layouts=LAYOUTS)
    arrays = [to_array(tensor) for tensor in tensors]
    assert [part.tolist() for part in parts["hidden"]] == [array.tolist() for array in arrays]
    assert [part.tolist() for part in parts["sum"]] == [a.sum(axis=1).tolist() for a in arrays]


@pytest.mark.parametrize("name", ["hidden", "sum"])
def test_another_number_of_elements_is_refused(name):
    with pytest.raises(RowsMismatchError, match=f"'{name}' of a packed run has shape"):
        unpack({name: np.zeros(4)}, rows=[1, 1], lengths=[2, 3], layouts=LAYOUTS)


@pytest.mark.parametrize(
    ("layout", "can"),
    [
        (ROWS_FIRST, True),
        (TOKENS, True),
        (Layout(batch_axis=None), False),
        (Layout(batch_axis=1), False),
        (Layout(ties=(Tie(2),)), False),
        (Layout(ties=(Tie(1), Tie(2, length=1))), False),
        (Layout(ties=(Tie(1, stride=2),)), False),
    ],
)
def test_only_one_length_behind_the_rows_can_be_packed(layout, can):
    assert can_pack({"x": layout, "y": TOKENS}) is can
