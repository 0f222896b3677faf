"""The doors of a real server: keys, encryption, a port for operators, limits, a slow farewell."""

import contextlib
import hashlib
import http.client
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from tests.frontends.test_doors import certificate, free_port
from tests.support.wire import DEADLINE_S, Hold, Wire, get, metric, place_of, post, until, words

from xirang.frontends.keys import new_key
from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

CALLABLES = "tests.e2e.callables"
HOLD, SHOUT = f"{CALLABLES}:hold", f"{CALLABLES}:shout"
INFER = "/v2/models/hold/infer"


# ---------------------------------------------------------------------- keys


class Locked:
    """A server with three holders of keys: `guest` for one model, `user` for all, and `boss`."""

    def __init__(self, folder):
        self.keys, text = {}, ""
        rights = {"guest": 'models = ["shout"]\npriority = 3', "user": "", "boss": "admin = true"}
        for name, lines in rights.items():
            self.keys[name], entry = new_key(name)
            text += f"{entry}{lines}\n"
        self.file = folder / "keys.toml"
        self.file.write_text(text)
        self.admin_port = free_port()
        self.server = ServerProcess(
            [HOLD, SHOUT], "--keys", str(self.file), "--admin-port", str(self.admin_port)
        )

    def ask(self, headers, path=INFER, body=None):
        return post(self.server.url, path, body or words("x"), headers)[0]

    def bearer(self, name):
        return {"Authorization": f"Bearer {self.keys[name]}"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    locked = Locked(tmp_path_factory.mktemp("keys"))
    with locked.server:
        yield locked
        assert locked.ask(locked.bearer("user")) == 200


def test_a_known_key_opens_and_either_header_will_do(locked):
    assert locked.ask(locked.bearer("user")) == 200
    assert locked.ask({"X-API-Key": locked.keys["user"]}) == 200
    assert locked.ask({"authorization": f"bearer   {locked.keys['user']} "}) == 200


def test_a_key_is_asked_for_before_an_upload(locked):
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(place_of(locked.server.url), timeout=DEADLINE_S) as wire:
        wire.sendall((head % 50_000_000).encode())
        assert wire.recv(65536).startswith(b"HTTP/1.1 401 ")
    with socket.create_connection(place_of(locked.server.url), timeout=DEADLINE_S) as wire:
        wire.sendall((head % 3).encode())
        assert wire.recv(65536).startswith(b"HTTP/1.1 401 ")
        wire.sendall(b"abc" + (head % 0).encode())
        assert wire.recv(65536).startswith(b"HTTP/1.1 401 "), "the connection goes on"


FORGED = {
    "no key": lambda key: {},
    "an empty key": lambda key: {"Authorization": "Bearer "},
    "a guess": lambda key: {"Authorization": "Bearer guess"},
    "the hash of a key": lambda key: {
        "Authorization": f"Bearer {hashlib.sha256(key.encode()).hexdigest()}"
    },
    "half a key": lambda key: {"Authorization": f"Bearer {key[: len(key) // 2]}"},
    "a key and more": lambda key: {"Authorization": f"Bearer {key}x"},
    "a name": lambda key: {"Authorization": "Bearer user"},
    "another scheme": lambda key: {"Authorization": f"Basic {key}"},
    "a cookie": lambda key: {"Cookie": f"key={key}"},
    "another header": lambda key: {"X-Key": key},
    "letters beyond ASCII": lambda key: {"X-API-Key": "schlüssel"},
}


@pytest.mark.parametrize("case", FORGED)
def test_nothing_but_the_key_is_the_key(locked, case):
    headers = FORGED[case](locked.keys["user"])
    status, told, body = post(locked.server.url, INFER, words("x"), headers)
    assert (status, told["www-authenticate"]) == (401, "Bearer")
    assert told["x-should-retry"] == "false"
    assert locked.keys["user"] not in json.dumps(body)


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "authorization", "x-api-key"])
def test_a_key_in_the_url_is_none(locked, name):
    """It would stand in logs."""
    key = locked.keys["user"]
    assert locked.ask({}, f"{INFER}?{name}={key}") == 401
    assert locked.ask({}, INFER.replace("/v2", f"/{key}/v2")) in (401, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/{}/infer",
        "/v2/models/{}/versions/1/infer",
        "/v2/models/{}/infer?model=shout",
        "http://shout/v2/models/{}/infer",
    ],
)
def test_a_key_for_one_model_opens_no_other_however_it_is_spelt(locked, path):
    guest = locked.bearer("guest")
    assert locked.ask(guest, path.format("shout")) == 200
    assert locked.ask(guest, path.format("hold")) == 403
    assert locked.ask(guest, path.format("%68old")) == 403


def test_a_client_cannot_promote_itself(locked):
    """It may ask for the moon; it gets what its key says, and a right answer."""
    wishes = {"X-Request-Priority": "1", "X-Fast": "1", "X-Priority": "0", "X-Tenant": "boss"}
    body = words("x") | {"parameters": {"priority": 1, "fast": True, "admin": True}}
    path = "/v2/models/shout/infer"
    assert locked.ask(locked.bearer("guest") | wishes, path, body) == 200
    assert locked.ask(locked.bearer("guest") | {"X-Request-Priority": "-1"}, path) == 400


def test_the_port_for_operators_has_health_and_metrics_and_no_inference(locked):
    admin = f"http://127.0.0.1:{locked.admin_port}"
    assert get(admin, "/v2/health/ready")[0] == 200
    assert b"xirang_waiting" in get(admin, "/metrics")[1]
    assert post(admin, INFER, words("x"), locked.bearer("user"))[0] == 404
    assert post(admin, "/v2/repository/index", {}, {})[0] == 401
    assert post(admin, "/v2/repository/index", {}, locked.bearer("user"))[0] == 200


def test_whoever_manages_needs_the_port_and_the_right(locked):
    admin = f"http://127.0.0.1:{locked.admin_port}"
    path = "/v2/repository/models/hold/unload"
    for key, expected in ((None, 401), ("guest", 403), ("user", 403)):
        headers = {} if key is None else locked.bearer(key)
        assert post(admin, path, {}, headers)[0] == expected
    for key in locked.keys:
        assert post(locked.server.url, path, {}, locked.bearer(key))[0] == 404


def test_a_key_made_on_the_command_line_opens_the_door(tmp_path):
    made = subprocess.run(
        [sys.executable, "-m", "xirang", "key", "shop"], capture_output=True, text=True, check=True
    )
    (tmp_path / "keys.toml").write_text(made.stdout)
    key = made.stderr.strip()
    assert key not in made.stdout
    with ServerProcess([HOLD], "--keys", str(tmp_path / "keys.toml")) as server:
        assert post(server.url, INFER, words("x"), {"X-API-Key": key})[0] == 200
        assert post(server.url, INFER, words("x"))[0] == 401


# ---------------------------------------------------------------------- encryption


def test_an_encrypted_door_answers_those_who_speak_tls_and_nobody_else(tmp_path):
    chain, key = certificate(tmp_path)
    options = ("--tls-certificate", str(chain), "--tls-key", str(key))
    with ServerProcess([HOLD], *options) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=chain)
        for _ in range(2):
            connection = http.client.HTTPSConnection(*place_of(server.url), context=context)
            with contextlib.closing(connection):
                connection.request("POST", INFER, json.dumps(words("secret")))
                answer = json.loads(connection.getresponse().read())
                assert answer["outputs"][0]["data"] == ["secret"]
            with socket.create_connection(place_of(server.url), timeout=DEADLINE_S) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    assert b"HTTP/1.1" not in plain.recv(65536)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with (
            socket.create_connection(place_of(server.url), timeout=DEADLINE_S) as wire,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            old.wrap_socket(wire)
        assert server.stop() == 0


def test_a_certificate_that_is_none_ends_the_start_with_2(tmp_path):
    (tmp_path / "none.pem").write_text("this is no certificate")
    options = ["--tls-certificate", str(tmp_path / "none.pem"), "--tls-key", str(tmp_path / "no")]
    command = [sys.executable, "-m", "xirang", "serve", HOLD, "--http-port", "0", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr == f"xirang: cannot read {tmp_path / 'no'}: No such file or directory\n"


# ---------------------------------------------------------------------- limits


def test_one_connection_too_many_is_told_so_and_its_place_is_free_again():
    with ServerProcess([HOLD], "--connections-max", "3") as server:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                wire = stack.enter_context(Wire(server.url))
                assert wire.get("/v2/health/live")[0] == 200
            with socket.create_connection(place_of(server.url), timeout=DEADLINE_S) as extra:
                received = b"".join(iter(lambda: extra.recv(65536), b""))
            assert received.startswith(b"HTTP/1.1 503")
            assert b"x-should-retry: true" in received
        assert until(lambda: get(server.url, "/v2/health/live")[0] == 200)


def test_fewer_file_descriptors_than_connections_bound_the_connections(tmp_path):
    command = [sys.executable, "-m", "xirang", "serve", HOLD, "--http-port", "0"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            ["bash", "-c", 'ulimit -n 80; exec "$@"', "limited", *command, "--grpc-port", "-1"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            url = process.stdout.readline().split()[-1]
            with contextlib.ExitStack() as stack:
                received = []
                for _ in range(40):
                    wire = stack.enter_context(socket.create_connection(place_of(url), DEADLINE_S))
                    wire.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                    with contextlib.suppress(ConnectionError):
                        received.append(wire.recv(65536)[:12])
            assert received.count(b"HTTP/1.1 200") == 16
            assert received.count(b"HTTP/1.1 503") == len(received) - 16
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    assert "80 file descriptors allow 16 connections, not 4096" in (tmp_path / "log").read_text()


def test_a_server_that_runs_out_of_file_descriptors_goes_on():
    with ServerProcess([HOLD]) as server, Wire(server.url) as known:
        assert known.ask("POST", INFER, words("still here"))[0] == 200
        held = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (held + 4, limits[1]))
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(socket.create_connection(place_of(server.url), DEADLINE_S))
            for _ in range(20):
                status, _, body = known.ask("POST", INFER, words("still here"))
                assert (status, body["outputs"][0]["data"]) == (200, ["still here"])
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)

        def answered():
            with contextlib.suppress(ConnectionError):
                return post(server.url, INFER, words("new"))[0] == 200
            return False

        until(answered, "a new connection")
        assert server.stop() == 0


# ---------------------------------------------------------------------- farewell


def test_a_server_that_goes_says_so_first_and_serves_on_for_its_grace():
    with ServerProcess([HOLD], "--grace-s", "60") as server:
        with Wire(server.url) as known:
            assert known.get("/v2/health/ready")[0] == 200
            os.kill(server.pid, signal.SIGTERM)
            until(lambda: known.get("/v2/health/ready")[0] == 400, "the server to be unready")
            assert known.get("/v2/models/hold/ready")[0] == 400
            assert known.ask("POST", INFER, words("old"))[0] == 200
            assert post(server.url, INFER, words("new"))[0] == 200
            assert metric(server.url, "xirang_waiting", "hold") == 0
        assert server.stop() == 0, "the second signal cuts the grace short"


def test_the_grace_ends_by_itself_and_whoever_is_in_is_answered():
    with ServerProcess([HOLD], "--grace-s", "0.3") as server, Hold() as hold:
        with Wire(server.url) as holder:
            holder.send("POST", INFER, words(hold.text))
            hold.until_running()
            os.kill(server.pid, signal.SIGTERM)
            hurried = {"X-Request-Timeout-Ms": "50"}

            def is_over():
                return post(server.url, INFER, words("late"), hurried)[0] == 503

            until(is_over, "the grace to end")
            hold.release()
            assert holder.receive()[0] == 200
        until(lambda: server._process.poll() is not None, "the server to end by itself")
        assert server.stop() == 0
