"""Bytes meant to harm: the server answers with a 4xx or hangs up, and serves the next client."""

import contextlib
import gzip
import json
import re
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.support.wire import DEADLINE_S, Hold, Wire, get, place_of, post, words

from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

HOLD = "tests.e2e.callables:hold"
PATH = "/v2/models/hold/infer"
MIB = 1 << 20
PATIENCE_S = 1


@pytest.fixture(scope="module")
def server():
    options = {"body-mib-max": 2, "memory-mib-max": 2, "client-timeout-s": PATIENCE_S}
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with ServerProcess([HOLD], *flags) as server:
        yield server
        assert "Traceback" not in server.log_text()
        assert server.stop() == 0


@pytest.fixture(autouse=True)
def _a_good_request_is_answered_afterwards(server):
    yield
    status, _, body = post(server.url, PATH, words("good"))
    assert (status, body["outputs"][0]["data"]) == (200, ["good"])


def connect(server):
    return socket.create_connection(place_of(server.url), timeout=DEADLINE_S)


def read_all(wire):
    """Until the server hangs up; a reset is one way to."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := wire.recv(65536):
            received += piece
    return received


def talk(server, data):
    """All that comes back for these bytes, until the server hangs up."""
    with connect(server) as wire:
        with contextlib.suppress(ConnectionError):
            wire.sendall(data)
        return read_all(wire)


def statuses(received):
    return [int(digits) for digits in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def request(body, *lines, path=PATH):
    head = [f"POST {path} HTTP/1.1".encode(), b"Host: x", *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def good(text, *lines):
    """A whole request that echoes the text."""
    body = json.dumps(words(text)).encode()
    return request(body, b"Content-Length: %d" % len(body), *lines)


def last(text="last"):
    return good(text, b"Connection: close")


# ---------------------------------------------------------------------- two readings of one stream

CHUNKED = b"Transfer-Encoding: chunked"

AMBIGUOUS = {
    "a length and chunks": ((b"Content-Length: 4", CHUNKED), b"0\r\n\r\n"),
    "chunks and a length": ((CHUNKED, b"Content-Length: 4"), b"0\r\n\r\n"),
    "two lengths": ((b"Content-Length: 0", b"Content-Length: 5"), b""),
    "the same length twice": ((b"Content-Length: 0", b"Content-Length: 0"), b""),
    "a list of lengths": ((b"Content-Length: 0, 5",), b""),
    "a signed length": ((b"Content-Length: +0",), b""),
    "a length in hexadecimal": ((b"Content-Length: 0x5",), b""),
    "a length and a blank before the colon": ((b"Content-Length : 0",), b""),
    "a coding that is not the last": ((b"Transfer-Encoding: chunked, identity",), b"0\r\n\r\n"),
    "an unknown coding": ((b"Transfer-Encoding: xchunked",), b"0\r\n\r\n"),
    "chunks twice": ((CHUNKED, CHUNKED), b"0\r\n\r\n"),
    "a folded line": ((CHUNKED, b" , identity"), b"0\r\n\r\n"),
    "a folded name": ((b"X: a", b"\tContent-Length: 0"), b""),
    "a name with a blank": ((b"Content Length: 0",), b""),
    "a line without a colon": ((b"Content-Length",), b""),
    "a lone carriage return": ((b"X: a\rContent-Length: 5",), b""),
    "a lone line feed": ((b"X: a\n" + CHUNKED,), b"0\r\n\r\n"),
    "a NUL in a header": ((b"X: a\0b",), b""),
    "a chunk of negative size": ((CHUNKED,), b"-1\r\n\r\n"),
    "a chunk with a prefix": ((CHUNKED,), b"0x0\r\n\r\n"),
    "a chunk beyond integers": ((CHUNKED,), b"f" * 17 + b"\r\n\r\n"),
    "a chunk without a size": ((CHUNKED,), b"\r\n\r\n"),
    "a chunk that is longer than it says": ((CHUNKED,), b"1\r\nxx\r\n0\r\n\r\n"),
    "a chunk that ends in a line feed": ((CHUNKED,), b"1\nx\n0\n\n"),
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_read_in_none(server, case, tmp_path):
    """The second request, hidden in the first for another reader, never runs."""
    lines, body = AMBIGUOUS[case]
    note = tmp_path / "ran.txt"
    received = talk(server, request(body, *lines) + last(f"note {note} smuggled"))
    assert statuses(received) == [400]
    assert not note.exists()


# ---------------------------------------------------------------------- too much of something


def test_a_request_line_without_end_is_a_431(server):
    received = talk(server, b"GET /" + b"a" * MIB)
    assert statuses(received) == [431]


def test_headers_without_end_are_a_431(server):
    lines = [b"X-%d: %b" % (number, b"y" * 100) for number in range(10_000)]
    assert statuses(talk(server, request(b"", *lines))) == [431]


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("kind", ["one trailer", "many trailers", "chunk extensions"])
def test_noise_around_a_body_is_bounded_like_a_head(server, kind, is_hot):
    noise = {
        "one trailer": b"0\r\nX: " + b"y" * MIB,
        "many trailers": b"0\r\n" + b"X: y\r\n" * (MIB // 6),
        "chunk extensions": b"1;" + b"x" * MIB,
    }
    path = PATH if is_hot else "/v2/repository/index"
    received = talk(server, request(noise[kind], CHUNKED, path=path))
    assert statuses(received) == [431]


def test_a_body_in_chunks_of_one_byte_is_no_noise(server):
    body = json.dumps(words("x" * 100_000)).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert statuses(talk(server, request(chunks, CHUNKED, b"Connection: close"))) == [200]


def test_trailers_are_dropped_and_change_nothing(server):
    trailers = b"X-Request-Timeout-Ms: nonsense\r\nAuthorization: Bearer x\r\n\r\n"
    body = json.dumps(words("whole")).encode()
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    received = talk(server, request(chunks + trailers, CHUNKED) + last())
    assert statuses(received) == [200, 200]


@pytest.mark.parametrize("path", [PATH, "/v2/repository/index"])
def test_an_upload_without_end_is_a_413(server, path):
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    assert statuses(talk(server, request(chunk * 200, CHUNKED, path=path))) == [413]


def test_a_gzip_bomb_stays_packed(server):
    bomb = gzip.compress(bytes(256 * MIB))
    lines = (b"Content-Encoding: gzip", b"Content-Length: %d" % len(bomb), b"Connection: close")
    assert statuses(talk(server, request(bomb, *lines))) == [413]


def test_a_bomb_in_a_bomb_is_opened_once(server):
    bomb = gzip.compress(gzip.compress(bytes(64 * MIB)))
    lines = (b"Content-Encoding: gzip, gzip", b"Content-Length: %d" % len(bomb))
    assert statuses(talk(server, request(bomb, *lines, b"Connection: close"))) == [501]


@pytest.mark.parametrize("opening", [b"[", b'{"inputs":['])
def test_a_body_100000_deep_is_a_clean_400(server, opening):
    body = opening * 100_000
    received = talk(server, request(body, b"Content-Length: %d" % len(body), b"Connection: close"))
    assert statuses(received) == [400]
    assert b"failed to parse the request JSON" in received


def test_more_bodies_than_the_memory_for_them_are_a_503_that_says_when(server):
    with Hold() as hold, Wire(server.url) as holder:
        text = hold.text
        holder.send("POST", PATH, words(text + " " * (2 * MIB - len(text) - 500)))
        hold.until_running()
        status, headers, _ = post(server.url, PATH, words("x" * 1000))
        assert (status, headers["retry-after"], headers["x-should-retry"]) == (503, "1", "true")
        assert get(server.url, "/v2/health/live")[0] == 200
        hold.release()
        assert holder.receive()[0] == 200
    assert post(server.url, PATH, words("x" * 1000))[0] == 200


def test_a_flood_of_pipelined_requests_is_answered_in_order(server):
    flood = b"".join(good(str(number)) for number in range(2000)) + last()
    received = []
    with connect(server) as wire:
        reader = threading.Thread(target=lambda: received.append(read_all(wire)))
        reader.start()
        wire.sendall(flood)
        reader.join(DEADLINE_S)
    answers = received[0].split(b'"data":[')[1:]
    assert [each.split(b"]")[0] for each in answers[:-1]] == [b'"%d"' % n for n in range(2000)]


def test_a_flood_from_someone_who_does_not_read_is_held_back_and_cut_off(server):
    with connect(server) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one = good("x" * 15_000)
        with pytest.raises(ConnectionError):
            wire.sendall(one * 10_000)


# ---------------------------------------------------------------------- too little of something


BEGINNINGS = [
    b"",
    b"P",
    b"POST " + PATH.encode(),
    good("x")[:60],
    good("x")[:-1],
    request(b"1\r\n", CHUNKED),
]


def test_half_a_request_is_waited_for_no_longer_than_the_patience(server):
    with ThreadPoolExecutor(len(BEGINNINGS)) as clients:
        received = list(clients.map(partial(talk, server), BEGINNINGS))
    expected = [[408] if beginning else [] for beginning in BEGINNINGS]
    assert [statuses(each) for each in received] == expected


def test_slow_clients_in_numbers_keep_nobody_else_waiting(server):
    """Slowloris: a byte of a head now and then, on many connections at once."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(connect(server)) for _ in range(200)]
        ends = 0
        for wire in wires:
            wire.sendall(b"POST " + PATH.encode() + b" HTTP/1.1\r\n")
        for _ in range(20):
            status, _, body = post(server.url, PATH, words("meanwhile"))
            assert (status, body["outputs"][0]["data"]) == (200, ["meanwhile"])
            for wire in wires:
                with contextlib.suppress(ConnectionError):
                    wire.sendall(b"X")
        for wire in wires:
            ends += statuses(read_all(wire)) in ([408], [])
        assert ends == 200


# ---------------------------------------------------------------------- other protocols


def test_an_http2_preface_is_refused(server):
    received = talk(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
    assert statuses(received) in ([400], [505])


def test_a_tls_hello_at_a_plain_port_is_refused(server):
    context = ssl.create_default_context()
    with connect(server) as wire, pytest.raises(ssl.SSLError):
        context.wrap_socket(wire, server_hostname="localhost")


def test_an_upgrade_to_what_is_not_spoken_here_goes_on_in_http(server):
    lines = (b"Connection: Upgrade, close", b"Upgrade: websocket", b"Sec-WebSocket-Key: x")
    assert statuses(talk(server, good("plain", *lines))) == [200]


def test_nonsense_after_a_100_continue_is_a_body_like_any_other(server, tmp_path):
    note = tmp_path / "ran.txt"
    inner = good(f"note {note} smuggled")
    head = request(b"", b"Expect: 100-continue", b"Content-Length: %d" % len(inner))
    with connect(server) as wire:
        wire.sendall(head)
        assert wire.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(inner + last())
        assert statuses(read_all(wire)) == [400, 200]
    assert not note.exists()


# ---------------------------------------------------------------------- names and places

NOWHERE = [
    "/v2/models/..%2f..%2f..%2fetc%2fpasswd/infer",
    "/v2/models/%2e%2e%2f%2e%2e%2fetc/infer",
    "/v2/models/..%5c..%5cboot/infer",
    "/v2/models/hold%00.onnx/infer",
    "/v2/models/%2fetc%2fpasswd/infer",
    "/v2/models/hold/../hold/infer",
    "/v2/models/../../../etc/passwd",
    "/v2/models/hold%2finfer",
    "//v2/models/hold/infer",
    "/v2/models/%252e%252e/infer",
]


@pytest.mark.parametrize("path", NOWHERE)
def test_a_name_is_looked_up_and_never_opened(server, path):
    body = json.dumps(words("x")).encode()
    lines = (b"Content-Length: %d" % len(body), b"Connection: close")
    received = talk(server, request(body, *lines, path=path))
    assert statuses(received) in ([404], [405])
    assert b"root:" not in received


@pytest.mark.parametrize(
    "path", ["/v2/models/ho\0ld/infer", "/v2/\x7f", "/v2/ \tx", "/v2 HTTP/1.1"]
)
def test_a_url_with_control_characters_is_refused(server, path):
    received = talk(server, request(b"", b"Content-Length: 0", b"Connection: close", path=path))
    assert statuses(received) in ([400], [404])


def test_an_absolute_url_names_the_path_here_whatever_its_host(server):
    body = json.dumps(words("here")).encode()
    lines = (b"Content-Length: %d" % len(body), b"Connection: close")
    received = talk(server, request(body, *lines, path=f"http://elsewhere:1{PATH}"))
    assert statuses(received) == [200]


def test_nobody_is_tunnelled_to_elsewhere(server):
    received = talk(
        server, b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    assert not statuses(received) or statuses(received)[0] >= 400


def test_bytes_at_random_kill_nothing(server):
    for seed in range(50):
        noise = bytes((seed * 7919 + index * index) % 256 for index in range(997))
        received = talk(server, noise + b"\r\n\r\n")
        assert statuses(received) in ([400], [408])


def test_a_connection_that_was_refused_answers_nothing_more(server):
    with Wire(server.url) as wire:
        wire.send("POST", PATH, b"{")
        assert wire.receive()[0] == 400
    assert statuses(talk(server, b"nonsense\r\n\r\n" + last() * 3)) == [400]
