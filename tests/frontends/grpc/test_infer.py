"""Infer messages in both directions: raw and typed contents, all datatypes, and what is refused."""

import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse
from tritonclient.utils import serialize_byte_tensor

from xirang.errors import InvalidRequest, ModelFailed
from xirang.frontends.grpc.infer import CONTENTS, Request, decode, encode
from xirang.frontends.v2.shared_memory import UnknownRegion
from xirang.tensors.tensor import NUMPY_TYPES, to_array

NUMBERS = [name for name in NUMPY_TYPES if name != "BYTES"]


def request(*inputs, raw=(), outputs=(), **members):
    """A message as a client writes it, read with our class."""
    message = ModelInferRequest(model_name="m", raw_input_contents=raw, **members)
    for name, datatype, shape, contents in inputs:
        element = message.inputs.add(name=name, datatype=datatype, shape=shape)
        for field, values in contents.items():
            getattr(element.contents, field).extend(values)
    for name in outputs:
        message.outputs.add(name=name)
    return Request.FromString(message.SerializeToString())


def x(datatype="FP32", shape=(1, 2), **contents):
    return ("x", datatype, shape, contents)


def samples(datatype):
    dtype = NUMPY_TYPES[datatype]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([[limits.min, 0, limits.max]], dtype)
    if dtype.kind == "b":
        return np.array([[True, False, True]])
    return np.array([[-0.0, 1.5, np.inf]], dtype)


@pytest.mark.parametrize("datatype", NUMBERS)
def test_raw_contents_of_every_datatype(datatype):
    array = samples(datatype)
    tensor = decode(request(x(datatype, (1, 3)), raw=[array.tobytes()])).inputs["x"]
    assert tensor.datatype == datatype
    assert to_array(tensor).tobytes() == array.tobytes()


@pytest.mark.parametrize("datatype", [name for name in NUMBERS if name != "FP16"])
def test_typed_contents_of_every_datatype(datatype):
    array = samples(datatype)
    contents = {CONTENTS[datatype]: array.ravel().tolist()}
    tensor = decode(request(x(datatype, (1, 3), **contents))).inputs["x"]
    assert to_array(tensor).dtype == array.dtype
    assert to_array(tensor).tobytes() == array.tobytes()


def test_strings_come_both_ways():
    words = [b"", b"a\xff", "息壤".encode()]
    typed = decode(request(x("BYTES", (3,), bytes_contents=words)))
    blob = serialize_byte_tensor(np.array(words, object)).item()
    raw = decode(request(x("BYTES", (3,)), raw=[blob]))
    assert typed.inputs["x"].data == raw.inputs["x"].data == words


def test_inputs_take_the_raw_contents_in_their_order():
    message = request(x(), ("y", "UINT8", (1,), {}), raw=[bytes(8), b"\7"])
    assert {name: bytes(t.data) for name, t in decode(message).inputs.items()} == {
        "x": bytes(8),
        "y": b"\7",
    }


def test_an_empty_tensor_needs_no_elements():
    assert decode(request(x(shape=(0, 2)), raw=[b""])).inputs["x"].shape == (0, 2)


def test_outputs_asked_for_keep_their_order_and_stand_once():
    assert decode(request(x(), raw=[bytes(8)], outputs="bab")).wanted.names == ("b", "a")
    assert decode(request(x(), raw=[bytes(8)])).wanted.names is None


def parameters(**values):
    message = ModelInferRequest(model_name="m")
    for name, value in values.items():
        choice = {bool: "bool_param", int: "int64_param", str: "string_param"}.get(type(value))
        setattr(message.parameters[name], choice or "double_param", value)
    return Request.FromString(message.SerializeToString())


def test_parameters_that_mean_something():
    read = decode(parameters(timeout=1500, priority=1, xirang_timing=True))
    assert (read.budget_ns, read.priority) == (1_500_000, 1)
    assert (read.is_timed, read.is_explained) == (True, False)
    assert decode(parameters(xirang_explain=True)).is_explained
    assert decode(parameters(timeout=0)).budget_ns is None
    free = parameters(own=1.5, binary_data_output=True, triton_enable_empty_final_response=True)
    assert decode(free).budget_ns is None


def test_a_priority_may_come_unsigned():
    message = Request(model_name="m")
    message.parameters["priority"].uint64_param = 3
    message.parameters["empty"].SetInParent()
    assert decode(message).priority == 3


WRONG_PARAMETERS = [
    ({"priority": "1"}, "invalid value type for 'priority' parameter, expected int64_param or"),
    ({"priority": True}, "invalid value type for 'priority' parameter"),
    ({"priority": -1}, "invalid value for 'priority' parameter, expected >= 0"),
    ({"timeout": "1"}, "invalid value type for 'timeout' parameter, expected int64_param"),
    ({"timeout": -5}, "invalid value for 'timeout' parameter, expected >= 0"),
    ({"triton_x": 1}, "parameter keys starting with 'triton_' are reserved for Triton usage. Only"),
]


@pytest.mark.parametrize(("given", "text"), WRONG_PARAMETERS)
def test_wrong_parameters_are_refused(given, text):
    with pytest.raises(InvalidRequest) as refused:
        decode(parameters(**given))
    assert text in str(refused.value)


WRONG = {
    "both": (request(x(fp32_contents=[1, 2]), raw=[bytes(8)]), "contents field must not be"),
    "neither": (request(x()), "unable to find data for input tensor 'x' for model 'm' in request."),
    "too few raw": (request(x(), ("y", "INT8", (1,), {}), raw=[bytes(8)]), "tensor 'y'"),
    "too many raw": (request(x(), raw=[bytes(8)] * 2), "2 raw_input_contents for 1 inputs"),
    "twice": (request(x(), x(), raw=[bytes(8)] * 2), "input 'x' already exists in request"),
    "short": (request(x(), raw=[bytes(4)]), "input byte size mismatch. Expected 8, got 4"),
    "long": (request(x(), raw=[bytes(12)]), "input byte size mismatch. Expected 8, got 12"),
    "few typed": (request(x(fp32_contents=[1])), "fp32_contents has 1 elements, but the shape"),
    "many typed": (request(x(fp32_contents=[1, 2, 3])), "has 3 elements"),
    "other field": (request(x(int_contents=[1, 2])), "expected in fp32_contents, not in int_"),
    "two fields": (request(x(fp32_contents=[1, 2], bool_contents=[True])), "not in bool_"),
    "half floats": (request(x("FP16", fp32_contents=[1, 2])), "elements of FP16 are expected raw"),
    "300 for UINT8": (request(x("UINT8", uint_contents=[1, 300])), "300 is out of range"),
    "-129 for INT8": (request(x("INT8", int_contents=[-129, 0])), "-129 is out of range"),
    "datatype": (request(x("FP8"), raw=[bytes(8)]), "the datatype is 'FP8'; expected one of"),
    "no datatype": (request(x(""), raw=[bytes(8)]), "the datatype is ''"),
    "negative": (request(x(shape=(-1, 2)), raw=[bytes(8)]), "expected integers from 0"),
    "absurd": (request(x(shape=(0, 2**62, 2**62)), raw=[b""]), "'shape' is absurd"),
    "broken string": (request(x("BYTES"), raw=[b"\1\0"]), "incomplete string length indicator"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_are_refused(case):
    message, text = WRONG[case]
    with pytest.raises(InvalidRequest) as refused:
        decode(message)
    assert text in str(refused.value)


def test_classes_are_wanted_of_an_output():
    message = request(x(), raw=[bytes(8)], outputs="y")
    message.outputs[0].parameters["classification"].int64_param = 2
    assert decode(message).wanted.special.classes == {"y": 2}
    for value in (0, -1):
        message.outputs[0].parameters["classification"].int64_param = value
        with pytest.raises(InvalidRequest, match="invalid value for 'classification' parameter"):
            decode(message)


def test_a_region_that_there_is_not_is_unknown():
    message = request(x(), raw=[])
    message.inputs[0].parameters["shared_memory_region"].string_param = "r"
    with pytest.raises(InvalidRequest, match="'shared_memory_byte_size' must be specified"):
        decode(message)
    message.inputs[0].parameters["shared_memory_byte_size"].int64_param = 8
    with pytest.raises(UnknownRegion, match="Unable to find shared memory region: 'r'"):
        decode(message)


@pytest.mark.parametrize("datatype", NUMBERS)
def test_answers_of_every_datatype(datatype):
    array = samples(datatype)
    encoded = encode({"y": array}, ("m", "3"), identity="7", parameters={})
    theirs = ModelInferResponse.FromString(encoded)
    assert theirs.SerializeToString() == encoded, "as protobuf itself writes it"
    assert (theirs.model_name, theirs.model_version, theirs.id) == ("m", "3", "7")
    (output,) = theirs.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("y", datatype, [1, 3])
    assert theirs.raw_output_contents == [array.tobytes()]


def test_answers_of_strings_and_parameters():
    words = np.array([["a", b"\xff"]], object)
    encoded = encode(
        {"y": words}, ("m", "1"), identity="", parameters={"b": True, "f": 1.5, "s": "t"}
    )
    theirs = ModelInferResponse.FromString(encoded)
    assert len(theirs.SerializeToString()) == len(encoded)
    assert theirs.raw_output_contents == [b"\1\0\0\0a\1\0\0\0\xff"]
    assert theirs.parameters["b"].bool_param
    assert theirs.parameters["f"].double_param == 1.5
    assert theirs.parameters["s"].string_param == "t"


def test_an_output_without_a_datatype_is_the_models_fault():
    with pytest.raises(ModelFailed, match="complex64"):
        encode({"y": np.zeros(1, np.complex64)}, ("m", "1"), identity="", parameters={})
