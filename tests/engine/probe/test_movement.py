"""Axes are what they are seen to be, whatever was declared."""

import numpy as np
import pytest
from tests.support.made import CountingClock, Made

from xirang.core.signature import ROWS_FIRST, Layout, TensorSpec, Tie
from xirang.engine.probe import SHARED, Declared, Kind, probe


def probed(executable, *, length_max=None, **declared):
    return probe(
        executable, rows_max=4, length_max=length_max, clock=CountingClock(), declared=declared
    )


def identity(dims, out_dims=None):
    return Made(lambda x: {"y": x}, {"x": dims}, {"y": out_dims or dims})


def test_rows_on_another_axis_and_a_scalar_that_all_share():
    """A step of a stateful model, as voice detectors have it."""

    def step(sound, state, sr):
        assert sr == 16_000
        return {"p": sound.mean(1, keepdims=True) + state[0, :, :1], "next": state * 2}

    findings = probed(
        Made(
            step,
            {"sound": ("batch", 12), "state": (2, "batch", 4), "sr": ()},
            {"p": ("batch", 1), "next": ("a", "batch", "c")},
            whole=("sr",),
        )
    )
    signature = findings.signature
    assert findings.kind is Kind.EXACT
    assert signature.input_layout("state").batch_axis == 1
    assert signature.input_layout("sr").batch_axis is None
    assert signature.output_layout("next").batch_axis == 1
    assert signature.outputs[1] == TensorSpec("next", "FP32", (2, "batch", 4))


@pytest.mark.parametrize("batch", ["batch", "N", None, "unk__749", "?", "DynamicDimension.0"])
def test_rows_are_found_under_any_name(batch):
    findings = probed(identity((batch, 3)))
    assert findings.kind is Kind.EXACT
    assert findings.signature.input_layout("x") == ROWS_FIRST


@pytest.mark.parametrize(
    ("dims", "axes"),
    [((None, None), (1,)), ((None, 3, None, None), (2, 3)), (("n", "h", "w", 3), (1, 2))],
)
def test_each_varying_axis_is_a_length(dims, axes):
    findings = probed(identity(dims))
    ties = tuple(Tie(axis, k) for k, axis in enumerate(axes))
    assert findings.signature.input_layout("x").ties == ties
    assert findings.signature.output_layout("y").ties == ties
    assert findings.signature.lengths == len(axes)
    assert findings.paddable == tuple(range(len(axes)))


def test_axes_that_only_go_together_are_one_length_whatever_their_names():
    findings = probed(
        Made(
            lambda a, b: {"y": a * b},
            {"a": ("N", "a_dim_1"), "b": ("N", "b_dim_1")},
            {"y": ("y_dim_0", "y_dim_1")},
        )
    )
    assert findings.signature.lengths == 1
    assert findings.signature.input_layout("b").ties == (Tie(1),)


def test_two_lengths_of_two_inputs_are_told_apart():
    """As a decoder's own tokens and its encoder's."""
    findings = probed(
        Made(
            lambda a, b: {"y": a + b.sum(1, keepdims=True)},
            {"a": ("batch", "own"), "b": ("batch", "other")},
            {"y": ("batch", "own")},
        )
    )
    assert findings.signature.input_layout("b").ties == (Tie(1, length=1),)
    assert findings.signature.output_layout("y").ties == (Tie(1, length=0),)


@pytest.mark.parametrize("stride", [1, 2, 4, 8])
@pytest.mark.parametrize("up", [True, False], ids=["rounded up", "rounded down"])
def test_an_output_that_follows_in_strides_is_cut_where_it_should(stride, up):
    def shorten(x):
        size = -(-x.shape[1] // stride) if up else x.shape[1] // stride
        return {"y": x[:, : size * stride : stride][:, :size]}

    findings = probed(Made(shorten, {"x": ("N", "L")}, {"y": ("N", "M")}))
    (tie,) = findings.signature.output_layout("y").ties
    for length in range(12, 100):
        expected = -(-length // stride) if up else length // stride
        assert tie.size(length) == expected
    assert findings.can_pad


def only(expected, axis):
    def run(x):
        if x.shape[axis] != expected:
            raise ValueError(f"Got invalid dimensions: index: {axis} Got: {x.shape[axis]}")
        return {"y": x.mean(axis, keepdims=True)}

    return run


@pytest.mark.parametrize("height", [3, 32, 48, 64, 224])
def test_an_axis_that_was_declared_free_and_is_not_is_told(height):
    findings = probed(Made(only(height, 2), {"x": (None, 2, "?", "w")}, {"y": (None,) * 4}))
    assert findings.signature.inputs[0].dims == (None, 2, height, "w")
    assert findings.signature.lengths == 1
    assert findings.signature.input_layout("x").ties == (Tie(3),)


def test_sizes_that_no_list_has_are_read_from_the_refusal():
    def run(x):
        if x.shape[1] != 77:
            raise ValueError(f"Got: {x.shape[1]} Expected: 77")
        return {"y": x}

    findings = probed(Made(run, {"x": ("N", "?")}, {"y": ("N", "?")}))
    assert findings.signature.inputs[0].dims == ("N", 77)


def test_two_unlike_sizes_are_found_in_pairs():
    def run(x):
        if x.shape[2:] != (48, 192):
            raise ValueError("no")
        return {"y": x.mean((2, 3))}

    findings = probed(Made(run, {"x": (None, 1, "?", "?")}, {"y": (None, 1)}))
    assert findings.signature.inputs[0].dims == (None, 1, 48, 192)


def test_a_declared_shape_that_is_wrong_is_corrected():
    """As a text reader that declares [1, length] and gives [length, 1, letters]."""
    findings = probed(
        Made(
            lambda x: {"y": np.repeat(x[0].T[::2, None], 5, 2)},
            {"x": (1, 1, "width")},
            {"y": (1, "seqlen")},
        )
    )
    assert findings.kind is Kind.BATCH_FIXED
    assert findings.signature.outputs[0].dims == (None, 1, 5)
    assert not findings.signature.is_batched


def test_a_batch_that_is_declared_free_and_is_not_runs_singly():
    def run(x):
        assert x.shape[0] == 1
        return {"y": x}

    findings = probed(Made(run, {"x": ("N", 4)}, {"y": ("N", 4)}))
    assert findings.kind is Kind.BATCH_FIXED
    assert findings.signature.inputs[0].dims == (1, 4)


def test_a_batch_that_is_frozen_to_more_than_one_is_filled_up():
    findings = probed(identity((8, 4)))
    assert findings.kind is Kind.EXACT
    assert (findings.signature.is_batched, findings.signature.rows_fixed) == (True, 8)


def test_rows_that_only_look_frozen_are_not_rows():
    findings = probed(Made(lambda x: {"y": x - x.mean(0)}, {"x": (3, 4)}, {"y": (3, 4)}))
    assert findings.kind is Kind.BATCH_FIXED
    assert findings.signature.rows_fixed is None


def test_an_output_that_is_the_same_for_all_has_no_rows():
    table = np.arange(5, dtype=np.float32)
    findings = probed(
        Made(lambda x: {"y": x, "table": table}, {"x": ("N", 2)}, {"y": ("N", 2), "table": (5,)})
    )
    assert findings.kind is Kind.EXACT
    assert findings.signature.output_layout("table").batch_axis is None


def test_only_some_lengths_may_be_padded():
    def run(x):
        return {"y": x - x.mean(1, keepdims=True)}

    findings = probed(Made(run, {"x": ("N", "h", "w")}, {"y": ("N", "h", "w")}))
    assert (findings.paddable, findings.can_pad) == ((1,), False)
    assert "of its 2 lengths, 0 must be equal" in findings.verdict


def test_small_vocabularies_are_found_by_refusals():
    table = np.eye(4, dtype=np.float32)

    def run(ids):
        if ids.max() >= 4:
            raise IndexError("idx=9 must be within the inclusive range [-4,3]")
        return {"y": table[ids]}

    findings = probed(Made(run, {"ids": ("N", "L")}, {"y": ("N", "L", 4)}, whole=("ids",)))
    assert findings.kind is Kind.EXACT


def test_what_an_operator_declares_is_believed():
    def run(x, shared):
        if x.shape[2] != 37 or x.max() > 1:
            raise ValueError("no")
        return {"y": x + shared}

    findings = probed(
        Made(run, {"x": ("L", "N", "?"), "shared": ("s",)}, {"y": ("L", "N", "?")}),
        x=Declared(batch_axis=1, lengths=(0,), sizes=(0, 0, 37), range=(0, 1), pad=0),
        shared=Declared(batch_axis=SHARED, lengths=(), sizes=(37,)),
    )
    assert findings.kind is Kind.EXACT
    assert findings.signature.inputs[0].dims == ("L", "N", 37)
    assert findings.signature.input_layout("x") == Layout(1, (Tie(0),))
    assert findings.signature.input_layout("shared").batch_axis is None


def test_lengths_are_counted_as_they_are_told():
    findings = probed(identity(("N", "h", "w")), x=Declared(lengths=(2, 1)))
    assert findings.signature.input_layout("x").ties == (Tie(1, length=1), Tie(2, length=0))


def test_what_is_told_to_be_no_mask_is_none():
    def run(x, valid):
        return {"y": x * valid}

    made = Made(run, {"x": ("N", "L"), "valid": ("N", "L")}, {"y": ("N", "L")}, whole=("valid",))
    assert probed(made).signature.input_layout("valid").is_mask
    told = probed(made, valid=Declared(mask=False))
    assert not told.signature.input_layout("valid").is_mask


def test_an_output_that_is_longer_than_the_input_is_cut_back_too():
    """Each element twice, as where a picture is enlarged; with two more at the end."""

    def longer(x):
        twice = np.repeat(x, 2, axis=1)
        return {"y": twice, "z": np.concatenate([twice, twice[:, -2:] * 0], axis=1)}

    made = Made(longer, {"x": ("n", "length")}, {"y": ("n", "twice"), "z": ("n", "more")})
    findings = probed(made)
    assert findings.signature.output_layout("y").ties == (Tie(1, factor=2),)
    assert findings.signature.output_layout("z").ties == (Tie(1, offset=2, factor=2),)
    assert (findings.kind, findings.paddable) == (Kind.EXACT, (0,))
