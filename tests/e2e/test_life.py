"""A server's life: how it starts, what it refuses, and how it ends."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from tests.support.wire import DEADLINE_S, Hold, Wire, get, metric, post, until, words

from xirang.lab.server import ServerFailed, ServerProcess

pytestmark = pytest.mark.e2e

HOLD = "tests.e2e.callables:hold"
INFER = "/v2/models/hold/infer"


def serve_and_end(*arguments, **environment):
    """Run `xirang serve` to its end."""
    command = [sys.executable, "-m", "xirang", "serve", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )


def test_a_port_in_use_ends_with_2_and_says_so():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve_and_end(HOLD, "--http-port", str(port))
    assert ended.returncode == 2
    assert ended.stderr == f"xirang: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_bad_path_ends_with_2_and_says_so():
    ended = serve_and_end("no/such/model")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'no/such/model' does not exist" in ended.stderr


def test_a_model_that_cannot_be_loaded_ends_with_2_and_says_so(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"this is no model")
    ended = serve_and_end(str(tmp_path / "broken.onnx"), "--http-port", "0")
    assert ended.returncode == 2
    assert "broken.onnx is not a model that ONNX Runtime loads" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_wrong_variable_ends_with_2():
    ended = serve_and_end(HOLD, "--http-port", "0", XIRANG_QUEUE="many")
    assert ended.returncode == 2
    assert "Expected `int`" in ended.stderr


def test_a_server_that_ends_before_it_is_ready_is_told_with_its_log():
    with pytest.raises(ServerFailed, match=r"status 2:\nxirang: 'no/such' does not exist"):
        ServerProcess(["no/such"])


def test_a_server_that_hangs_is_killed():
    with ServerProcess([HOLD]) as server:
        os.kill(server.pid, signal.SIGSTOP)
        assert server.stop(patience_s=0.1) == -signal.SIGKILL


def test_a_full_queue_is_a_429_that_says_when_to_come_back():
    options = ("--queue", "1", "--instances", "1")
    with ServerProcess([HOLD], *options) as server, Hold() as hold:
        with Wire(server.url) as holder, Wire(server.url) as waiting:
            holder.send("POST", INFER, words(hold.text))
            hold.until_running()
            waiting.send("POST", INFER, words("waiting"))
            until(lambda: metric(server.url, "xirang_waiting", "hold") == 1, "one to wait")
            status, headers, body = post(server.url, INFER, words("too many"))
            assert (status, body["error"].partition(":")[0]) == (429, "Exceeds maximum queue size")
            assert int(headers["retry-after"]) >= 1
            assert int(headers["retry-after-ms"]) >= 1
            assert metric(server.url, "xirang_rejected_total", "hold") == 1
            hold.release()
            assert holder.receive()[0] == waiting.receive()[0] == 200
        assert server.stop() == 0


def test_a_budget_in_a_header_and_the_models_own_are_kept(tmp_path):
    (tmp_path / "x.toml").write_text("[models.own]\nbudget_ms = 60\nwindow_ms = 1\n")
    paths = [HOLD, f"own={HOLD}"]
    with ServerProcess(paths, "--config", str(tmp_path / "x.toml")) as server:
        for model, headers in (("hold", {"X-Request-Timeout-Ms": "60"}), ("own", {})):
            with Hold() as hold, Wire(server.url) as holder:
                generous = {"X-Request-Timeout-Ms": "60000"}
                path = f"/v2/models/{model}/infer"
                holder.send("POST", path, words(hold.text), generous)
                hold.until_running()
                status, _, body = post(server.url, path, words("late"), headers)
                assert status == 504
                assert "Request timeout expired: the budget of 60 ms" in body["error"]
                assert metric(server.url, "xirang_expired_total", model) == 1
                hold.release()
                assert holder.receive()[0] == 200


def test_a_stopping_server_is_not_ready_at_once_and_finishes_what_is_in():
    with ServerProcess([HOLD]) as server, Hold() as hold:
        with Wire(server.url) as holder, Wire(server.url) as queued, Wire(server.url) as watcher:
            assert watcher.get("/v2/health/ready")[0] == 200
            holder.send("POST", INFER, words(hold.text))
            hold.until_running()
            queued.send("POST", INFER, words("in the queue"))
            until(lambda: metric(server.url, "xirang_waiting", "hold") == 1, "one to wait")
            os.kill(server.pid, signal.SIGTERM)
            until(lambda: watcher.get("/v2/health/ready")[0] == 400, "the server to be unready")
            assert get(server.url, "/v2/health/live")[0] == 200
            status, headers, body = watcher.ask("POST", INFER, words("too late"))
            assert (status, body["error"].split(";")[0]) == (503, "the server is shutting down")
            assert "retry-after" in headers
            hold.release()
            assert holder.receive()[0] == 200
            status, headers, body = queued.receive()
            assert (status, body["outputs"][0]["data"]) == (200, ["in the queue"])
        assert server.stop() == 0


class Client(threading.Thread):
    """Asks again and again on one connection until the server turns it away."""

    def __init__(self, number, url, note):
        super().__init__()
        self.number, self.url, self.note = number, url, note
        self.answered = []
        self.end = None

    def run(self):
        count = 0
        with Wire(self.url) as wire:
            while self.end is None:
                word = f"{self.number}-{count}"
                count += 1
                self.end = self.ask_once(wire, word)

    def ask_once(self, wire, word):
        """None to go on, else why not."""
        try:
            status, headers, body = wire.ask("POST", INFER, words(f"note {self.note} {word}"))
        except (ConnectionError, OSError) as error:
            return type(error).__name__
        if status != 200:
            return status
        assert body["outputs"][0]["data"] == [f"note {self.note} {word}"]
        self.answered.append(word)
        return "told to close" if headers.get("connection") == "close" else None


def test_a_stop_under_load_loses_nothing_and_answers_nothing_twice(tmp_path):
    note = tmp_path / "executed.txt"
    with ServerProcess([HOLD]) as server:
        clients = [Client(number, server.url, note) for number in range(24)]
        for client in clients:
            client.start()
        until(lambda: note.exists() and note.read_text().count("\n") > 300, "some load")
        assert server.stop() == 0
        for client in clients:
            client.join(DEADLINE_S)
    executed = note.read_text().split()
    answered = [word for client in clients for word in client.answered]
    assert len(executed) == len(set(executed)), "nothing ran twice"
    assert sorted(answered) == sorted(executed), "whoever ran was answered, and nobody else"
    ends = {client.end for client in clients}
    assert ends <= {503, "told to close", "RemoteDisconnected", "ConnectionResetError",
                    "ConnectionRefusedError", "BrokenPipeError"}  # fmt: skip


def test_what_does_not_end_in_time_ends_with_1():
    with (
        ServerProcess([HOLD], "--exit-timeout-s", "0.2") as server,
        Hold() as hold,
        Wire(server.url) as holder,
    ):
        holder.send("POST", INFER, words(hold.text))
        hold.until_running()
        assert server.stop() == 1
