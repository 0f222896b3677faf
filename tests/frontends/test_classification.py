"""Classes of an output, as Triton writes them."""

import numpy as np
import pytest

from xirang.errors import InvalidRequest
from xirang.frontends.v2.classification import classified


def best(values, count, dtype="f4", labels=(), *, is_batched=True):
    array = np.array(values, dtype)
    found = classified(array, count, labels=labels, is_batched=is_batched, name="y")
    return (
        [[e.decode() for e in row] for row in found] if is_batched else [e.decode() for e in found]
    )


def test_the_best_come_first_with_their_places():
    assert best([[1, 2]], 2) == [["2.000000:1", "1.000000:0"]]
    assert best([[1, 2], [4, 3]], 1) == [["2.000000:1"], ["4.000000:0"]]


def test_no_more_than_there_are():
    assert best([[1, 2]], 9) == [["2.000000:1", "1.000000:0"]]


def test_labels_are_told_where_there_are_some():
    labels = ("cat", "", "dog")
    assert best([[1, 2, 3, 4]], 4, labels=labels) == [
        ["4.000000:3", "3.000000:2:dog", "2.000000:1", "1.000000:0:cat"]
    ]


def test_integers_are_written_as_such():
    assert best([[1, 2, 2], [-4, 5, -6]], 2, "i8") == [["2:1", "2:2"], ["5:1", "-4:0"]]
    assert best([[0, 2**64 - 1]], 2, "u8") == [["18446744073709551615:1", "0:0"]]
    assert best([[-(2**63), 2**63 - 1]], 2, "i8") == [
        ["9223372036854775807:1", "-9223372036854775808:0"]
    ]


def test_what_is_no_number_comes_last():
    assert best([[3, 3, np.nan, np.inf]], 4) == [["inf:3", "3.000000:0", "3.000000:1", "nan:2"]]


def test_all_of_a_row_is_one_list_of_classes():
    assert best([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], 2) == [
        ["4.000000:3", "3.000000:2"],
        ["8.000000:3", "7.000000:2"],
    ]
    assert best([[1, 2], [3, 4]], 2, is_batched=False) == ["4.000000:3", "3.000000:2"]
    assert best([[1, 2]], 1, "f2") == [["2.000000:1"]]


@pytest.mark.parametrize("array", [np.array([["a"]], object), np.array([[True]])])
def test_what_has_no_order_has_no_classes(array):
    with pytest.raises(InvalidRequest, match="class result not available for output 'y'"):
        classified(array, 1, labels=(), is_batched=True, name="y")
