"""The generate extension: flat requests and answers, both ways."""

import json

import numpy as np
import orjson
import pytest
from tests.frontends.puppets import PuppetModel, spec

from xirang.errors import InvalidRequest
from xirang.frontends.v2.generate import decode, encode
from xirang.tensors.tensor import to_array

BATCHED = {"max_batch_size": 8}


def model(*dims, datatype="FP32", config=BATCHED):
    return PuppetModel("m", (spec("x", datatype, *dims),), (), config=config)


def wish(document, of):
    return decode(orjson.dumps(document), of)


@pytest.mark.parametrize(
    ("dims", "config", "value", "shape"),
    [
        ((None, None), BATCHED, [1, 2, 3], (1, 3)),
        ((None, None), BATCHED, 5, (1, 1)),
        ((None, 2), BATCHED, [1, 2], (1, 2)),
        ((None, None, None), BATCHED, [1, 2], (1, 1, 2)),
        ((None, None, 2), BATCHED, [1, 2, 3, 4], (1, 2, 2)),
        ((None, 2), {}, [1, 2, 3, 4], (2, 2)),
        ((None,), {}, [1, 2], (2,)),
        ((1,), {}, 7, (1,)),
    ],
)
def test_the_shape_follows_the_number_of_elements(dims, config, value, shape):
    tensor = wish({"x": value}, model(*dims, config=config)).inputs["x"]
    assert tensor.shape == shape
    assert to_array(tensor).ravel().tolist() == (value if isinstance(value, list) else [value])


def test_texts_and_booleans():
    assert wish({"x": "hello"}, model(None, 1, datatype="BYTES")).inputs["x"].data == [b"hello"]
    assert wish({"x": True}, model(None, 1, datatype="BOOL")).inputs["x"].data == b"\1"


def test_whatever_is_no_input_is_a_parameter():
    found = wish(
        {"x": 1, "id": "7", "timeout": 5, "foo": "x", "parameters": {"priority": 1, "bar": 2}},
        model(None, 1),
    )
    assert (found.id, found.budget_ns, found.priority) == ("7", 5000, 1)
    assert wish({}, model(None, 1)).inputs == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "failed to parse"),
        (b"", "failed to parse"),
        (b"[]", "must be an object"),
        (b'{"x":1,"id":5}', "'id' must be a string"),
        (b'{"x":1,"parameters":5}', "'parameters' of the request must be an object"),
        (b'{"x":1,"zz":{"a":1}}', "parameter 'zz' has invalid type"),
        (b'{"x":1,"zz":[1]}', "parameter 'zz' has invalid type"),
        (b'{"x":1,"triton_x":1}', "reserved for Triton"),
        (b'{"x":[[1,2]]}', "input 'x': "),
        (b'{"x":[1,2]}', "input 'x': 'data' has 2 elements, but 'shape' asks for 1"),
        (b'{"x":"a"}', "input 'x': 'data' of FP32 holds the string"),
        (b'{"x":true}', "holds a boolean"),
        (b'{"x":null}', "holds null"),
    ],
)
def test_what_is_wrong_is_said(body, words):
    with pytest.raises(InvalidRequest) as caught:
        decode(body, model(None, 1))
    assert words in str(caught.value)


def test_answers_are_flat():
    outputs = {
        "one": np.array([[1.5]], "f4"),
        "many": np.array([[1, 2], [3, 4]], "i8"),
        "text": np.array([["héllo"]], object),
        "none": np.empty((1, 0), "f4"),
    }
    found = json.loads(encode(outputs, ("m", "3"), identity="7"))
    assert found == {
        "one": 1.5,
        "many": [1, 2, 3, 4],
        "text": "héllo",
        "none": [],
        "id": "7",
        "model_name": "m",
        "model_version": "3",
    }
    assert "id" not in json.loads(encode({}, ("m", "3"), identity=""))
