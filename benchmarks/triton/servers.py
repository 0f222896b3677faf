"""A genuine Triton server and our own, on the same model repository.

The genuine one is started by a launcher that this project does not have: a command that is called
as `LAUNCHER REPOSITORY HTTP GRPC METRICS [options]` and becomes the server. The environment
variable `XIRANG_TRITON` says where it is.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from unittest.mock import patch

from xirang.lab.server import ServerProcess

LAUNCHER = "XIRANG_TRITON"
START_S = 60.0


def launcher() -> str:
    """Where the genuine server's launcher is; empty if nobody has said so."""
    return os.environ.get(LAUNCHER, "")


def runnable(file: str) -> list[str]:
    """The beginning of a command that runs a program, or a shell script without the right to."""
    return [file] if os.access(file, os.X_OK) else ["bash", file]


def absent(variable: str, what: str) -> str:
    """What is said where a judge is not there."""
    return f"skipped  {variable} is not set: {what} is not here (see docs/compatibility.md)"


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Genuine(AbstractContextManager["Genuine"]):
    """A genuine Triton server while the context lasts.

    Attributes:
        http: Its host and port for HTTP.
        grpc: Its host and port for gRPC.
    """

    name = "triton"

    def __init__(
        self, repository: Path, *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        http, grpc, metrics = free_ports(3)
        self.http, self.grpc = f"127.0.0.1:{http}", f"127.0.0.1:{grpc}"
        ports = [str(port) for port in (http, grpc, metrics)]
        command = [*runnable(launcher()), str(repository), *ports, *options]
        self._log = (repository.parent / "triton.log").open("ab")
        self._process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )  # in our own session, as our server is: sessions share a busy machine, not processes
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_S
        while not is_ready(self.http):
            if self._process.poll() is not None or time.monotonic() > end:
                tail = Path(self._log.name).read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the genuine server did not start: {tail}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End it; its processes end with it."""
        for kind in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(kind)
                try:
                    self._process.wait(10)
                except subprocess.TimeoutExpired:
                    continue
        self._log.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Ours(AbstractContextManager["Ours"]):
    """Our own server on a model repository while the context lasts; see `Genuine`."""

    name = "xirang"

    def __init__(
        self, repository: Path, *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        with patch.dict(os.environ, environment or {}):
            self._server = ServerProcess(
                [], "--model-repository", str(repository), "--grpc-port", "0", *options
            )
        self.http = self._server.url.removeprefix("http://")
        self.grpc = self._server.grpc_place or ""

    @property
    def pid(self) -> int:
        return self._server.pid

    def __exit__(self, *exc: object) -> None:
        self._server.__exit__(*exc)


def is_ready(place: str) -> bool:
    """Whether a server says that it is ready."""
    connection = http.client.HTTPConnection(place, timeout=2)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def version_of(place: str) -> str:
    """Name and version that a server gives itself."""
    with urllib.request.urlopen(f"http://{place}/v2", timeout=10) as answer:
        told = json.load(answer)
    return f"{told['name']} {told['version']}"
