"""`xirang load` as a user types it: exit statuses, messages and files."""

import argparse
import asyncio
import json
import sys
import threading

import pytest

from xirang.lab.load import add_load
from xirang.lab.load.terminal import fitting_blocks

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NAMES = b'[{"name": "mini"}]'
INDEX = (len(NAMES), NAMES)


def command(*arguments):
    """The exit status of one command line."""
    parser = argparse.ArgumentParser(prog="xirang")
    add_load(parser.add_subparsers(required=True))
    args = parser.parse_args(["load", *map(str, arguments)])
    return args.run(args)


class Fixed(asyncio.Protocol):
    """Names one model, has no metrics, and answers everything else with an empty object."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if data.startswith(b"POST /v2/repository/index"):
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % INDEX)
        elif data.startswith(b"GET"):
            self.transport.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
        else:
            self.transport.write(OK)


@pytest.fixture(scope="module")
def url():
    """A server on a thread of its own, as the command runs its own loop."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(Fixed, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    server.close()
    loop.run_until_complete(server.wait_closed())
    loop.close()


def test_a_run_prints_a_table_and_writes_its_files(url, tmp_path, capsys):
    figures, page = tmp_path / "figures.json", tmp_path / "page.html"
    status = command(
        *(url, "--lengths", "lognormal:30:0.92:3:512", "--distinct", 20, "--warmup", 0),
        *("--clients", 1, 2, "--rate", 500, "--requests", 30, "--budget-ms", 100),
        *("--json", figures, "--html", page),
    )
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "2 clients" in shown
    assert "500/s Poisson" in shown
    content = json.loads(figures.read_text())
    assert content["model"] == "mini"
    assert [point["ok"] for point in content["points"]] == [30, 30, 30]
    assert content["points"][0]["goodput"] > 0
    assert "Throughput against p99" in page.read_text()


@pytest.mark.parametrize("binary", [[], ["--binary"]])
def test_tensors_are_sent_in_both_forms(url, binary):
    status = command(
        *(url, "--tensor", "a:FP32:1x4", "--tensor", "b:INT64:1", *binary, "--model", "m"),
        *("--requests", 5, "--warmup", 0, "--clients", 1),
    )
    assert status == 0


def test_texts_a_body_and_a_trace_are_sent(url, tmp_path):
    texts, body, trace = tmp_path / "t.txt", tmp_path / "b.json", tmp_path / "t.csv"
    texts.write_text("one\ntwo\n")
    body.write_text("{}")
    trace.write_text("t_ms\n0\n10\n20\n")
    assert command(url, "--text", texts, "--trace", trace, "--warmup", 0) == 0
    assert command(f"{url}/any/path", "--body", body, "--requests", 3, "--warmup", 0) == 0


def test_nothing_answered_is_exit_1(unused_port, capsys):
    status = command(
        *(f"http://127.0.0.1:{unused_port}", "--tensor", "a:FP32:1", "--model", "m"),
        *("--requests", 3, "--warmup", 0, "--clients", 1),
    )
    assert status == 1
    assert "no request" in capsys.readouterr().err


@pytest.fixture
def unused_port():
    """A port that nobody listens on: it was just given and closed."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "none was given"),
        (["--text", "a", "--lengths", "b"], "--text and --lengths"),
        (["--text", "nowhere.txt"], "nowhere.txt"),
        (["--lengths", "even:3"], "lognormal:MEDIAN"),
        (["--tensor", "a:FP32:0"], "sizes of at least 1"),
        (["--lengths", "lognormal:9:1:3:9", "--binary"], "--tensor only"),
        (["--lengths", "lognormal:9:1:3:9", "--clients", "0"], "0 clients"),
        (["--lengths", "lognormal:9:1:3:9", "--rate", "-1"], "rate -1"),
        (["--lengths", "lognormal:9:1:3:9", "--duration", "0"], "duration 0"),
        (["--lengths", "lognormal:9:1:3:9", "--distinct", "0"], "--distinct 0"),
        (["--lengths", "lognormal:9:1:3:9", "--trace", "nowhere.csv"], "nowhere.csv"),
        (["--lengths", "lognormal:9:1:3:9"], "cannot ask 127.0.0.1"),
    ],
)
def test_impossible_arguments_are_exit_2(unused_port, arguments, complaint, capsys):
    assert command(f"http://127.0.0.1:{unused_port}", *arguments) == 2
    assert complaint in capsys.readouterr().err


def test_https_is_refused(capsys):
    assert command("https://127.0.0.1:1", "--lengths", "lognormal:9:1:3:9") == 2
    assert "only http://" in capsys.readouterr().err


@pytest.mark.parametrize("library", ["rich.console", "plotly.io"])
def test_a_missing_extra_is_named_before_the_run(library, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, library, None)
    page = tmp_path / "page.html"
    assert command("http://127.0.0.1:1", "--lengths", "lognormal:9:1:3:9", "--html", page) == 2
    assert "xirang[report]" in capsys.readouterr().err


def test_a_table_that_is_too_wide_is_turned_and_cut_into_blocks():
    lines = [["load", "p50 ms"], ["1 client", "3"], ["2 clients", "4"], ["3 clients", "5"]]
    assert fitting_blocks(lines, 80) == [lines]
    assert fitting_blocks(lines, 17) == [[["load", "p50 ms"], *lines[1:]]]
    many = [["load", *"abcdefgh"], *([f"point {n}", *["1234"] * 8] for n in range(3))]
    assert fitting_blocks(many, 23) == [
        [["load", "point 0", "point 1"], *([name, "1234", "1234"] for name in "abcdefgh")],
        [["load", "point 2"], *([name, "1234"] for name in "abcdefgh")],
    ]
