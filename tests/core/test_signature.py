"""A signature as the scheduler's neighbours ask for it."""

from xirang.core.signature import ROWS_FIRST, Layout, Signature, TensorSpec, Tie

IDS = TensorSpec("input_ids", "INT64", (None, "length"))
MASK = TensorSpec("attention_mask", "INT64", (None, "length"))
POOLED = TensorSpec("pooled", "FP32", (None, 384))


def test_names_stand_in_the_order_of_the_model():
    signature = Signature((IDS, MASK), (POOLED,), True)
    assert signature.input_names == ("input_ids", "attention_mask")
    assert signature.output_names == ("pooled",)


def test_a_client_sees_minus_one_where_a_size_may_vary():
    assert IDS.shape == (-1, -1)
    assert POOLED.shape == (-1, 384)


def test_rows_stand_first_unless_a_layout_says_otherwise():
    state = Layout(batch_axis=1)
    signature = Signature((IDS, MASK), (POOLED,), True, {"input_ids": state})
    assert signature.input_layout("input_ids") is state
    assert signature.input_layout("attention_mask") is ROWS_FIRST
    assert signature.output_layout("pooled") is ROWS_FIRST


def test_the_lengths_of_a_request_are_counted_over_all_inputs():
    pixels = Layout(ties=(Tie(2, length=0), Tie(3, length=1)))
    assert Signature((IDS,), (POOLED,), True).lengths == 0
    assert Signature((IDS,), (POOLED,), True, {"input_ids": Layout(ties=(Tie(1),))}).lengths == 1
    assert Signature((IDS,), (POOLED,), True, {"input_ids": pixels}).lengths == 2


def test_a_tied_axis_may_be_shorter_than_what_it_follows():
    assert Tie(1).size(9) == 9
    assert Tie(1, stride=8).size(320) == 40
    assert Tie(1, stride=2, offset=1).size(9) == 5


def test_a_mask_has_the_opposite_of_its_padding_where_all_is_real():
    assert Layout(is_mask=True).real_value == 1
    assert Layout(is_mask=True, pad_value=1).real_value == 0
