"""What counts as the same answer."""

import numpy as np
import pytest

from xirang.engine.probe.comparing import INCOMPARABLE, NONE, compare

ANSWER = np.array([1.0, -2.0, 0.001, 3.0], np.float32)


def test_the_same_bits_are_exact():
    difference = compare(ANSWER, ANSWER.copy())
    assert difference == NONE
    assert difference.is_exact
    assert difference.is_rounding


def test_not_a_number_is_itself():
    broken = np.array([1.0, np.nan, np.inf], np.float32)
    assert compare(broken, broken.copy()).is_exact
    assert compare(broken, np.array([1.0, 2.0, np.inf], np.float32)) == INCOMPARABLE


@pytest.mark.parametrize(("dtype", "moved"), [("f2", 2e-3), ("f4", 1e-5), ("f8", 1e-12)])
def test_a_little_is_rounding_and_ten_times_the_tolerance_is_not(dtype, moved):
    answer = ANSWER.astype(dtype)
    little = compare(answer, (answer * (1 + moved)).astype(dtype))
    assert little.is_rounding
    assert not little.is_exact
    assert not compare(answer, (answer * (1 + 100 * moved)).astype(dtype)).is_rounding


def test_a_small_number_is_held_against_its_whole_answer_and_a_large_one_against_itself():
    near = ANSWER + np.array([0, 0, 1e-5, 0], np.float32)
    assert compare(ANSWER, near).is_rounding
    quiet = np.full(8, 1e-6, np.float32)
    assert not compare(quiet, quiet * 2).is_rounding


@pytest.mark.parametrize("kind", [np.int64, np.bool_, np.uint8])
def test_whole_numbers_are_the_same_or_not(kind):
    answer = np.array([0, 1, 1], kind)
    other = np.array([0, 1, 0], kind)
    assert compare(answer, answer.copy()).is_exact
    assert not compare(answer, other).is_rounding


def test_words_and_shapes():
    words = np.array([b"a", b"b"], object)
    assert compare(words, words.copy()).is_exact
    assert compare(words, words[::-1]) == INCOMPARABLE
    assert compare(ANSWER, ANSWER[:2]) == INCOMPARABLE
    assert compare(ANSWER, ANSWER.astype(np.float64)) == INCOMPARABLE
    assert compare(ANSWER[:0], ANSWER[:0]).is_exact


def test_the_worse_of_two():
    little = compare(ANSWER, ANSWER * np.float32(1.00001))
    assert NONE.worst(little) == little
    assert little.worst(INCOMPARABLE) == INCOMPARABLE
