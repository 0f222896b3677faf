"""What a model admits: every way in which inputs can be wrong, and what the client is told."""

import numpy as np
import pytest

from xirang.core.policy import Policy
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.model import EXTENTS_MAX, Extent, Model
from xirang.errors import InvalidRequest
from xirang.tensors.tensor import Tensor, of_array


class NoExecutable:
    platform = "none"


def model_of(*inputs, is_batched=True, can_pad=True, length_max=None, **axes):
    signature = Signature(
        inputs, (), is_batched, {name: Layout(ties=(Tie(axis),)) for name, axis in axes.items()}
    )
    policy = Policy(can_pad=can_pad)
    return Model("m", NoExecutable(), signature, policy, budget_ns=1, length_max=length_max)


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
    assert text_model().admit(both(zeros(2, 7))) == Extent(2, 7, None)
    assert text_model(length_max=7).admit(both(zeros(2, 7))) == Extent(2, 7, None)


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
    assert len(model._extents) <= EXTENTS_MAX
    with pytest.raises(InvalidRequest):
        model.admit(both(Tensor("INT64", (1, 2), bytes(15))))
