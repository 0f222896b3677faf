"""Infer messages of every kind: round trips, mangled ones, and a naive twin for numbers."""

import contextlib
import random

import numpy as np
import orjson
from hypothesis import given, settings, strategies as st
from tests.frontends.messages import MODEL, binary, body, tensor

from xirang.errors import InvalidRequest
from xirang.frontends.v2.kserve import Wanted, decode
from xirang.frontends.v2.kserve_answer import encode
from xirang.frontends.v2.tensor_forms import CODES
from xirang.tensors.tensor import NUMPY_TYPES, to_array

X8 = tensor(data=None, binary_data_size=8)
ELEMENTS = {
    "BOOL": st.booleans(),
    "BYTES": st.text(max_size=5).map(str.encode),
    "FP16": st.floats(width=16),
    "FP32": st.floats(width=32),
    "FP64": st.floats(),
    **{
        name: st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        for name, dtype in NUMPY_TYPES.items()
        if dtype.kind in "iu"
    },
}


@st.composite
def arrays(draw):
    datatype = draw(st.sampled_from(sorted(ELEMENTS)))
    shape = (draw(st.integers(1, 3)), draw(st.integers(0, 3)))
    count = shape[0] * shape[1]
    values = draw(st.lists(ELEMENTS[datatype], min_size=count, max_size=count))
    found = np.empty(count, NUMPY_TYPES[datatype])
    found[:] = values
    return datatype, found.reshape(shape)


@given(st.lists(arrays(), min_size=1, max_size=3), st.text(max_size=4))
def test_binary_round_trip(several, identity):
    """What is sent as an answer reads as a request of the same tensors."""
    outputs = {f"t{index}": found for index, (_, found) in enumerate(several)}
    headers, sent = encode(outputs, Wanted(is_binary_default=True), identity=identity, model=MODEL)
    length = int(headers.split(b": ")[-1]) if b"octet" in headers else len(sent)
    head = orjson.loads(sent[:length])
    head["inputs"] = head.pop("outputs")
    text = orjson.dumps(head)
    request = decode(text + sent[length:], len(text))
    assert request.id == identity
    for index, (datatype, found) in enumerate(several):
        back = to_array(request.inputs[f"t{index}"])
        assert request.inputs[f"t{index}"].datatype == datatype
        np.testing.assert_array_equal(back, found)


@given(arrays(), st.booleans())
def test_json_round_trip(one, is_nested):
    datatype, found = one
    if datatype == "FP16":
        return
    if found.dtype.kind == "f":
        found = np.nan_to_num(found)
    _, sent = encode({"t": found}, Wanted(), identity="", model=MODEL)
    head = orjson.loads(sent)
    if is_nested and found.size:
        data, width = head["outputs"][0]["data"], found.shape[1]
        head["outputs"][0]["data"] = [data[i : i + width] for i in range(0, len(data), width)]
    request = decode(orjson.dumps({"inputs": head["outputs"]}))
    np.testing.assert_array_equal(to_array(request.inputs["t"]), found)


VALID = [
    body(tensor("INT64", (2, 2), [[1, 2], [3, 4]]), id="a", parameters={"timeout": 5}),
    body(tensor("BYTES", data=("a", "b")), outputs=[{"name": "y", "parameters": {"a": 1}}]),
    binary([X8, tensor("BOOL", data=(True, False), name="b")], bytes(8), outputs=[{"name": "y"}])[
        0
    ],
]
SPLICES = [
    b"",
    b"null",
    b"true",
    b"-1",
    b"1e400",
    b'"',
    b"[",
    b"]",
    b"{}",
    b",",
    b"\\u0000",
    b"9" * 30,
]


@settings(max_examples=400)
@given(st.integers(0, 2**32), st.sampled_from(VALID), st.one_of(st.none(), st.integers(-2, 300)))
def test_mangled_requests_are_refused_or_read_but_never_break_anything(seed, sent, length):
    generator = random.Random(seed)
    for _ in range(generator.randint(1, 4)):
        start = generator.randrange(len(sent) + 1)
        end = min(len(sent), start + generator.randint(0, 4))
        sent = sent[:start] + generator.choice(SPLICES) + sent[end:]
    try:
        request = decode(sent, length)
    except InvalidRequest:
        return
    for found in request.inputs.values():
        assert to_array(found).size >= 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300)
@given(
    st.sampled_from(["name", "shape", "datatype", "data", "parameters"]),
    st.sampled_from(["id", "inputs", "outputs", "parameters", None]),
    json_values,
)
def test_any_json_in_any_member_is_refused_or_read(member, outer, value):
    document = {"inputs": [tensor()]}
    if outer is None:
        document["inputs"][0][member] = value
    else:
        document[outer] = value
    with contextlib.suppress(InvalidRequest):
        decode(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))


@given(st.lists(st.one_of(st.integers(), st.floats(), st.booleans()), max_size=6))
def test_numbers_are_taken_just_when_numpy_would_without_loss(values):
    """The naive twin: element by element, in Python."""
    for datatype in CODES:
        if datatype.startswith("FP"):
            continue
        limits = np.iinfo(NUMPY_TYPES[datatype])
        fits = all(type(v) is int and limits.min <= v <= limits.max for v in values)
        text = orjson.dumps(
            {"inputs": [{"name": "x", "shape": [len(values)], "datatype": datatype, "data": []}]}
        ).replace(b"[]", b"[%b]" % b",".join(repr_json(v) for v in values))
        try:
            found = to_array(decode(text).inputs["x"]).tolist()
        except InvalidRequest:
            assert not fits
        else:
            assert fits
            assert found == values


def repr_json(value):
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return repr(value).encode()
