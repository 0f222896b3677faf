"""Whatever bytes come in, the answer is a 4xx or a closed connection, and the server lives."""

import json
import socket

import pytest
from tests.support.wire import DEADLINE_S, Wire, get, place_of, post, words

pytestmark = pytest.mark.e2e

INFER = b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: x\r\n"
ROW = {"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0.0] * 64}


def infer(body, *lines):
    """A whole infer request around this body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = INFER + b"".join(line + b"\r\n" for line in lines)
    return head + b"Content-Length: %d\r\n\r\n" % len(data) + data


def tensor(**changes):
    return infer({"inputs": [ROW | changes]})


def binary(header, body, *lines):
    return infer(body, b"Inference-Header-Content-Length: " + header, *lines)


HEAD = (
    json.dumps({"inputs": [ROW | {"data": None, "parameters": {"binary_data_size": 256}}]})
    .replace(' "data": null,', "")
    .encode()
)

REFUSED = {
    "no JSON": infer(b"{"),
    "empty JSON": infer(b"{}"),
    "a list": infer(b"[]"),
    "a number": infer(b"3"),
    "null": infer(b"null"),
    "not UTF-8": infer(b'{"inputs": "\xff\xfe"}'),
    "deep nesting": infer(b"[" * 100_000),
    "deep data": infer({"inputs": [ROW | {"data": "DEEP"}]}).replace(
        b'"DEEP"', b"[" * 3 + b"]" * 3
    ),
    "no inputs": infer({"inputs": []}),
    "inputs that are no list": infer({"inputs": {"x": 1}}),
    "an input that is no object": infer({"inputs": [3]}),
    "twice the same input": infer({"inputs": [ROW, ROW]}),
    "NaN as text": tensor(data=["NaN"] * 64),
    "text": tensor(data=["a"] * 64),
    "null elements": tensor(data=[None] * 64),
    "booleans for floats": tensor(data=[True] * 64),
    "too few": tensor(data=[0.0] * 63),
    "too many": tensor(data=[0.0] * 65),
    "no data": tensor(data=[]),
    "an empty batch": tensor(shape=[0, 64], data=[]),
    "a negative shape": tensor(shape=[-1, 64]),
    "an absurd shape": tensor(shape=[2**62, 64]),
    "a shape beyond integers": tensor(shape=[2**70, 64]),
    "an overflowing shape": tensor(shape=[2**32, 2**32], data=[]),
    "a fractional shape": tensor(shape=[1.5, 64]),
    "a boolean shape": tensor(shape=[True, 64]),
    "a shape of many axes": tensor(shape=[1] * 1000),
    "no shape": tensor(shape=None),
    "an unknown datatype": tensor(datatype="FP33"),
    "a datatype that is no text": tensor(datatype=["FP32"]),
    "a name that is no text": tensor(name=3),
    "outputs that are no list": infer({"inputs": [ROW], "outputs": "y"}),
    "an unknown output": infer({"inputs": [ROW], "outputs": [{"name": "z"}]}),
    "an id that is no text": infer({"inputs": [ROW], "id": 3}),
    "a reserved parameter": infer({"inputs": [ROW], "parameters": {"triton_x": 1}}),
    "a negative timeout": infer({"inputs": [ROW], "parameters": {"timeout": -1}}),
    "a timeout that is text": infer({"inputs": [ROW], "parameters": {"timeout": "1"}}),
    "an absurd timeout": infer({"inputs": [ROW], "parameters": {"timeout": 2**80}}),
    "a budget of nothing": infer({"inputs": [ROW]}, b"X-Request-Timeout-Ms: 0"),
    "a budget of NaN": infer({"inputs": [ROW]}, b"X-Request-Timeout-Ms: nan"),
    "a budget that is text": infer({"inputs": [ROW]}, b"X-Request-Timeout-Ms: soon"),
    "a JSON head longer than the body": binary(b"99999", HEAD),
    "a negative JSON head": binary(b"-1", HEAD),
    "a JSON head of text": binary(b"many", HEAD),
    "binary data missing": binary(b"%d" % len(HEAD), HEAD),
    "binary data cut short": binary(b"%d" % len(HEAD), HEAD + bytes(255)),
    "binary data too long": binary(b"%d" % len(HEAD), HEAD + bytes(257)),
    "raw data of half a row": binary(b"0", bytes(255)),
    "gzip that is none": infer(b"no gzip", b"Content-Encoding: gzip"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
    "a wrong length": INFER + b"Content-Length: many\r\n\r\n",
    "a negative length": INFER + b"Content-Length: -1\r\n\r\n",
    "two lengths": INFER + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n{}{}",
    "a chunk of no size": INFER + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "an endless head": b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000,
    "an announced body of 65 MiB": INFER + b"Content-Length: %d\r\n\r\n" % (65 << 20),
    "an announced body beyond integers": INFER + b"Content-Length: 9" + b"9" * 30 + b"\r\n\r\n",
    "embeddings without a model": infer({"input": "a"}).replace(
        b"/v2/models/mlp/infer", b"/v1/embeddings"
    ),
    "embeddings of a number": infer({"model": "all-MiniLM-L6-v2", "input": 3}).replace(
        b"/v2/models/mlp/infer", b"/v1/embeddings"
    ),
}

HALVES = {
    "half a request line": b"POST /v2/mo",
    "half a head": INFER + b"Content-Le",
    "a head and no body": INFER + b"Content-Length: 100\r\n\r\n",
    "half a body": INFER + b'Content-Length: 100\r\n\r\n{"inputs": [',
    "half a chunk": INFER + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{",
    "nothing": b"",
}


def check_alive(house):
    assert get(house.url, "/v2/health/live")[0] == 200
    status, _, answer = post(house.url, "/v2/models/mlp/infer", {"inputs": [ROW]})
    assert (status, answer["outputs"][0]["shape"]) == (200, [1, 10])


def first_status(house, data):
    """Status of the answer to these bytes; 0 if the server hung up without one."""
    with socket.create_connection(place_of(house.url), timeout=DEADLINE_S) as wire:
        wire.sendall(data)
        received = b""
        while b"\r\n" not in received:
            try:
                piece = wire.recv(65536)
            except ConnectionResetError:
                return 0
            if not piece:
                return 0
            received += piece
    return int(received.split()[1])


@pytest.mark.parametrize("case", REFUSED)
def test_nonsense_is_refused_and_the_server_lives(house, case):
    status = first_status(house, REFUSED[case])
    assert 400 <= status < 500
    check_alive(house)


@pytest.mark.parametrize("case", HALVES)
def test_clients_that_leave_in_the_middle_harm_nobody(house, case):
    for _ in range(20):
        with socket.create_connection(place_of(house.url), timeout=DEADLINE_S) as wire:
            wire.sendall(HALVES[case])
    check_alive(house)


def test_a_body_above_the_limit_is_refused_before_it_is_sent(house):
    assert first_status(house, REFUSED["an announced body of 65 MiB"]) == 413


def test_slow_bytes_are_one_request(house):
    request = infer({"inputs": [ROW]}, b"Connection: close")
    with socket.create_connection(place_of(house.url), timeout=DEADLINE_S) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin in range(0, len(request), 7):
            wire.sendall(request[begin : begin + 7])
        received = b"".join(iter(lambda: wire.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 200")


def test_pipelined_requests_are_answered_in_order(house):
    bodies = [{"inputs": [ROW], "id": f"number {number}"} for number in range(20)]
    stream = b"".join(map(infer, bodies)) + infer(b"{", b"Connection: close")
    with socket.create_connection(place_of(house.url), timeout=DEADLINE_S) as wire:
        wire.sendall(stream)
        received = b"".join(iter(lambda: wire.recv(65536), b"")).decode()
    places = [received.index(f'"number {number}"') for number in range(20)]
    assert places == sorted(places)
    assert received.count("HTTP/1.1 200") == 20
    assert received.count("HTTP/1.1 400") == 1


def test_a_model_that_raises_is_a_500_for_the_guilty_alone(house, hold):
    with Wire(house.url) as holder, Wire(house.url) as guilty, Wire(house.url) as other:
        holder.send("POST", "/v2/models/hold/infer", words(hold.text))
        hold.until_running()
        guilty.send("POST", "/v2/models/hold/infer", words("raise me not"))
        other.send("POST", "/v2/models/hold/infer", words("fine"))
        hold.release()
        assert holder.receive()[0] == 200
        status, _, answer = guilty.receive()
        assert (status, answer["error"]) == (500, "model 'hold' raised ValueError: me not")
        status, _, answer = other.receive()
        assert (status, answer["outputs"][0]["data"]) == (200, ["fine"])
