"""Whatever a model's axes mean, each request gets its own data back from a shared run."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.support.puppets import ManualClock

from xirang.backends.python import PythonExecutable
from xirang.core.policy import Policy
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.extent import Shapes
from xirang.engine.model import Model
from xirang.engine.work import ListWork, Member, PackedWork, TensorWork, work_of
from xirang.errors import InvalidRequest
from xirang.tensors.packed import OFFSETS
from xirang.tensors.split import RowsMismatchError
from xirang.tensors.tensor import NUMPY_TYPES, of_array


@dataclass
class Echo:
    """Gives every input back as an output of the same name, and notes what it saw."""

    inputs: tuple
    seen: list = field(default_factory=list)
    platform = "echo"
    is_reentrant = keeps_inputs = True

    @property
    def outputs(self):
        return self.inputs

    def run(self, inputs, wanted):
        self.seen.append(dict(inputs))
        return {name: inputs[name] for name in wanted}


@dataclass
class House:
    """A model that echoes, and requests to it as plain arrays."""

    model: Model

    @classmethod
    def of(cls, specs, layouts, shapes, *, is_batched=True, **fields):
        signature = Signature(specs, specs, is_batched, layouts, layouts)
        policy = Policy(can_pad=bool(shapes.paddable))
        executable = Echo(specs)
        return cls(Model("m", executable, signature, policy, 1, shapes=shapes, **fields))

    def member(self, arrays, wanted=None):
        tensors = {name: of_array(array) for name, array in arrays.items()}
        extent = self.model.admit(tensors)
        inputs = self.model.prepare(tensors, extent)
        return Member(inputs, extent, wanted or self.model.output_names)

    def run(self, *members):
        results, done = work_of(self.model)(members, clock=ManualClock())
        assert done.ran_ns >= done.assemble_ns
        return results

    @property
    def seen(self):
        return self.model.executable.seen[-1]


def values(draw, shape, datatype):
    dtype = NUMPY_TYPES[datatype]
    raw = np.random.default_rng(draw(st.integers(0, 99))).integers(1, 100, shape)
    if dtype.hasobject:
        words = np.empty(shape, object)
        words[...] = np.vectorize(lambda n: b"w%d" % n, otypes=[object])(raw) if raw.size else b""
        return words
    return raw.astype(dtype)


@st.composite
def houses(draw):
    """Rows on any axis, shared inputs, masks, up to three lengths, frozen or not."""
    lengths = draw(st.integers(0, 3))
    specs, layouts = [], {}
    for number in range(draw(st.integers(1, 3))):
        tied = draw(st.permutations(range(lengths)))
        if number:  # the first input has all lengths, others have some of them
            tied = tied[: draw(st.integers(0, lengths))]
        axes = draw(st.permutations(range(1 + len(tied) + draw(st.integers(0, 1)))))
        ties = tuple(Tie(axis, length) for axis, length in zip(axes[1:], tied, strict=False))
        dims = [2] * len(axes)  # what is neither rows nor a length is fixed
        for axis in axes[: 1 + len(ties)]:
            dims[axis] = None
        is_mask = bool(number) and draw(st.booleans())
        datatype = "INT64" if is_mask else draw(st.sampled_from(["INT64", "FP32", "BOOL", "BYTES"]))
        layouts[f"x{number}"] = Layout(axes[0], ties, draw(st.sampled_from([0, 1])), is_mask)
        specs.append(TensorSpec(f"x{number}", datatype, tuple(dims)))
    if draw(st.booleans()):
        specs.append(TensorSpec("shared", "INT64", ()))
        layouts["shared"] = Layout(batch_axis=None)
    shapes = Shapes(
        paddable=tuple(sorted(draw(st.sets(st.integers(0, 2))) & set(range(lengths)))),
        lengths=draw(st.sampled_from([(), (2, 4, 8)])),
        row_sizes=draw(st.sampled_from([(), (4, 8)])),
        can_crop=draw(st.booleans()),
    )
    return House.of(tuple(specs), layouts, shapes)


def request(draw, model):
    """One request's arrays, and whatever it leaves out."""
    rows = draw(st.integers(1, 3))
    lengths = [draw(st.sampled_from([1, 2, 3, 4, 8, 9])) for _ in range(model.signature.lengths)]
    arrays = {}
    for spec in model.signature.inputs:
        layout = model.signature.input_layout(spec.name)
        shape = list(spec.shape)
        for tie in layout.ties:
            shape[tie.axis] = lengths[tie.length]
        if layout.batch_axis is not None:
            shape[layout.batch_axis] = rows
        if layout.batch_axis is None:
            arrays[spec.name] = np.array(draw(st.integers(0, 1)))
        elif not (layout.is_mask and draw(st.booleans())):
            arrays[spec.name] = values(draw, shape, spec.datatype)
    return arrays


def cut(array, layout, lengths):
    index = [slice(None)] * array.ndim
    for tie in layout.ties:
        index[tie.axis] = slice(lengths[tie.length])
    return array[tuple(index)]


def naive_input(model, spec, requests, members, filler):
    """One input of a run by numpy's own padding and concatenation."""
    layout = model.signature.input_layout(spec.name)
    targets = [max(sizes) for sizes in zip(*(m.extent.padded for m in members), strict=True)]
    arrays = []
    for arrays_of_one, member in zip(requests, members, strict=True):
        array = arrays_of_one.get(spec.name)
        if array is None:
            shape = list(spec.shape)
            for tie in layout.ties:
                shape[tie.axis] = member.extent.own[tie.length]
            shape[layout.batch_axis] = member.extent.rows
            array = np.full(shape, 1 - layout.pad_value, NUMPY_TYPES[spec.datatype])
        array = cut(array, layout, member.extent.own)
        if layout.batch_axis is None:
            return array
        widths = [(0, 0)] * array.ndim
        for tie in layout.ties:
            widths[tie.axis] = (0, targets[tie.length] - array.shape[tie.axis])
        pad = b"" if array.dtype.hasobject else array.dtype.type(layout.pad_value)
        arrays.append(np.pad(array, widths, constant_values=pad))
    arrays += [np.take(arrays[0], [0], layout.batch_axis)] * filler
    return np.concatenate(arrays, layout.batch_axis)


@settings(max_examples=300)
@given(st.data())
def test_everybody_gets_exactly_its_own_rows_and_lengths_back(data):
    house = data.draw(houses())
    model, names = house.model, house.model.output_names
    by_group = {}
    for _ in range(data.draw(st.integers(1, 6))):
        arrays = request(data.draw, model)
        wanted = data.draw(st.sampled_from([names, names[:1], names[-1:]]))
        try:
            member = house.member(arrays, wanted)
        except InvalidRequest:  # of no size that the model is frozen to
            assert model.shapes.lengths
            continue
        by_group.setdefault(member.extent.group, []).append((arrays, member))
    for pairs in by_group.values():
        requests, members = [arrays for arrays, _ in pairs], [member for _, member in pairs]
        results = house.run(*members)
        rows = sum(member.extent.rows for member in members)
        sizes = [size for size in model.shapes.row_sizes if size >= rows]
        filler = sizes[0] - rows if sizes else 0
        for spec in model.signature.inputs:
            naive = naive_input(model, spec, requests, members, filler)
            assert house.seen[spec.name].shape == naive.shape
            assert house.seen[spec.name].tolist() == naive.tolist()
        for arrays, member, result in zip(requests, members, results, strict=True):
            assert list(result) == [name for name in names if name in member.wanted]
            for name, array in result.items():
                layout = model.signature.output_layout(name)
                own = arrays.get(name)
                if own is None:
                    assert (array == layout.real_value).all()
                    continue
                assert array.tolist() == cut(own, layout, member.extent.own).tolist()


TEXT = (TensorSpec("x", "INT64", (None, None)), TensorSpec("mask", "INT64", (None, None)))
TIED = {"x": Layout(ties=(Tie(1),)), "mask": Layout(ties=(Tie(1),), is_mask=True)}


def row(*numbers):
    return np.array([numbers], np.int64)


def test_a_mask_that_was_left_out_is_made_and_padded():
    house = House.of(TEXT, TIED, Shapes((0,)))
    short, long = house.member({"x": row(5, 6)}), house.member({"x": row(7, 8, 9)})
    house.run(short, long)
    assert house.seen["mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert house.seen["x"].tolist() == [[5, 6, 0], [7, 8, 9]]


def test_a_frozen_model_is_filled_up_along_every_axis():
    house = House.of(TEXT, TIED, Shapes((0,), lengths=(4, 8), row_sizes=(4,)))
    (only,) = house.run(house.member({"x": row(5, 6, 7)}))
    assert house.seen["x"].shape == (4, 4)
    assert house.seen["mask"].tolist() == [[1, 1, 1, 0]] * 4
    assert only["x"].tolist() == [[5, 6, 7]]


def test_half_of_a_run_pads_less_than_the_whole():
    house = House.of(TEXT, TIED, Shapes((0,)))
    members = [house.member({"x": row(1)}), house.member({"x": row(1, 2, 3)})]
    house.run(*members)
    assert house.seen["x"].shape == (2, 3)
    house.run(members[0])
    assert house.seen["x"].shape == (1, 1)


def test_what_is_never_batched_goes_through_as_it_is():
    specs = (TensorSpec("x", "INT64", (2, None)),)
    house = House.of(specs, {}, Shapes(), is_batched=False)
    array = np.arange(6).reshape(2, 3)
    (only,) = house.run(house.member({"x": array}))
    assert only["x"].tolist() == array.tolist()


class FirstRowOnly(Echo):
    def run(self, inputs, wanted):
        return {name: inputs[name][:1] for name in wanted}


@pytest.mark.parametrize("is_probed", [True, False])
def test_the_rows_of_a_lone_request_are_checked_if_the_model_is_known(is_probed):
    house = House.of(TEXT[:1], {"x": TIED["x"]}, Shapes(), is_probed=is_probed)
    house.model.executable = FirstRowOnly(TEXT[:1])
    member = house.member({"x": np.ones((2, 3), np.int64)})
    if is_probed:
        with pytest.raises(RowsMismatchError, match="for 2 rows; expected 2 along axis 0"):
            house.run(member)
    else:
        assert house.run(member)[0]["x"].shape == (1, 3)


def sums(items):
    sums.shapes = [item["x"].shape for item in items]
    return [
        {"total": item["x"].sum(), "back": item["x"][::-1], "said": item["word"]} for item in items
    ]


sums.inputs = {"x": ("INT64", [-1]), "word": ("BYTES", [])}
sums.outputs = {"total": ("INT64", []), "back": ("INT64", [-1]), "said": ("BYTES", [])}
sums.ragged = True


def test_a_callable_that_takes_lists_gets_rows_of_any_length_in_one_call():
    executable = PythonExecutable(sums, name="sums")
    signature = Signature(executable.inputs, executable.outputs, is_batched=True)
    model = Model("m", executable, signature, Policy(), 1, shapes=Shapes(is_ragged=True))
    assert isinstance(work_of(model), ListWork)
    house = House(model)
    two = np.array([[b"a"], [b"b"]], object)[:, 0]
    members = [
        house.member({"x": np.array([[1, 2], [3, 4]]), "word": two}),
        house.member({"x": row(5), "word": two[:1]}, wanted=("back",)),
    ]
    assert {member.extent.group for member in members} == {None}
    first, second = house.run(*members)
    assert sums.shapes == [(2,), (2,), (1,)]
    assert first["total"].tolist() == [3, 7]
    assert first["back"].tolist() == [[2, 1], [4, 3]]
    assert first["said"].tolist() == [b"a", b"b"]
    assert {name: array.tolist() for name, array in second.items()} == {"back": [[5]]}


class PackedEcho(Echo):
    is_packed = True


def test_a_packed_model_gets_its_rows_end_to_end():
    layouts = {"x": Layout(ties=(Tie(1),))}
    house = House.of(TEXT[:1], layouts, Shapes((0,), is_ragged=True))
    house.model.executable = PackedEcho(TEXT[:1])
    assert isinstance(work_of(house.model), PackedWork)
    members = [house.member({"x": np.array([[1, 2], [3, 4]])}), house.member({"x": row(5, 6, 7)})]
    results = house.run(*members)
    assert house.seen["x"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert house.seen[OFFSETS].tolist() == [0, 2, 4, 7]
    assert [result["x"].tolist() for result in results] == [[[1, 2], [3, 4]], [[5, 6, 7]]]


def test_a_plain_model_is_worked_on_as_tensors():
    assert isinstance(work_of(House.of(TEXT, TIED, Shapes((0,))).model), TensorWork)
