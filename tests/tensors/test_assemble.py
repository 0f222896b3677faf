"""Assemble, then split, is the identity: nobody's bytes are lost, mixed or leaked."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

from xirang.core.signature import Layout, TensorSpec, Tie
from xirang.tensors.assemble import Slab, assemble
from xirang.tensors.split import RowsMismatchError, split
from xirang.tensors.tensor import NUMPY_TYPES, of_array

NUMBERS = [name for name in NUMPY_TYPES if name != "BYTES"]


@dataclass
class Case:
    spec: TensorSpec
    arrays: list
    axis: int | None
    length: int

    def assemble(self, slab):
        return assemble(
            self.spec,
            [of_array(array) for array in self.arrays],
            axis=self.axis,
            length=self.length,
            slab=slab,
        )

    def naive(self):
        """By numpy's own padding and concatenation."""
        padded = []
        for array in self.arrays:
            widths = [(0, 0)] * array.ndim
            if self.axis is not None:
                widths[self.axis] = (0, self.length - array.shape[self.axis])
            padded.append(np.pad(array, widths))
        return np.concatenate(padded)


def filled(shape, datatype, seed):
    """No element is 0, so that padding can be told from data."""
    dtype = NUMPY_TYPES[datatype]
    raw = np.random.default_rng(seed).integers(1, 100, shape)
    return np.ones(shape, dtype) if dtype.kind == "b" else raw.astype(dtype)


@st.composite
def cases(draw, datatypes=tuple(NUMBERS)):
    datatype = draw(st.sampled_from(datatypes))
    rest = draw(st.lists(st.integers(1, 4), max_size=2))
    axis = draw(st.sampled_from([None, *range(1, len(rest) + 1)]))
    arrays = []
    for seed in range(draw(st.integers(1, 6))):
        shape = [draw(st.integers(1, 4)), *rest]
        if axis is not None:
            shape[axis] = draw(st.integers(1, 9))
        arrays.append(filled(shape, datatype, seed))
    longest = 1 if axis is None else max(array.shape[axis] for array in arrays)
    length = longest + draw(st.sampled_from([0, 0, 3]))
    return Case(TensorSpec("x", datatype, (None,) * (1 + len(rest))), arrays, axis, length)


@given(cases())
def test_what_was_assembled_is_split_back_to_its_owners(case):
    run = case.assemble(Slab())
    assert run.dtype == NUMPY_TYPES[case.spec.datatype]
    assert run.tolist() == case.naive().tolist()
    lengths = [1 if case.axis is None else array.shape[case.axis] for array in case.arrays]
    owned = split(
        {"x": run},
        rows=[len(array) for array in case.arrays],
        lengths=lengths,
        length=case.length,
        layouts={} if case.axis is None else {"x": Layout(ties=(Tie(case.axis),))},
    )
    for array, outputs in zip(case.arrays, owned, strict=True):
        assert outputs["x"].shape == array.shape
        assert outputs["x"].tobytes() == array.tobytes()
        assert np.shares_memory(outputs["x"], run), "split copies nothing"


@given(st.lists(cases(), min_size=2, max_size=5))
def test_a_slab_that_is_used_again_shows_nothing_of_before(sequence):
    slab = Slab()
    slab.reserve(1 << 16)[:] = b"\xff" * len(slab.reserve(1 << 16))
    for case in sequence:
        assert case.assemble(slab).tolist() == case.naive().tolist()


def test_a_slab_grows_by_halves_and_is_kept():
    slab = Slab()
    first = slab.reserve(100)
    assert len(first) == 150
    assert slab.reserve(150) is first
    assert len(slab.reserve(151)) == 226


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=5))
def test_words_are_assembled_and_split_back(owners):
    arrays = []
    for number, (rows, seed) in enumerate(owners):
        array = np.empty((rows, 2), object)
        array[:] = b"w%d.%d" % (number, seed)
        arrays.append(array)
    case = Case(TensorSpec("x", "BYTES", (None, 2)), arrays, None, 1)
    run = case.assemble(Slab())
    assert run.dtype == object
    owned = split(
        {"x": run},
        rows=[len(array) for array in arrays],
        lengths=[1] * len(arrays),
        length=1,
        layouts={},
    )
    assert [one["x"].tolist() for one in owned] == [array.tolist() for array in arrays]


@pytest.mark.parametrize("output", [np.zeros((2, 4)), np.zeros((4, 3)), np.array(1.0)])
def test_another_number_of_rows_is_refused_where_it_cannot_be_told_whose_they_are(output):
    with pytest.raises(RowsMismatchError, match="for 3 rows; expected 3 as its first dimension"):
        split({"y": output}, rows=[1, 2], lengths=[1, 1], length=1, layouts={})


def test_a_single_owner_takes_whatever_the_model_gave():
    output = np.zeros((2, 4))
    assert split({"y": output}, rows=[3], lengths=[1], length=1, layouts={})[0]["y"] is output


def test_only_tied_outputs_are_cut():
    outputs = {"tied": np.arange(12).reshape(2, 6), "free": np.arange(12).reshape(2, 6)}
    short, long = split(
        outputs, rows=[1, 1], lengths=[2, 6], length=6, layouts={"tied": Layout(ties=(Tie(1),))}
    )
    assert short["tied"].tolist() == [[0, 1]]
    assert short["free"].tolist() == [[0, 1, 2, 3, 4, 5]]
    assert long["tied"].tolist() == [[6, 7, 8, 9, 10, 11]]
