"""Assemble, run, split is the identity: nobody's bytes are lost, mixed or leaked.

Whatever the axes mean (rows anywhere, up to three lengths, inputs that all rows share), a run's
array is that of numpy's own padding and concatenation, and each owner gets its own data back.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

from xirang.core.signature import ROWS_FIRST, Layout, TensorSpec, Tie
from xirang.tensors.assemble import Stack
from xirang.tensors.split import RowsMismatchError, Shares, split
from xirang.tensors.tensor import NUMPY_TYPES, of_array, to_array

DATATYPES = list(NUMPY_TYPES)


@dataclass
class Case:
    """One input, and what several owners send for it."""

    spec: TensorSpec
    layout: Layout
    arrays: list
    lengths: list
    target: tuple
    filler: int = 0

    @property
    def rows(self):
        axis = self.layout.batch_axis
        return [1 if axis is None else array.shape[axis] for array in self.arrays]

    @property
    def shares(self):
        return Shares(self.rows, self.lengths, self.target, sum(self.rows) + self.filler)

    def assembled(self, stack=None, take=None):
        stack = stack or Stack(self.spec, self.layout)
        return stack(
            [of_array(array) for array in self.arrays],
            rows=sum(self.rows),
            target=self.target,
            filler=self.filler,
            take=take,
        )

    def naive(self):
        """By numpy's own padding and concatenation."""
        axis, dtype = self.layout.batch_axis, NUMPY_TYPES[self.spec.datatype]
        pad = b"" if dtype.hasobject else dtype.type(self.layout.pad_value)
        arrays = list(self.arrays)
        if axis is None:
            arrays = arrays[:1]
        else:
            arrays += [np.take(arrays[0], [0], axis)] * self.filler
        padded = []
        for array in arrays:
            widths = [(0, 0)] * array.ndim
            for tie in self.layout.ties:
                widths[tie.axis] = (0, self.target[tie.length] - array.shape[tie.axis])
            padded.append(np.pad(array, widths, constant_values=pad))
        return padded[0] if axis is None else np.concatenate(padded, axis)


def filled(shape, datatype, seed):
    """No element is one that padding has, so that padding can be told from data."""
    dtype = NUMPY_TYPES[datatype]
    raw = np.random.default_rng(seed).integers(1, 100, shape)
    if dtype.hasobject:
        words = np.empty(shape, object)
        words[...] = np.vectorize(lambda n: b"w%d.%d" % (seed, n), otypes=[object])(raw)
        return words
    return np.ones(shape, dtype) if dtype.kind == "b" else raw.astype(dtype)


@st.composite
def layouts(draw, ndim, lengths):
    """Rows on any axis or on none, and each length on one of the others."""
    axes = draw(st.permutations(range(ndim)))
    batch_axis = axes[0] if draw(st.booleans()) or draw(st.booleans()) else None
    ties = tuple(Tie(axis, length) for length, axis in enumerate(axes[1 : lengths + 1]))
    if draw(st.booleans()) and lengths < ndim:  # the usual order: rows first, then the lengths
        batch_axis, ties = 0, tuple(Tie(length + 1, length) for length in range(lengths))
    return Layout(batch_axis, ties, draw(st.sampled_from([0, 0, 1])))


@st.composite
def cases(draw):
    lengths = draw(st.integers(0, 3))
    ndim = draw(st.integers(lengths + 1, 4))
    layout = draw(layouts(ndim, lengths))
    datatype = draw(st.sampled_from(DATATYPES))
    rest = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
    can_share = layout.batch_axis is not None
    arrays, owned = [], []
    for seed in range(draw(st.integers(1, 5)) if can_share else 1):
        shape = list(rest)
        own = tuple(draw(st.integers(1, 6)) for _ in range(lengths))
        for tie in layout.ties:
            shape[tie.axis] = own[tie.length]
        if can_share:
            shape[layout.batch_axis] = draw(st.sampled_from([1, 1, 2, 3]))
        arrays.append(filled(shape, datatype, seed))
        owned.append(own)
    more = draw(st.sampled_from([0, 0, 3]))
    target = tuple(max(sizes) + more for sizes in zip(*owned, strict=True))
    filler = draw(st.sampled_from([0, 0, 2])) if can_share else 0
    return Case(TensorSpec("x", datatype, (None,) * ndim), layout, arrays, owned, target, filler)


@given(cases())
def test_what_was_assembled_is_split_back_to_its_owners(case):
    run = case.assembled()
    assert run.dtype == NUMPY_TYPES[case.spec.datatype]
    assert run.tolist() == case.naive().tolist()
    parts = split({"x": run}, case.shares, {"x": case.layout})["x"]
    for array, part in zip(case.arrays, parts, strict=True):
        assert part.shape == array.shape
        assert part.tolist() == array.tolist()
        assert np.shares_memory(part, run), "split copies nothing"


class Ground:
    """Memory that somebody used before."""

    def __init__(self, size_bytes=1 << 16):
        self.bytes = np.full(size_bytes, 0x5A, np.uint8)

    def take(self, shape, dtype):
        if dtype.hasobject:
            return np.full(shape, None)
        return np.ndarray(tuple(shape), dtype, self.bytes, 64)


@given(cases())
def test_a_run_may_be_assembled_in_memory_that_is_given(case):
    ground = Ground()
    run = case.assembled(take=ground.take)
    assert run.dtype == NUMPY_TYPES[case.spec.datatype]
    assert run.tolist() == case.naive().tolist()
    assert run.dtype.hasobject or np.shares_memory(run, ground.bytes)
    assert (ground.bytes[:64] == 0x5A).all()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("length", [1000, 5000])
def test_large_parts_are_written_one_by_one(rows, length):
    arrays = [filled([rows, length - seed], "FP32", seed) for seed in range(4)]
    lengths = [(length - seed,) for seed in range(4)]
    spec, layout = TensorSpec("x", "FP32", (None, None)), Layout(0, (Tie(1),))
    case = Case(spec, layout, arrays, lengths, (length,))
    ground = Ground(1 << 20)
    assert (case.assembled(take=ground.take) == case.naive()).all()
    whole = Case(spec, layout, [arrays[0]] * 3, [lengths[0]] * 3, (length,))
    assert (whole.assembled(take=ground.take) == whole.naive()).all()


@given(st.lists(cases(), min_size=2, max_size=4))
def test_a_stack_that_is_used_again_shows_nothing_of_before(sequence):
    stacks = {}
    for case in sequence * 2:
        stack = stacks.setdefault((case.spec, case.layout), Stack(case.spec, case.layout))
        assert case.assembled(stack).tolist() == case.naive().tolist()


def test_runs_do_not_share_memory():
    case = Case(TensorSpec("x", "FP32", (None,)), ROWS_FIRST, [filled([3], "FP32", 0)], [()], ())
    stack = Stack(case.spec, case.layout)
    first, second = case.assembled(stack), case.assembled(stack)
    assert not np.shares_memory(first, second)
    assert first.flags.writeable


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64"])
def test_a_pad_value_beyond_a_type_is_the_nearest_it_holds(datatype):
    layout = Layout(0, (Tie(1),), -1e308)
    arrays = [filled([1, size], datatype, size) for size in (1, 3)]
    case = Case(TensorSpec("x", datatype, (None, None)), layout, arrays, [(1,), (3,)], (3,))
    assert (
        case.assembled()[0, 1:].tolist()
        == [max(-1e308, float(np.finfo(NUMPY_TYPES[datatype]).min))] * 2
    )


@given(cases(), st.integers(1, 3), st.integers(0, 2))
def test_tied_outputs_are_cut_by_their_own_rule(case, stride, offset):
    """A model that shortens what it is given, on whatever axis."""
    layout = case.layout
    ties = tuple(Tie(tie.axis, tie.length, stride, offset) for tie in layout.ties)
    own_layout = Layout(layout.batch_axis, ties)
    run = case.assembled()
    index = [slice(None)] * run.ndim
    for tie in ties:
        index[tie.axis] = np.arange(tie.size(case.target[tie.length])) % run.shape[tie.axis]
        run = run[tuple(index)]
        index[tie.axis] = slice(None)
    parts = split({"y": run}, case.shares, {"y": own_layout})["y"]
    begin = 0
    for part, own, rows in zip(parts, case.lengths, case.rows, strict=True):
        index = [slice(None)] * run.ndim
        for tie in ties:
            index[tie.axis] = slice(tie.size(own[tie.length]))
        if layout.batch_axis is not None:
            index[layout.batch_axis] = slice(begin, begin + rows)
        begin += rows
        assert part.tolist() == run[tuple(index)].tolist()


def shares_of(rows, lengths=None, target=(), total=None, **fields):
    return Shares(rows, lengths or [()] * len(rows), target, total or sum(rows), **fields)


@pytest.mark.parametrize("output", [np.zeros((2, 4)), np.zeros((4, 3)), np.array(1.0)])
@pytest.mark.parametrize("rows", [[1, 2], [3]])
def test_another_number_of_rows_is_refused(output, rows):
    with pytest.raises(RowsMismatchError, match="for 3 rows; expected 3 along axis 0"):
        split({"y": output}, shares_of(rows), {})


def test_a_lone_owner_takes_whatever_an_unknown_model_gave():
    output = np.zeros((2, 4))
    assert split({"y": output}, shares_of([3], is_strict=False), {})["y"][0] is output


def test_rows_that_fill_a_run_up_are_dropped():
    output = np.arange(8).reshape(4, 2)
    parts = split({"y": output}, shares_of([1, 2], total=4), {})["y"]
    assert [part.tolist() for part in parts] == [[[0, 1]], [[2, 3], [4, 5]]]
    (only,) = split({"y": output}, shares_of([1], total=4), {})["y"]
    assert only.tolist() == [[0, 1]]


def test_an_output_without_rows_goes_to_everybody():
    output = np.arange(3)
    parts = split({"y": output}, shares_of([1, 2]), {"y": Layout(batch_axis=None)})["y"]
    assert all(part is output for part in parts)
    assert len(parts) == 2


def test_only_tied_outputs_are_cut():
    outputs = {"tied": np.arange(12).reshape(2, 6), "free": np.arange(12).reshape(2, 6)}
    shares = shares_of([1, 1], [(2,), (6,)], (6,))
    parts = split(outputs, shares, {"tied": Layout(ties=(Tie(1),))})
    assert [part.tolist() for part in parts["tied"]] == [[[0, 1]], [[6, 7, 8, 9, 10, 11]]]
    assert parts["free"][0].tolist() == [[0, 1, 2, 3, 4, 5]]


def test_an_output_of_another_length_than_its_rule_says_is_refused():
    shares = shares_of([1, 1], [(2,), (6,)], (6,))
    with pytest.raises(RowsMismatchError, match="for rows of length 6; expected 6 along axis 1"):
        split({"y": np.zeros((2, 5))}, shares, {"y": Layout(ties=(Tie(1),))})


def test_a_shared_input_is_taken_as_it_is():
    stack = Stack(TensorSpec("rate", "INT64", ()), Layout(batch_axis=None))
    tensors = [of_array(np.array(16_000))] * 3
    assert stack(tensors, rows=3, target=()).tolist() == 16_000
    assert to_array(tensors[0]).shape == ()
