"""`xirang top` makes of a server's frames what its dashboard makes of them."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from tests.support.asking import MS, ask, finish_all
from tests.support.puppets import PuppetHouse

from xirang.cli import main
from xirang.lab.top import Seen, picture, read_events


def frames():
    """Two frames of a house, a second apart, and what happened between them."""
    house = PuppetHouse.with_masked_double()
    watch = house.engine.watch()
    about = {"version": "1", "bounds": {k: list(v) for k, v in watch.bounds.items()}, "models": []}
    first = watch.frame()
    for number in range(4):
        ask(house, [number + 1] * (number + 1))
    house.step()
    house.advance(5 * MS)
    finish_all(house)
    house.advance(1000 * MS - house.clock.time_ns)
    ask(house, [9], priority=1)
    return about, first, watch.frame()


@contextmanager
def server(*events, status=200):
    """One that sends these events to everybody, and ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            for kind, content in events:
                self.wfile.write(f"event: {kind}\ndata: {json.dumps(content)}\n\n".encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}"
        finally:
            listener.shutdown()
            thread.join()


def test_figures_are_those_of_the_interval():
    about, first, last = frames()
    seen = Seen(about["bounds"]["spans_ms"])
    seen.add(first)
    seen.add(last)
    (model,) = seen.models()
    counts = last["models"][0]["counts"]
    assert model.rate == pytest.approx(4 / seen.passed_s())
    assert model.on_time == 1
    assert model.rows_mean == counts["rows"] / counts["runs"]
    assert model.padding == counts["padding"] / counts["elements"]
    assert 0 < model.p50_ms <= model.p99_ms


def test_a_server_that_was_started_anew_begins_anew():
    _, first, last = frames()
    seen = Seen()
    seen.add(last)
    seen.add(first)
    assert list(seen.frames) == [first]


def test_old_frames_are_forgotten():
    _, first, _ = frames()
    seen = Seen()
    for second in range(60):
        seen.add(first | {"now_ms": second * 1e3})
    assert seen.passed_s() == 10


def test_one_picture_is_printed(capsys):
    about, first, last = frames()
    with server(("about", about), ("frame", first), ("frame", last)) as url:
        assert main(["top", url, "--once"]) == 0
    shown = capsys.readouterr().out
    assert url in shown
    for word in ("req/s", "window", "demand", "lane", "slowest", "by"):
        assert word in shown


def test_all_pictures_are_shown_until_the_stream_ends(capsys):
    about, first, last = frames()
    with server(("about", about), ("frame", first), ("frame", last)) as url:
        assert main(["top", url]) == 0
        assert [kind for kind, _ in read_events(f"{url}/dashboard/events")] == [
            "about",
            "frame",
            "frame",
        ]
    assert "req/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "an API key is needed"), (503, "answers 503")]
)
def test_a_server_that_shows_nothing_is_told_of(capsys, status, reason):
    with server(status=status) as url:
        assert main(["top", url, "--once"]) == 1
    assert reason in capsys.readouterr().err


def test_nobody_there_is_told_of(capsys):
    with server() as url:
        pass
    assert main(["top", url, "--once"]) == 1
    assert "xirang top:" in capsys.readouterr().err
    assert main(["top", "localhost:8000"]) == 2


def test_a_picture_is_made_of_what_little_there_may_be():
    about, first, _ = frames()
    seen = Seen(about["bounds"]["spans_ms"])
    seen.add(first)
    seen.add(first | {"now_ms": first["now_ms"] + 1000})
    assert picture("http://x", seen) is not None
