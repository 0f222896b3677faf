"""What requests ask of outputs beside their form."""

import pytest

from xirang.errors import InvalidRequest
from xirang.frontends.v2.shared_memory import Place
from xirang.frontends.v2.special import Special, place_of, special_of

AT = {"shared_memory_region": "r", "shared_memory_byte_size": 8}


def test_nothing_special_is_none():
    assert special_of({}) is None
    assert special_of({"y": {"binary_data": True}, "z": {"classification": 0}}) is None
    assert place_of({"shared_memory_offset": 4}) is None


def test_classes_and_places():
    outputs = {"y": {"classification": 3}, "z": {**AT, "shared_memory_offset": 4}}
    assert special_of(outputs) == Special({"y": 3}, {"z": Place("r", 4, 8)})


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"classification": -1}, "'classification' must be an unsigned integer"),
        ({"classification": 1.0}, "'classification' must be an unsigned integer"),
        ({"classification": True}, "'classification' must be an unsigned integer"),
        ({"shared_memory_region": "r"}, "'shared_memory_byte_size' must be specified along with"),
        ({**AT, "shared_memory_region": 5}, "'shared_memory_region' must be a string"),
        ({**AT, "shared_memory_offset": -1}, "'shared_memory_offset' must be an unsigned"),
        ({**AT, "shared_memory_byte_size": 2**63}, "'shared_memory_byte_size' must be an unsigned"),
        ({**AT, "classification": 1}, "'shared_memory_region' and 'classification'"),
        ({**AT, "binary_data": True}, "'shared_memory_region' and 'binary_data'"),
    ],
)
def test_what_is_wrong_is_said(parameters, words):
    with pytest.raises(InvalidRequest) as caught:
        special_of({"y": parameters})
    assert words in str(caught.value)


def test_no_binary_data_is_no_contradiction():
    assert special_of({"y": {**AT, "binary_data": False}}).places == {"y": Place("r", 0, 8)}
