"""Which sizes a model is run at to find the law of its memory."""

from types import SimpleNamespace

import pytest

from xirang.core.memory.fitting import Measured, fit
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.repository.tiny_runs import (
    LENGTHS,
    inputs_law,
    planned_lengths,
    tiny_lengths,
    tiny_sizes,
)

PICTURES = Signature(
    (TensorSpec("x", "FP32", ("n", 3, "h", "w")),),
    (),
    is_batched=True,
    input_layouts={"x": Layout(0, (Tie(2, length=0), Tie(3, length=1)))},
)


def test_lengths_that_a_model_takes_are_kept_to():
    assert tiny_lengths(()) == list(LENGTHS)
    assert tiny_lengths((1, 300)) == list(LENGTHS)
    assert tiny_lengths((32, 64, 96, 128)) == [32, 64, 96, 128]
    assert tiny_lengths((224,)) == [224]
    assert tiny_lengths((4, 12)) == [4, 12]


def test_small_sizes_come_first_and_none_twice():
    sizes = tiny_sizes(PICTURES, [(32, 33, 40, 64), (16, 17, 48)])
    assert sizes[0] == (1, (32, 16))
    areas = [rows * height * width for rows, (height, width) in sizes]
    assert areas == sorted(areas)
    assert len(set(sizes)) == len(sizes) < 40
    assert {rows for rows, _ in sizes} == {1, 2, 3}


@pytest.mark.parametrize(
    "size_of",
    [
        lambda b, n: 12 * b * n[0] * n[1],
        lambda b, n: 64 * b * -(-n[0] // 2) * -(-n[1] // 4) + 128,
        lambda b, n: 4 * b * (n[0] + 2) * (n[1] + 2),
        lambda b, n: 8 * b * (n[0] // 16) ** 2 * (n[1] // 16) ** 2,
        lambda b, n: 4 * b * (n[0] + n[1]) + 4 * n[0] * n[1],
        lambda b, n: b * n[0] * n[0] + b * n[1] * n[1],
    ],
)
def test_they_tell_what_kernels_take_of_two_lengths(size_of):
    sizes = tiny_sizes(PICTURES, [(16, 17, 19, 23, 32, 41, 48, 64, 96), (24, 25, 27, 30, 48, 67)])
    found, is_exact = fit([Measured(b, n, size_of(b, n)) for b, n in sizes])
    assert is_exact
    for lengths in ((512, 512), (16, 400), (481, 37)):
        assert found.bytes_at(9, lengths) >= size_of(9, lengths)
    assert found.bytes_at(9, (512, 512)) == size_of(9, (512, 512))


def test_what_inputs_take_is_worked_out_and_not_run():
    (law,) = inputs_law(PICTURES, tiny_sizes(PICTURES, ()))
    assert law.bytes_at(5, (100, 30)) == 4 * 5 * 3 * 100 * 30


def test_plans_are_made_for_octaves_and_for_what_is_long_one_way_only():
    shapes = SimpleNamespace(length_max=None)
    model = SimpleNamespace(shapes=shapes)
    assert planned_lengths(model, [(1, ()), (2, ())]) == [1]
    assert planned_lengths(model, [(1, (100,)), (1, (200,))]) == [100, 200, 400, 512]
    found = planned_lengths(model, [(1, (128, 256)), (1, (128, 300))])
    assert found == [(128, 256), (128, 512), (256, 512), (512, 256), (512, 512)]
