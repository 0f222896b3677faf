"""Infer messages as bytes: goldens both ways, and everything that must be refused."""

import struct

import numpy as np
import orjson
import pytest
from tests.frontends.messages import MODEL, binary, body, pack, strings, tensor
from tests.frontends.puppets import PuppetModel, echo_model, spec

from xirang.errors import InvalidRequest, XirangError
from xirang.frontends.v2 import kserve
from xirang.frontends.v2.kserve import Wanted, decode
from xirang.frontends.v2.kserve_answer import encode
from xirang.frontends.v2.raw import decode_raw
from xirang.frontends.v2.shared_memory import Place, Regions
from xirang.frontends.v2.special import Special
from xirang.tensors.tensor import NUMPY_TYPES, Tensor

JSON_INPUTS = {
    "floats": (tensor(data=(1.5, -2)), pack("f", 1.5, -2)),
    "ints for floats": (tensor(data=(1, 2)), pack("f", 1, 2)),
    "double": (tensor("FP64", data=(0.1, 1e300)), pack("d", 0.1, 1e300)),
    "nested": (tensor(shape=(2, 2), data=[[1.5, 2], [3, 4]]), pack("f", 1.5, 2, 3, 4)),
    "nested otherwise": (tensor(shape=(2, 2), data=[[1, 2, 3, 4]]), pack("f", 1, 2, 3, 4)),
    "nested strings": (tensor("BYTES", data=[["a", "bc"]]), [b"a", b"bc"]),
    "bool": (tensor("BOOL", data=(True, False)), b"\1\0"),
    "uint8": (tensor("UINT8", data=(0, 255)), b"\0\xff"),
    "int8": (tensor("INT8", data=(-128, 127)), b"\x80\x7f"),
    "uint16": (tensor("UINT16", data=(1, 65535)), pack("H", 1, 65535)),
    "int16": (tensor("INT16", data=(-1, 1)), pack("h", -1, 1)),
    "uint32": (tensor("UINT32", data=(1, 2**32 - 1)), pack("I", 1, 2**32 - 1)),
    "int32": (tensor("INT32", data=(-1, 1)), pack("i", -1, 1)),
    "beyond 2^53": (tensor("INT64", (1, 1), (2**53 + 1,)), pack("q", 2**53 + 1)),
    "largest": (tensor("UINT64", (1, 1), (2**64 - 1,)), pack("Q", 2**64 - 1)),
    "bytes": (tensor("BYTES", data=("héllo", "")), ["héllo".encode(), b""]),
    "no elements": (tensor(shape=(1, 0), data=()), b""),
    "scalar": (tensor(shape=(), data=(3,)), pack("f", 3)),
    "unknown members": (dict(tensor(), zzz=1), pack("f", 1, 2)),
}


@pytest.mark.parametrize("name", JSON_INPUTS)
def test_json_input(name):
    given_input, expected = JSON_INPUTS[name]
    found = decode(body(given_input)).inputs["x"]
    assert found.data == expected
    assert found.shape == tuple(given_input["shape"])
    assert found.datatype == given_input["datatype"]


def test_what_is_no_number_is_read_as_clients_write_it():
    found = decode(NAN).inputs["x"]
    assert found.data == pack("f", float("nan"), float("inf"))
    whole = {"inputs": [tensor("INT32", data=(1, 2))], "id": "NaN"}
    assert decode(orjson.dumps(whole)).id == "NaN"
    with pytest.raises(InvalidRequest, match="expected integers"):
        decode(NAN.replace(b"FP32", b"INT32"))


@pytest.mark.parametrize("datatype", sorted(NUMPY_TYPES))
def test_binary_input(datatype):
    blob = (
        strings(b"ab", b"\0\xff")
        if datatype == "BYTES"
        else np.arange(2).astype(NUMPY_TYPES[datatype]).tobytes()
    )
    for _ in range(2):  # the second time its head is known
        sent, length = binary([tensor(datatype, data=None, binary_data_size=len(blob))], blob)
        found = decode(sent, length).inputs["x"]
        assert found.data == ([b"ab", b"\0\xff"] if datatype == "BYTES" else blob)


def test_large_binary_input_is_not_copied():
    blob = bytes(80_000)
    sent, length = binary([tensor(shape=(1, 20_000), data=None, binary_data_size=80_000)], blob)
    found = decode(sent, length).inputs["x"].data
    assert isinstance(found, memoryview)
    assert found.obj is sent


def test_binary_and_json_inputs_mixed():
    inputs = [
        tensor(name="a", data=None, binary_data_size=8),
        tensor("INT32", name="b", data=(3, 4)),
        tensor("BYTES", (1, 1), None, name="c", binary_data_size=5),
    ]
    sent, length = binary(inputs, pack("f", 1, 2), strings(b"z"), id="i")
    for _ in range(2):
        request = decode(sent, length)
        assert request.inputs == {
            "a": Tensor("FP32", (1, 2), pack("f", 1, 2)),
            "b": Tensor("INT32", (1, 2), pack("i", 3, 4)),
            "c": Tensor("BYTES", (1, 1), [b"z"]),
        }
        assert request.id == "i"


def test_known_heads_are_bounded(monkeypatch):
    monkeypatch.setattr(kserve, "HEADS_KEPT_MAX", 3)
    for identity in range(10):
        sent, length = binary([tensor(data=None, binary_data_size=8)], bytes(8), id=str(identity))
        assert decode(sent, length).id == str(identity)
        assert len(kserve._heads) <= 3


def test_members_of_the_request():
    request = decode(
        body(
            tensor(),
            id="abc",
            parameters={"priority": 2, "timeout": 1500, "foo": "bar", "f": 1.5, "b": True},
            outputs=[{"name": "y"}, {"name": "z", "parameters": {"binary_data": True}}],
            model_name="other",
        )
    )
    assert request.id == "abc"
    assert request.priority == 2
    assert request.budget_ns == 1_500_000
    assert request.wanted == Wanted(("y", "z"), frozenset({"z"}))


@pytest.mark.parametrize(
    ("members", "is_binary"),
    [
        ({}, False),
        ({"outputs": []}, False),
        ({"parameters": {"binary_data_output": True}}, True),
        ({"outputs": [{"name": "y"}], "parameters": {"binary_data_output": True}}, False),
        ({"outputs": [{"name": "y", "parameters": {"binary_data": True}}]}, True),
        ({"outputs": [{"name": "y"}, {"name": "y"}]}, False),
        ({"outputs": [{"name": "y", "parameters": {"classification": 0}}]}, False),
        ({"parameters": {"timeout": 0, "sequence_id": 5}}, False),
    ],
)
def test_form_of_outputs(members, is_binary):
    request = decode(body(tensor(), **members))
    assert request.wanted.is_binary("y") is is_binary
    assert request.budget_ns is None


NOT_JSON = [b"garbage", b'{"inputs":[', b"", b"\xff", b"[" * 5000, b'{"inputs":' + b"[" * 1000]
NAN = b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[NaN,Infinity]}]}'
DEEP = b'{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":%b1%b}]}'
HOSTILE = {
    **{f"not JSON {index}": (text, "failed to parse") for index, text in enumerate(NOT_JSON)},
    "almost NaN": (NAN.replace(b"NaN", b"Nan"), "failed to parse"),
    "Infinity, and nonsense": (NAN + b"}", "failed to parse"),
    "infinite": (body(tensor()).replace(b"[1,2]}", b"[1e999,2]}"), "failed to parse"),
    "nested bomb": (DEEP % (b"[" * 900, b"]" * 900), "nested deeper than 8"),
    "nested too deep": (DEEP % (b"[" * 9, b"]" * 9), "nested deeper than 8"),
    "array": (b"[]", "must be an object"),
    "no inputs": (b"{}", "'inputs' must be an array"),
    "inputs object": (b'{"inputs":{}}', "'inputs' must be an array"),
    "input not object": (body(5), "must be an object"),
    "id": (body(tensor(), id=5), "'id' must be a string"),
    "id null": (body(tensor(), id=None), "'id' must be a string"),
    "no name": (body({"shape": [1], "datatype": "FP32", "data": [1]}), "'name'"),
    "name": (body(tensor(name=3)), "'name'"),
    "no datatype": (body({"name": "x", "shape": [1], "data": [1]}), "'datatype' is null"),
    "datatype": (body(tensor("FLOAT")), "'datatype' is the string 'FLOAT'; expected one of BOOL"),
    "datatype list": (body(tensor([])), "'datatype' is an array"),
    "no shape": (body({"name": "x", "datatype": "FP32", "data": [1]}), "'shape' must be"),
    "shape negative": (body(tensor(shape=(1, -1))), "'shape' holds the number -1"),
    "shape text": (body(tensor(shape=("1", 2))), "'shape' holds the string '1'"),
    "shape fraction": (body(tensor(shape=(1.0, 2))), "'shape' holds the number 1.0"),
    "shape bool": (body(tensor(shape=(True, 2))), "'shape' holds a boolean"),
    "shape huge": (body(tensor(shape=(1, 2**63 - 1, 4))), "'data' has 2 elements"),
    "shape beyond": (body(tensor(shape=(1, 2**64 - 1))), "'shape' holds"),
    "rank": (body(tensor(shape=(1,) * 33)), "at most 32"),
    "too few": (body(tensor(shape=(1, 3))), "has 2 elements, but 'shape' asks for 3"),
    "too many": (body(tensor(shape=(1, 1))), "has 2 elements, but 'shape' asks for 1"),
    "shape absurd": (body(tensor(shape=(0, 2**62, 4), data=())), "'shape' is absurd"),
    "deep datatype": (
        body(tensor("?")).replace(b'"?"', b"[" * 900 + b"]" * 900),
        "'datatype' is an array",
    ),
    "deep axis": (body(tensor()).replace(b"[1,2]", b"[" * 900 + b"]" * 900, 1), "holds an array"),
    "long text": (body(tensor("z" * 9999)), "expected one of"),
    "no data": (body(tensor(data=None)), "must set only one"),
    "data scalar": (body(tensor(data=5)), "must be an array, got the number 5"),
    "data object": (body(tensor(data={"a": 1})), "must be an array, got an object"),
    "data null": (body(tensor(data=[None, 1])), "holds null"),
    "data text": (body(tensor(data=("1", "2"))), "holds the string '1' at 0; expected numbers"),
    "data bool": (body(tensor(data=(1.0, True))), "holds a boolean; expected numbers"),
    "data bool for int": (body(tensor("INT32", data=(False, 1))), "holds a boolean"),
    "data object within": (body(tensor(data=[{}, 1])), "holds an object"),
    "mixed nesting": (body(tensor(data=[[1], 2])), "nested evenly"),
    "mixed nesting, flat first": (body(tensor(data=[1, [2]])), "holds an array"),
    "mixed strings": (body(tensor("BYTES", data=[["a"], "b"])), "nested evenly"),
    "float too large": (body(tensor(data=(1e39, 1))), "out of range"),
    "fraction for int": (body(tensor("INT32", data=(1.5, 1))), "the number 1.5"),
    "float for int": (body(tensor("INT64", data=(1.0, 1))), "expected integers from"),
    "uint8 over": (body(tensor("UINT8", data=(300, 1))), "300 out of range at 0; expected"),
    "uint8 under": (body(tensor("UINT8", data=(1, -1))), "-1 out of range at 1"),
    "int64 over": (body(tensor("INT64", data=(2**63, 1))), "out of range"),
    "uint64 over": (
        body(tensor("UINT64", (1, 1), (7,))).replace(b"[7]", b"[18446744073709551616]"),
        "expected integers from 0 to 18446744073709551615",
    ),
    "bool number": (body(tensor("BOOL", data=(1, 0))), "expected true or false"),
    "bytes number": (body(tensor("BYTES", data=(5, 6))), "expected strings"),
    "bytes few": (body(tensor("BYTES", (1, 3), ("a", "b"))), "asks for 3"),
    "fp16": (body(tensor("FP16")), "receiving FP16 data via JSON is not supported"),
    "bf16": (body(tensor("BF16")), "'datatype' is the string 'BF16'"),
    "duplicate": (body(tensor(), tensor()), "input 'x' already exists in request"),
    "parameters": (body(tensor(), parameters=[]), "must be an object"),
    "parameter null": (body(tensor(), parameters={"a": None}), "'a' has invalid type"),
    "parameter object": (body(tensor(), parameters={"a": {}}), "'a' has invalid type"),
    "parameter triton_": (body(tensor(), parameters={"triton_x": 1}), "'triton_' are reserved"),
    "priority text": (body(tensor(), parameters={"priority": "1"}), "unsigned integer"),
    "priority negative": (body(tensor(), parameters={"priority": -1}), "unsigned integer"),
    "priority bool": (body(tensor(), parameters={"priority": True}), "unsigned integer"),
    "timeout text": (body(tensor(), parameters={"timeout": "5"}), "unsigned integer"),
    "timeout fraction": (body(tensor(), parameters={"timeout": 5.5}), "unsigned integer"),
    "binary output": (body(tensor(), parameters={"binary_data_output": 1}), "true or false"),
    "outputs": (body(tensor(), outputs={}), "'outputs' must be an array"),
    "output": (body(tensor(), outputs=["y"]), "each of 'outputs'"),
    "output name": (body(tensor(), outputs=[{}]), "each of 'outputs'"),
    "output parameters": (
        body(tensor(), outputs=[{"name": "y", "parameters": 3}]),
        "must be an object",
    ),
    "output flag": (
        body(tensor(), outputs=[{"name": "y", "parameters": {"binary_data": "yes"}}]),
        "true or false",
    ),
    "classification": (
        body(tensor(), outputs=[{"name": "y", "parameters": {"classification": -1}}]),
        "'classification' must be an unsigned integer",
    ),
    "shared memory in": (body(tensor(data=None, shared_memory_region="a")), "_byte_size' must be"),
    "shared memory out": (
        body(tensor(), outputs=[{"name": "y", "parameters": {"shared_memory_region": "a"}}]),
        "output 'y': 'shared_memory_byte_size' must be specified",
    ),
    "input parameters": (body(dict(tensor(), parameters=3)), "must be an object"),
    "both": (body(tensor(binary_data_size=8)), "But set 'data' 'binary_data_size'"),
    "no length": (body(tensor(data=None, binary_data_size=8)), "Inference-Header-Content-Length"),
    "escaped key": (
        body(tensor(data=(True, 1)), tensor(name="y")).replace(b'"data"', b'"d\\u0061ta"', 1),
        "holds a boolean",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_refused_with_what_was_wrong(name):
    sent, message = HOSTILE[name]
    with pytest.raises(InvalidRequest) as caught:
        decode(sent)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


X8 = tensor(data=None, binary_data_size=8)
HOSTILE_BINARY = {
    "short": (*binary([X8], bytes(4)), "add up to 8 bytes, but 4 follow"),
    "long": (*binary([X8], bytes(10)), "add up to 8 bytes, but 10 follow"),
    "size": (*binary([tensor(data=None, binary_data_size=4)], bytes(4)), "Expected 8, got 4"),
    "size huge": (
        *binary([tensor(shape=(2**62, 4), data=None, binary_data_size=8)], bytes(8)),
        "size mismatch",
    ),
    "size text": (*binary([tensor(data=None, binary_data_size="8")], bytes(8)), "unsigned"),
    "size negative": (*binary([tensor(data=None, binary_data_size=-8)], b""), "unsigned"),
    "size bool": (*binary([tensor("BOOL", (1,), None, binary_data_size=True)], b"1"), "unsigned"),
    "head long": (binary([X8], bytes(8))[0], 99999, "should be in range (0, "),
    "head negative": (binary([X8], bytes(8))[0], -1, "got: -1"),
    "head short": (binary([X8], bytes(8))[0], 10, "failed to parse"),
    "both": (*binary([tensor(binary_data_size=8)], bytes(8)), "must set only one"),
    "length cut": (
        *binary([tensor("BYTES", data=None, binary_data_size=8)], strings(b"ab") + b"\1\0"),
        "incomplete string length indicator, expecting 4 bytes but only 2",
    ),
    "string cut": (
        *binary([tensor("BYTES", data=None, binary_data_size=6)], b"\x0a\0\0\0ab"),
        "expecting string of length 10 but only 2 bytes available",
    ),
    "strings many": (
        *binary([tensor("BYTES", (1, 1), None, binary_data_size=8)], strings(b"", b"")),
        "expected 1 string elements, got 2",
    ),
    "strings few": (
        *binary([tensor("BYTES", data=None, binary_data_size=4)], strings(b"")),
        "expected 2 string elements, got 1",
    ),
}


@pytest.mark.parametrize("name", HOSTILE_BINARY)
def test_binary_refused_with_what_was_wrong(name):
    sent, length, message = HOSTILE_BINARY[name]
    for _ in range(2):
        with pytest.raises(InvalidRequest) as caught:
            decode(sent, length)
        assert message in str(caught.value)


def test_raw_request():
    request = decode_raw(pack("f", 1, 2), echo_model())
    assert request.inputs == {"x": Tensor("FP32", (1, 2), pack("f", 1, 2))}
    assert request.wanted.is_binary("x")
    assert decode_raw(b"hello", PuppetModel("m", (spec("x", "BYTES", None, 1),), ())).inputs == {
        "x": Tensor("BYTES", (1, 1), [b"hello"])
    }
    fixed = PuppetModel("m", (spec("x", "FP32", None, 2),), ())
    assert decode_raw(bytes(8), fixed).inputs["x"].shape == (1, 2)


@pytest.mark.parametrize(
    ("inputs", "sent", "message"),
    [
        ((spec("x", "FP32", None, 1), spec("y", "FP32", None, 1)), b"", "got 2 inputs in 'm'"),
        ((spec("x", "FP32", None, None, None),), b"abcd", "more than one variable-sized"),
        ((spec("x", "BYTES", None, None),), b"abcd", "must have input shape [1]"),
        ((spec("x", "FP32", None, None),), b"abcde", "Expected 4, got 5"),
        ((spec("x", "FP32", None, 2),), b"abcd", "Expected 8, got 4"),
    ],
)
def test_raw_request_that_cannot_be_understood(inputs, sent, message):
    with pytest.raises(InvalidRequest) as caught:
        decode_raw(sent, PuppetModel("m", inputs, ()))
    assert message in str(caught.value)


def array(datatype, *values):
    found = np.empty(len(values), NUMPY_TYPES[datatype])
    found[:] = values
    return found.reshape(1, -1)


ANSWERS = {
    "FP32": (array("FP32", 0.1, 1, 1e-7, -0.0), b"[0.1,1.0,1e-7,-0.0]"),
    "FP64": (array("FP64", 0.1, 1e300), b"[0.1,1e+300]"),
    "INT64": (array("INT64", 2**53 + 1, -1), b"[9007199254740993,-1]"),
    "UINT8": (array("UINT8", 0, 255), b"[0,255]"),
    "BOOL": (array("BOOL", True, False), b"[true,false]"),
    "BYTES": (array("BYTES", "héllo".encode(), b""), '["héllo",""]'.encode()),
    "BYTES of str": (array("BYTES", "a", "b"), b'["a","b"]'),
    "not finite": (
        array("FP32", float("nan"), 1.5, float("inf"), -float("inf")),
        b"[NaN,1.5,Infinity,-Infinity]",
    ),
    "empty": (array("FP32"), b"[]"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_json_answer(name):
    values, text = ANSWERS[name]
    datatype = name.split()[0] if name.split()[0] in NUMPY_TYPES else "FP32"
    for _ in range(2):  # the second time from the template
        headers, sent = encode({"y": values}, Wanted(), identity="abc", model=MODEL)
        assert headers == b"content-type: application/json\r\n"
        assert sent == (
            b'{"id":"abc","model_name":"m","model_version":"3","outputs":[{"name":"y",'
            b'"datatype":"%b","shape":[1,%d],"data":%b}]}' % (datatype.encode(), values.size, text)
        )


def test_binary_answer():
    values = {
        "y": array("FP32", 1, 2),
        "z": array("BYTES", b"ab", b"\0\xff"),
        "n": array("INT8", 3),
    }
    wanted = Wanted(("y", "z", "n"), frozenset({"y", "z"}))
    headers, sent = encode(values, wanted, identity="", model=MODEL)
    head = (
        b'{"model_name":"m","model_version":"3","outputs":['
        b'{"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}},'
        b'{"name":"z","datatype":"BYTES","shape":[1,2],"parameters":{"binary_data_size":12}},'
        b'{"name":"n","datatype":"INT8","shape":[1,1],"data":[3]}]}'
    )
    assert sent == head + pack("f", 1, 2) + strings(b"ab", b"\0\xff")
    assert headers == (
        b"content-type: application/octet-stream\r\n"
        b"inference-header-content-length: %d\r\n" % len(head)
    )


def test_an_output_in_shared_memory_has_no_elements_in_the_answer():
    places = {"y": Place("r", 0, 8)}
    wanted = Wanted(("y", "z"), frozenset({"z"}), special=Special({}, places))
    outputs = {"y": np.ones((1, 2), "f4"), "z": np.ones((1, 1), "f4")}
    _, found = encode(outputs, wanted, identity="", model=MODEL)
    assert orjson.loads(found[:-4])["outputs"] == [
        {"name": "y", "datatype": "FP32", "shape": [1, 2]},
        {
            "name": "z",
            "datatype": "FP32",
            "shape": [1, 1],
            "parameters": {"binary_data_size": 4},
        },
    ]


def test_a_known_head_reads_shared_memory_anew(tmp_path):
    (tmp_path / "object").write_bytes(pack("f", 1, 2))
    regions = Regions(is_allowed=True, folder=tmp_path)
    regions.register("r", "object", 0, 8)
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    inputs = [
        tensor(data=None, name="x", **place),
        tensor(data=None, name="w", shape=(1, 1), binary_data_size=4),
    ]
    sent, length = binary(inputs, pack("f", 9))
    for values in ((1, 2), (3, 4)):
        (tmp_path / "object").write_bytes(pack("f", *values))
        found = decode(sent, length, regions)
        assert found.inputs["x"].data == pack("f", *values)
        assert found.inputs["w"].data == pack("f", 9)
        assert found.placed_bytes == 8


def test_fp16_goes_out_as_binary_only():
    values = {"y": array("FP16", 1, 2)}
    _, sent = encode(values, Wanted(is_binary_default=True), identity="", model=MODEL)
    assert sent.endswith(b'"binary_data_size":4}}]}' + struct.pack("<2e", 1, 2))
    with pytest.raises(InvalidRequest, match="sending FP16 data via JSON is not supported"):
        encode(values, Wanted(), identity="", model=MODEL)


def test_bytes_that_are_not_text_go_out_as_binary_only():
    with pytest.raises(InvalidRequest, match="not UTF-8"):
        encode({"y": array("BYTES", b"\xff")}, Wanted(), identity="", model=MODEL)


def test_type_without_a_datatype_is_the_models_fault():
    with pytest.raises(XirangError, match="complex64"):
        encode({"y": np.zeros(2, np.complex64)}, Wanted(), identity="", model=MODEL)


def test_rows_of_a_batch_are_written_in_order_whatever_their_strides():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    _, sent = encode({"y": values.T}, Wanted(), identity="", model=MODEL)
    assert orjson.loads(sent)["outputs"][0]["data"] == values.T.reshape(-1).tolist()
    _, sent = encode(
        {"y": values[:, ::2]}, Wanted(is_binary_default=True), identity="", model=MODEL
    )
    assert sent.endswith(values[:, ::2].tobytes())
