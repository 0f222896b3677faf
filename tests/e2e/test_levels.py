"""A real server under pressure: levels rise, functions go in their order, and all come back."""

import re
import threading
from contextlib import contextmanager

import pytest
from tests.support.wire import Wire, get, post, until, words

from xirang.core.event import Function
from xirang.lab.server import ServerProcess

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

INFER = "/v2/models/paced/infer"
NAMES = [function.value for function in Function]


@pytest.fixture(scope="module")
def server():
    options = ("--max-batch-size=1", "--overload-depths=2,4,6")
    with ServerProcess(["tests.e2e.paced:paced"], *options) as server:
        yield server


@contextmanager
def flood(url, clients=24):
    """So many clients that ask again as soon as they have an answer, whatever it is."""
    stop = threading.Event()

    def ask(number):
        with Wire(url) as wire:
            while not stop.is_set():
                wire.ask("POST", INFER, words(f"{number}"), {"X-Request-Timeout-Ms": "2000"})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def level(url):
    _, page = get(url, "/metrics")
    (found,) = re.findall(r'xirang_overload_level\{device="cpu"\} (\d)', page.decode())
    return int(found)


def off(url):
    """Names of the functions that are off, in their order."""
    _, page = get(url, "/metrics")
    pattern = r'xirang_function_off\{device="cpu",function="([\w ]+)"\} 1'
    return re.findall(pattern, page.decode())


def timed(url):
    """The headers of an answer that was asked to carry its stages; None if there was none."""
    status, headers, _ = post(url, INFER, words("x"), {"X-Xirang-Timing": "1"})
    return headers if status == 200 else None


def test_the_levels_rise_functions_go_in_order_and_all_come_back(server):
    seen = []
    with flood(server.url):
        until(lambda: level(server.url) == 3, "level 3")

        def are_all_off():
            seen.append(off(server.url))
            return seen[-1] == NAMES

        until(are_all_off, "all functions to be off")
        assert "x-xirang-timing" not in until(lambda: timed(server.url), "an answer")
    assert all(names == NAMES[: len(names)] for names in seen)
    until(lambda: level(server.url) == 0 and not off(server.url), "all to be as before")
    assert "x-xirang-timing" in timed(server.url)
