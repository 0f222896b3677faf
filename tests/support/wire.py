"""Plain HTTP to a server on loopback, and waiting for what it will do."""

import json
import socket
import threading
from http.client import HTTPConnection
from urllib.parse import urlsplit

DEADLINE_S = 30


def until(condition, what="the condition"):
    """Ask again and again until it is so; at most for the deadline."""
    clock = threading.Event()
    for _ in range(DEADLINE_S * 100):
        if found := condition():
            return found
        clock.wait(0.01)
    raise AssertionError(f"waited {DEADLINE_S} s for {what}")


def place_of(url):
    """Host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname, parts.port


class Wire:
    """A keep-alive connection that asks and answers in Python's own words."""

    def __init__(self, url):
        self.connection = HTTPConnection(*place_of(url), timeout=DEADLINE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, method, path, body=None, headers=None):
        """Send a request and wait for nothing."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self.connection.request(method, path, data, headers or {})

    def receive(self):
        """Status, headers and body (as JSON where it is) of the next response."""
        response = self.connection.getresponse()
        body = response.read()
        if body and "json" in response.headers.get("content-type", ""):
            body = json.loads(body)
        return response.status, response.headers, body

    def ask(self, method, path, body=None, headers=None):
        self.send(method, path, body, headers)
        return self.receive()

    def get(self, path):
        status, _, body = self.ask("GET", path)
        return status, body


def get(url, path):
    """One request on a connection of its own."""
    with Wire(url) as wire:
        return wire.get(path)


def post(url, path, body, headers=None):
    with Wire(url) as wire:
        return wire.ask("POST", path, body, headers)


def metric(url, name, model):
    """The value of one model's series, whatever other labels it has, together."""
    _, body = get(url, "/metrics")
    lines = (line.rpartition(" ") for line in body.decode().splitlines())
    found = [float(value) for key, _, value in lines if key.startswith(f'{name}{{model="{model}"')]
    assert found
    return sum(found)


def words(*texts):
    """A v2 request with one word a row, for callables that take text."""
    return {
        "inputs": [
            {"name": "input", "datatype": "BYTES", "shape": [len(texts)], "data": list(texts)}
        ]
    }


class Hold:
    """Keeps `tests.e2e.callables:hold` inside a run until it is let go.

    The callable connects to the address in its text, so that the test knows that it runs.
    """

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(DEADLINE_S)
        self.held = None

    @property
    def text(self):
        host, port = self.listener.getsockname()
        return f"hold {host}:{port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()
        self.listener.close()

    def until_running(self):
        self.held, _ = self.listener.accept()

    def release(self):
        if self.held is not None:
            self.held.close()
            self.held = None
