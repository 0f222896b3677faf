"""Headers are read once where they are alike, and never taken for others."""

import pytest
from tests.frontends.puppets import connect, post, responses

from xirang.frontends.headers import Headers, without_upgrade


class Desk:
    """A hot route that looks at every head and answers at once."""

    def __init__(self):
        self.seen = []
        self.welcomed = 0

    def welcome(self, exchange):
        self.welcomed += 1
        exchange.headers.reader, exchange.headers.read = self, dict(exchange.headers)

    def __call__(self, exchange):
        assert exchange.headers.read == exchange.headers
        self.seen.append(exchange.headers)
        exchange.respond(200, b"", exchange.body)


CHUNKED_WITH_TRAILERS = (
    b"POST /hot HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    b"1\r\na\r\n0\r\nx-late: 1\r\n\r\n"
)


@pytest.fixture
def desk():
    return Desk()


def test_the_same_headers_are_one_object_whatever_the_body_is(desk):
    protocol, line, _ = connect(lambda _url: desk)
    for body in (b"", b"a", b"abc" * 100):
        protocol.data_received(post("/hot", body, "X-One: 1"))
    assert [response.body for response in responses(line.take())] == [b"", b"a", b"abc" * 100]
    assert desk.welcomed == 1
    assert desk.seen[0] is desk.seen[1] is desk.seen[2]
    assert b"content-length" not in desk.seen[0]


@pytest.mark.parametrize("other", ["X-One: 2", "X-Two: 1", "x-one: 1"])
def test_other_headers_are_other_headers(desk, other):
    protocol, _, _ = connect(lambda _url: desk)
    protocol.data_received(post("/hot", b"a", "X-One: 1"))
    protocol.data_received(post("/hot", b"a", other))
    is_alike = other.lower() == "x-one: 1"
    assert (desk.seen[0] is desk.seen[1]) == is_alike
    assert desk.welcomed == (1 if is_alike else 2)


def test_trailers_are_nobodys_headers(desk):
    protocol, line, _ = connect(lambda _url: desk)
    for _ in range(3):
        protocol.data_received(CHUNKED_WITH_TRAILERS + post("/hot", b"b"))
    assert [response.body for response in responses(line.take())] == [b"a", b"b"] * 3
    assert all(b"x-late" not in headers for headers in desk.seen)


def test_two_routes_on_one_connection_do_not_read_for_each_other():
    first, second = Desk(), Desk()
    protocol, _, _ = connect(lambda url: first if url == b"/first" else second)
    for url in ("/first", "/second", "/first", "/second"):
        protocol.data_received(post(url, b"a"))
    assert (first.welcomed, second.welcomed) == (2, 2)


def test_of_a_repeated_header_the_last_counts_and_all_lines_are_kept():
    headers = Headers([(b"a", b"1"), (b"a", b"2")])
    assert headers == {b"a": b"2"}
    assert headers.lines == [(b"a", b"1"), (b"a", b"2")]


def test_a_head_without_its_upgrade():
    lines = [(b"host", b"x"), (b"upgrade", b"h2c"), (b"connection", b"upgrade")]
    start = b"POST / HTTP/1.1"
    assert without_upgrade(start, lines, closes=False) == start + b"\r\nhost: x\r\n\r\n"
    assert b"connection: close\r\n\r\n" in without_upgrade(start, lines, closes=True)


def test_a_tunnel_is_refused():
    protocol, line, _ = connect(lambda _url: None)
    protocol.data_received(b"CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n")
    (response,) = responses(line.take())
    assert (response.status, response.headers["connection"]) == (400, "close")
