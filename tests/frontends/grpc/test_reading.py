"""Messages that are recognised: what is read of them is what parsing finds, whatever differs."""

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from tritonclient.grpc import service_pb2 as pb

from xirang.errors import InvalidRequest
from xirang.frontends.grpc import reading
from xirang.frontends.grpc.infer import Request, decode
from xirang.frontends.grpc.reading import Reader
from xirang.frontends.v2.shared_memory import NO_REGIONS


def message(model="m", identity="", version="", sizes=(2,), outputs=(), fill=0):
    built = pb.ModelInferRequest(model_name=model, id=identity, model_version=version)
    for number, size in enumerate(sizes):
        built.inputs.add(name=f"x{number}", datatype="UINT8", shape=[1, size])
        built.raw_input_contents.append(bytes([fill]) * size)
    for name in outputs:
        built.outputs.add(name=name)
    return built.SerializeToString()


def read(reader, data):
    """Whom it asks, and all that it asks."""
    asked = reader.read(data)
    return (asked.model, asked.version, asked.id), reader.tensors_of(asked), asked


def plainly(data):
    """The same without anything to recognise it by."""
    parsed = Request.FromString(data)
    whom = (parsed.model_name, parsed.model_version, parsed.id)
    return whom, decode(parsed, NO_REGIONS)


def same(found, expected):
    assert found[0] == expected[0]
    assert msgspec.structs.astuple(found[1]) == msgspec.structs.astuple(expected[1])


texts = st.text(max_size=3)
requests = st.builds(
    message,
    st.sampled_from(["m", "n", "model"]),
    texts,
    st.sampled_from(["", "1", "12"]),
    st.lists(st.integers(0, 200), min_size=1, max_size=3),
    st.lists(st.sampled_from("yz"), max_size=2, unique=True),
    st.integers(0, 255),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(requests, min_size=2, max_size=12))
def test_what_is_recognised_is_read_as_if_it_were_parsed(messages):
    reader = Reader(NO_REGIONS)
    for data in (*messages, *messages):
        same(read(reader, data), plainly(data))


@settings(max_examples=200, deadline=None)
@given(requests, st.data())
def test_a_message_that_differs_anywhere_is_never_taken_for_the_one_before(first, data):
    reader = Reader(NO_REGIONS)
    read(reader, first)
    at = data.draw(st.integers(0, len(first) - 1))
    other = first[:at] + bytes([data.draw(st.integers(0, 255))]) + first[at + 1 :]
    try:
        expected = plainly(other)
    except Exception:
        with pytest.raises(InvalidRequest):
            read(reader, other)
    else:
        same(read(reader, other), expected)


def test_the_next_message_of_the_same_form_is_recognised():
    reader = Reader(NO_REGIONS)
    assert read(reader, message(identity="1", sizes=(3, 0, 5)))[2].known is None
    _, wire, asked = read(reader, message(identity="2", sizes=(3, 0, 5), fill=7))
    assert asked.known is wire
    assert wire.inputs["x2"].data == b"\7" * 5
    assert wire.about is not None


def test_what_is_written_in_another_order_is_not_learned():
    reader = Reader(NO_REGIONS)
    parsed = pb.ModelInferRequest.FromString(message())
    raw = b"".join(b"\x3a" + bytes([len(each)]) + each for each in parsed.raw_input_contents)
    del parsed.raw_input_contents[:]
    for data in (raw + parsed.SerializeToString(), message() + b"\x7a\x04\x3a\x02ab"):
        for _ in range(2):
            found = read(reader, data)
            same(found, plainly(data))
            assert found[2].known is None


def test_who_is_never_recognised_again_is_not_learned_for_ever(monkeypatch):
    monkeypatch.setattr(reading, "LEARNING_MAX", 2)
    reader = Reader(NO_REGIONS)
    for size in (1, 2, 3):
        read(reader, message(sizes=(size,)))
    assert read(reader, message(sizes=(3,)))[2].known is None
    assert read(reader, message(sizes=(2,)))[2].known is not None
    read(reader, message(sizes=(3,)))
    assert read(reader, message(sizes=(3,)))[2].known is not None, "one that was known earns one"
