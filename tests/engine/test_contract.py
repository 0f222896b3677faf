"""What a model gives is held against what it promised."""

import numpy as np
import pytest

from xirang.core.signature import Signature, TensorSpec
from xirang.engine.contract import Contract, WrongOutputError
from xirang.tensors.split import RowsMismatchError

CONTRACT = Contract(
    Signature((), (TensorSpec("y", "FP32", (None, 2)), TensorSpec("word", "BYTES", (None,))), True)
)
RIGHT = {"y": np.zeros((3, 2), np.float32), "word": np.array([b"a"], object)}


def test_what_was_promised_passes_and_what_nobody_wants_is_not_looked_at():
    CONTRACT.check(RIGHT, ["y", "word"])
    CONTRACT.check({"y": RIGHT["y"]}, ["y"])
    CONTRACT.check_lists({"y": [np.zeros(2, np.float32)] * 3}, ["y"], 3)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"word": RIGHT["word"]}, "output 'y' is missing; expected FP32"),
        (RIGHT | {"y": np.zeros(3)}, "output 'y' is float64 of shape (3,); expected FP32"),
        (RIGHT | {"word": np.array(["a"])}, "output 'word' is <U1 of shape (1,); expected BYTES"),
    ],
)
def test_what_is_wrong_is_said_with_what_was_expected(outputs, words):
    with pytest.raises(WrongOutputError) as wrong:
        CONTRACT.check(outputs, ["y", "word"])
    assert str(wrong.value) == words


def test_lists_are_held_against_it_row_by_row():
    with pytest.raises(WrongOutputError, match="'y' is missing"):
        CONTRACT.check_lists({}, ["y"], 1)
    with pytest.raises(WrongOutputError, match="'y' is int64"):
        CONTRACT.check_lists({"y": [np.zeros(2, np.float32), np.zeros(2, np.int64)]}, ["y"], 2)
    with pytest.raises(RowsMismatchError, match="1 rows for 2"):
        CONTRACT.check_lists({"y": [np.zeros(2, np.float32)]}, ["y"], 2)
