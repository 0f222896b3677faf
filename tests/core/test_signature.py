"""A signature as the scheduler's neighbours ask for it."""

from xirang.core.signature import Signature, TensorSpec

IDS = TensorSpec("input_ids", "INT64", (None, "length"))
MASK = TensorSpec("attention_mask", "INT64", (None, "length"))
POOLED = TensorSpec("pooled", "FP32", (None, 384))


def test_names_stand_in_the_order_of_the_model():
    signature = Signature((IDS, MASK), (POOLED,), True, {"input_ids": 1, "attention_mask": 1}, {})
    assert signature.input_names == ("input_ids", "attention_mask")
    assert signature.output_names == ("pooled",)


def test_a_client_sees_minus_one_where_a_size_may_vary():
    assert IDS.shape == (-1, -1)
    assert POOLED.shape == (-1, 384)
