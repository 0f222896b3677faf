"""What a model admits: every way in which inputs can be wrong, and what the client is told."""

import numpy as np
import pytest

from xirang.core.policy import Policy
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.extent import EXTENTS_MAX, Extent, Shapes
from xirang.engine.model import Model
from xirang.errors import InvalidRequest
from xirang.tensors.tensor import Tensor, of_array, to_array


class NoExecutable:
    platform = "none"


def model_of(*inputs, is_batched=True, can_pad=True, length_max=None, **axes):
    signature = Signature(
        inputs, (), is_batched, {name: Layout(ties=(Tie(axis),)) for name, axis in axes.items()}
    )
    policy = Policy(can_pad=can_pad)
    shapes = Shapes((0,) if can_pad else (), length_max)
    return Model("m", NoExecutable(), signature, policy, budget_ns=1, shapes=shapes)


def text_model(**fields):
    return model_of(
        TensorSpec("ids", "INT64", ("batch", "length")),
        TensorSpec("mask", "INT64", ("batch", "length")),
        ids=1,
        mask=1,
        **fields,
    )


def fixed_model():
    return model_of(TensorSpec("x", "FP32", (None, 4)))


def zeros(*shape, dtype=np.int64):
    return of_array(np.zeros(shape, dtype))


def words(*shape):
    return of_array(np.full(shape, b"word", object))


def both(ids, mask=None):
    return {"ids": ids, "mask": ids if mask is None else mask}


WRONG = {
    "no inputs": (text_model, {}, ["missing inputs ['ids', 'mask']", "expected exactly"]),
    "one missing": (text_model, {"ids": zeros(1, 3)}, ["missing inputs ['mask']"]),
    "one too many": (
        text_model,
        both(zeros(1, 3)) | {"z": zeros(1, 3)},
        ["unknown inputs ['z']", "expected exactly ['ids', 'mask']"],
    ),
    "another name": (
        text_model,
        {"ids": zeros(1, 3), "musk": zeros(1, 3)},
        ["missing inputs ['mask']"],
    ),
    "another datatype": (
        fixed_model,
        {"x": zeros(1, 4)},
        ["input 'x' of model 'm' has datatype INT64; expected FP32"],
    ),
    "words for numbers": (fixed_model, {"x": words(1, 4)}, ["datatype BYTES; expected FP32"]),
    "rank too low": (
        fixed_model,
        {"x": zeros(4, dtype=np.float32)},
        ["has shape [4]; expected [-1, 4]"],
    ),
    "rank too high": (
        fixed_model,
        {"x": zeros(1, 4, 1, dtype=np.float32)},
        ["has shape [1, 4, 1]; expected [-1, 4]"],
    ),
    "no axes": (fixed_model, {"x": zeros(dtype=np.float32)}, ["has shape []; expected [-1, 4]"]),
    "a wrong fixed dim": (
        fixed_model,
        {"x": zeros(2, 5, dtype=np.float32)},
        ["has shape [2, 5]; expected [-1, 4]"],
    ),
    "no rows": (
        fixed_model,
        {"x": zeros(0, 4, dtype=np.float32)},
        ["has shape [0, 4]", "none of them 0"],
    ),
    "length 0": (text_model, both(zeros(1, 0)), ["has shape [1, 0]", "none of them 0"]),
    "a negative dim": (
        fixed_model,
        {"x": Tensor("FP32", (-1, 4), b"")},
        ["has shape [-1, 4]; expected"],
    ),
    "too few bytes": (
        fixed_model,
        {"x": Tensor("FP32", (1, 4), bytes(15))},
        ["has 15 bytes", "for shape [1, 4] of FP32"],
    ),
    "too many bytes": (fixed_model, {"x": Tensor("FP32", (1, 4), bytes(17))}, ["has 17 bytes"]),
    "an absurd shape": (
        fixed_model,
        {"x": Tensor("FP32", (2**62, 4), bytes(16))},
        ["has 16 bytes", str(2**62)],
    ),
    "rows differ": (
        text_model,
        both(zeros(2, 3), zeros(1, 3)),
        ["has 1 rows, another has 2", "the same first dimension"],
    ),
    "lengths differ": (
        text_model,
        both(zeros(1, 3), zeros(1, 4)),
        ["has 4 along axis 1, another input has 3"],
    ),
    "too long": (
        lambda: text_model(length_max=5),
        both(zeros(1, 6)),
        ["a row of 6 is too long", "expected at most 5"],
    ),
    "symbols differ": (
        lambda: model_of(TensorSpec("x", "FP32", (None, "n", "n"))),
        {"x": zeros(1, 2, 3, dtype=np.float32)},
        ["has 3 along axis 2, another input has 2"],
    ),
    "words missing": (
        lambda: model_of(TensorSpec("x", "BYTES", (None, 2))),
        {"x": Tensor("BYTES", (1, 2), [b"one"])},
        ["has 1 bytes or elements of data for shape [1, 2] of BYTES"],
    ),
    "another batch than the baked one": (
        lambda: model_of(TensorSpec("x", "FP32", (1, 4)), is_batched=False),
        {"x": zeros(2, 4, dtype=np.float32)},
        ["has shape [2, 4]; expected [1, 4]"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_are_told_what_is_wrong_and_what_was_expected(case):
    make, inputs, parts = WRONG[case]
    with pytest.raises(InvalidRequest) as caught:
        make().admit(inputs)
    assert caught.value.status == 400
    for part in parts:
        assert part in str(caught.value)


def test_what_is_right_is_measured():
    x = zeros(3, 4, dtype=np.float32)
    assert fixed_model().admit({"x": x}) == Extent(3, 1, None)
    assert text_model().admit(both(zeros(2, 7))) == Extent(2, 7, None, padded=(7,), own=(7,))
    assert text_model(length_max=7).admit(both(zeros(2, 7))) == Extent(
        2, 7, None, padded=(7,), own=(7,)
    )


def test_rows_that_may_not_be_padded_share_only_with_their_like():
    model = text_model(can_pad=False)
    short, other, long = (model.admit(both(zeros(1, n))) for n in (3, 3, 4))
    assert short.group == other.group != long.group
    assert (short.length, long.length) == (3, 4)


def test_other_varying_axes_keep_requests_apart():
    model = model_of(TensorSpec("x", "FP32", (None, "height", "width")))
    wide, tall = (
        model.admit({"x": zeros(1, *shape, dtype=np.float32)}) for shape in ((2, 6), (6, 2))
    )
    assert wide.group != tall.group
    assert wide.length == tall.length == 12, "as one number for the cost model"


def test_a_baked_batch_is_one_row():
    model = model_of(TensorSpec("x", "FP32", (2, 4)), is_batched=False)
    assert model.admit({"x": zeros(2, 4, dtype=np.float32)}).rows == 1


def test_the_memory_of_shapes_is_bounded_and_forgets_no_rule():
    model = text_model()
    for length in range(1, EXTENTS_MAX + 3):
        assert model.admit(both(Tensor("INT64", (1, length), bytes(8 * length)))).length == length
    assert len(model._gauge._extents) <= EXTENTS_MAX
    with pytest.raises(InvalidRequest):
        model.admit(both(Tensor("INT64", (1, 2), bytes(15))))


def frozen(*, shapes, datatype="INT64", **dims):
    """A model of one input whose length is axis 1."""
    (dim,) = dims.values() or (None,)
    spec = TensorSpec("x", datatype, (None, dim))
    signature = Signature((spec,), (), True, {"x": Layout(ties=(Tie(1),))})
    return Model("m", NoExecutable(), signature, Policy(), budget_ns=1, shapes=shapes)


def test_a_frozen_length_is_counted_in_full_and_cut_back_to_its_own():
    model = frozen(shapes=Shapes((0,), lengths=(4, 16)))
    for length, full in ((1, 4), (4, 4), (5, 16), (16, 16)):
        extent = model.admit({"x": zeros(2, length)})
        assert (extent.length, extent.padded, extent.own) == (full, (full,), (length,))
    with pytest.raises(InvalidRequest, match=r"a row of 17 is too long .* expected at most 16"):
        model.admit({"x": zeros(1, 17)})


def test_a_size_that_is_baked_in_takes_shorter_rows_where_they_may_be_padded():
    extent = frozen(shapes=Shapes((0,)), length=8).admit({"x": zeros(1, 3)})
    assert (extent.length, extent.own) == (8, (3,))
    with pytest.raises(InvalidRequest, match=r"a row of 3 does not fit .* expected one of \[8\]"):
        frozen(shapes=Shapes(), length=8).admit({"x": zeros(1, 3)})


@pytest.mark.parametrize(
    ("paddable", "length", "kept"), [((0,), 20, 16), ((), 20, 16), ((), 9, 4), ((0,), 9, 9)]
)
def test_what_is_too_long_is_cut_where_that_is_allowed(paddable, length, kept):
    model = frozen(shapes=Shapes(paddable, lengths=(4, 16), can_crop=True))
    array = np.arange(2 * length).reshape(2, length)
    inputs = {"x": of_array(array)}
    extent = model.admit(inputs)
    assert extent.own == (kept,)
    assert extent.is_cropped == (kept != length)
    assert to_array(model.prepare(inputs, extent)["x"]).tolist() == array[:, :kept].tolist()


def test_the_longest_length_is_kept_by_cutting_too():
    extent = frozen(shapes=Shapes((0,), 5, can_crop=True)).admit({"x": zeros(1, 7)})
    assert (extent.own, extent.length) == ((5,), 5)


def test_requests_share_a_run_only_if_what_all_rows_share_is_equal():
    specs = (TensorSpec("x", "FP32", (None, 4)), TensorSpec("rate", "INT64", ()))
    signature = Signature(specs, (), True, {"rate": Layout(batch_axis=None)})
    model = Model("m", NoExecutable(), signature, Policy(), budget_ns=1)
    x = zeros(2, 4, dtype=np.float32)
    one, same, other = (
        model.admit({"x": x, "rate": of_array(np.array(rate))}) for rate in (8, 8, 16)
    )
    assert one.group == same.group != other.group
    assert one.rows == 2


def test_rows_are_counted_along_whichever_axis_they_are_on():
    specs = (TensorSpec("x", "FP32", (None, 4)), TensorSpec("state", "FP32", (2, None, 3)))
    signature = Signature(specs, (), True, {"state": Layout(batch_axis=1)})
    model = Model("m", NoExecutable(), signature, Policy(), budget_ns=1)
    x, state = zeros(5, 4, dtype=np.float32), zeros(2, 5, 3, dtype=np.float32)
    assert model.admit({"x": x, "state": state}).rows == 5
    with pytest.raises(InvalidRequest, match="has 4 rows, another has 5; expected the same number"):
        model.admit({"x": x, "state": zeros(2, 4, 3, dtype=np.float32)})


def test_two_lengths_are_told_apart_and_multiplied():
    spec = TensorSpec("image", "UINT8", (None, 3, None, None))
    layouts = {"image": Layout(ties=(Tie(2, 0), Tie(3, 1)))}
    signature = Signature((spec,), (), True, layouts)
    image = {"image": zeros(1, 3, 4, 5, dtype=np.uint8)}
    free = Model("m", NoExecutable(), signature, Policy(), 1, shapes=Shapes((0, 1)))
    assert free.admit(image) == Extent(1, 20, None, (4, 5), (4, 5), (4, 5))
    equal = Model("m", NoExecutable(), signature, Policy(), 1, shapes=Shapes((1,)))
    assert equal.admit(image).group == (4,)


def test_only_a_mask_may_be_left_out_and_only_if_its_size_is_known():
    specs = [TensorSpec(name, "INT64", (None, None)) for name in ("ids", "mask")]
    layouts = {"ids": Layout(ties=(Tie(1),)), "mask": Layout(ties=(Tie(1),), is_mask=True)}
    model = Model("m", NoExecutable(), Signature(tuple(specs), (), True, layouts), Policy(), 1)
    inputs = {"ids": zeros(2, 3)}
    extent = model.admit(inputs)
    assert extent.missing == ("mask",)
    assert to_array(model.prepare(inputs, extent)["mask"]).tolist() == [[1] * 3] * 2
    with pytest.raises(InvalidRequest, match=r"missing inputs \['ids'\]"):
        model.admit({"mask": zeros(2, 3)})
    with pytest.raises(InvalidRequest, match=r"unknown inputs \['z'\]"):
        model.admit(inputs | {"z": zeros(2, 3)})


def test_a_request_whose_rows_change_each_other_is_whole_or_refused():
    spec = TensorSpec("x", "FP32", (None, 4))
    signature = Signature((spec,), (), is_batched=True)
    model = Model("m", NoExecutable(), signature, Policy(), 1, shapes=Shapes(rows_max=3))
    assert model.admit({"x": zeros(3, 4, dtype=np.float32)}).rows == 3
    with pytest.raises(
        InvalidRequest, match=r"4 rows is too large .* cannot be cut; expected at mo"
    ):
        model.admit({"x": zeros(4, 4, dtype=np.float32)})


def test_an_optional_input_is_left_out_and_nothing_is_made_in_its_place():
    """Who leaves out others shares no run with it."""
    specs = tuple(TensorSpec(name, "INT64", (None, None)) for name in ("x", "hint"))
    shapes = Shapes(optional=frozenset(["hint"]))
    model = Model("m", NoExecutable(), Signature(specs, (), True), Policy(), 1, shapes=shapes)
    alone, both = {"x": zeros(2, 3)}, {"hint": zeros(2, 3), "x": zeros(2, 3)}
    extent = model.admit(alone)
    assert model.prepare(alone, extent) == alone
    assert (
        extent.group != model.admit(both).group == model.admit(dict(reversed(both.items()))).group
    )
    with pytest.raises(InvalidRequest, match=r"missing inputs \['x'\]"):
        model.admit({"hint": zeros(2, 3)})
    with pytest.raises(InvalidRequest, match=r"unknown inputs \['z'\]"):
        model.admit(alone | {"z": zeros(2, 3)})
