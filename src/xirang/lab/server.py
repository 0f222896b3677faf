"""A real `xirang serve` in a process of its own, for the demo, the benchmarks and the tests."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from xirang.errors import XirangError

PATIENCE_S = 90.0
"""Longer than a server waits for what is in it; one that is still there hangs."""

_READY = re.compile(r"xirang serves .* on (https?://\S+)(?: and grpcs?://(\S+))?")


class ServerFailed(XirangError):
    """The server ended before it was ready; the message holds what it wrote."""


class ServerProcess:
    """A context: started and ready inside, ended by SIGTERM behind it.

    Attributes:
        url: Where it listens.
        grpc_place: Host and port of gRPC; None unless `--grpc-port 0` is among the options.
    """

    def __init__(self, paths: Sequence[str | Path], *options: str) -> None:
        """Start it on a free port and wait until it is ready.

        Args:
            paths: What to serve.
            options: Further options of `xirang serve`.

        Raises:
            ServerFailed: It ended instead.
        """
        command = [sys.executable, "-m", "xirang", "serve", *map(str, paths)]
        command += ["--http-port=0", "--grpc-port=-1"]
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the process
        self._process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.url, self.grpc_place = self._await_ready()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def is_open(self) -> bool:
        """Whether its log can still be read."""
        return not self._log.closed

    def stop(self, *, patience_s: float = PATIENCE_S) -> int:
        """Ask it to end as an operator would, and kill it if it does not; its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status

    def log_text(self) -> str:
        """What it wrote to standard error."""
        descriptor = self._log.fileno()
        # Read beside: the server writes where the file stands, which is not to be moved.
        written = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        return written.decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._log.close()

    def _await_ready(self) -> tuple[str, str | None]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := _READY.search(line):
                return found[1], found[2]
        status, text = self.stop(), self.log_text()
        self._log.close()
        raise ServerFailed(f"xirang serve ended with status {status}:\n{text[-4000:]}")
