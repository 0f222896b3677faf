"""What watching costs a server that runs: everything on against everything off, side by side.

On are: traces of one request in a hundred, sent to a collector; a line in the log for as many; a
scrape a second; and an open dashboard. Metrics are never off. The two servers take turns, so that
the machine's moods reach both.
"""

import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import truediv
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from tests.support.models import mlp

from benchmarks.figures import Figure
from benchmarks.overhead import SHAPE, cpu_us, spent_s
from xirang.lab.load.payloads import of_binary_tensors
from xirang.lab.server import ServerProcess

KEPT_GOAL = 0.97
CORE_GOAL = 0.01
"""Of a core, for an open dashboard."""

ROUNDS = 12
LOOK_S = 10.0
ON = ("--trace-ratio=0.01", "--log-requests=0.01", "--log-format=json")


def measure(*, seconds: float) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, sink() as collector:
        model = mlp(Path(folder) / "mlp.onnx")
        with (
            ServerProcess([model]) as bare,
            ServerProcess([model], f"--otlp-endpoint={collector}", *ON) as watched,
        ):
            dashboard = _dashboard_share(bare)
            _round(bare, watched, 1.0, is_first_on=True)  # both are warm from now on
            rounds = [
                _round(bare, watched, seconds, is_first_on=number % 2 == 0)
                for number in range(ROUNDS)
            ]
    on, off = ([each[i].throughput for each in rounds] for i in (0, 1))
    kept = statistics.median(map(truediv, on, off))
    cpu = statistics.median(ratio for *_, ratio in rounds)
    print(
        f"all on: {statistics.median(on):.0f}/s, all off: {statistics.median(off):.0f}/s; "
        f"on ÷ off: best rounds {max(on) / max(off):.3f}, processor time a request {cpu:.3f}"
    )
    return [
        Figure("a dashboard open, share of a core", dashboard, CORE_GOAL, False),
        Figure("throughput of a tiny model, all on ÷ all off", kept, KEPT_GOAL),
    ]


def _round(bare: ServerProcess, watched: ServerProcess, seconds: float, *, is_first_on: bool):
    payloads = of_binary_tensors("mlp", [SHAPE], 256, seed=1)
    found = {}
    for is_on in (is_first_on, not is_first_on):
        server = watched if is_on else bare
        with looking(server.url) if is_on else nullcontext():
            found[is_on] = cpu_us(server.pid, server.url, payloads, seconds)
    return found[True][1], found[False][1], found[True][0] / found[False][0]


def _dashboard_share(server: ServerProcess) -> float:
    """Processor time of a server that does nothing else, with somebody who looks less without."""
    spent = {}
    for is_open in (False, True):
        with looking(server.url, scrapes=False) if is_open else nullcontext():
            threading.Event().wait(1.0)  # the first look makes the page
            before = spent_s(server.pid)
            threading.Event().wait(LOOK_S)
            spent[is_open] = spent_s(server.pid) - before
    return max(0.0, spent[True] - spent[False]) / LOOK_S


@contextmanager
def looking(url: str, *, scrapes: bool = True) -> Iterator[None]:
    """Somebody has the dashboard open, and somebody scrapes every second."""
    opener = build_opener(ProxyHandler({}))
    end = threading.Event()

    def look() -> None:
        with opener.open(f"{url}/dashboard/events", timeout=30) as stream:
            while not end.is_set():
                stream.readline()

    def scrape() -> None:
        while not end.wait(1.0):
            with opener.open(f"{url}/metrics", timeout=30) as page:
                page.read()

    threads = [threading.Thread(target=work) for work in ([look, scrape] if scrapes else [look])]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


@contextmanager
def sink() -> Iterator[str]:
    """A collector that takes everything and keeps nothing."""

    class Sink(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
