"""Everything at once, for long: every admitted request answered once and right, nothing grows."""

import asyncio
import contextlib
import os
import signal
import statistics
import tempfile
from pathlib import Path
from random import Random
from time import perf_counter

import orjson
from tests.support.repositories import put, set_back

from benchmarks.figures import Figure
from benchmarks.qos.client import Asked, Client, body_of, open_loop
from benchmarks.qos.live import serving, workers_of
from benchmarks.qos.models import CAPACITY
from xirang.lab.server import ServerProcess

LOAD = 0.6
KILL_EVERY_S = 4.0
WARM_SHARE = 0.4
EXPECTED = frozenset({200, 429, 503, 504})
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(seconds: float) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        file = put(Path(folder), "plus", number=1)
        options = (f"--model-repository={folder}", "--model-control-mode=explicit")
        with serving(*options, "--load-model=plus", "--client-timeout-s=2") as server:
            return asyncio.run(_Soak(server, seconds, file).run())


class _Soak:
    """Its clients, good and bad, and what is seen of the server meanwhile."""

    def __init__(self, server: ServerProcess, seconds: float, file: Path) -> None:
        self.client, self.pid, self.seconds = Client(server.url), server.pid, seconds
        self.file = file
        self.plus = Asked()
        self.asked = Asked()
        self.random = Random(1)
        self.memory_mib: list[float] = []
        self.reloads = self.failed_reloads = self.kills = self.bad = 0
        self.end = 0.0

    async def run(self) -> list[Figure]:
        for number in range(40):
            await self._ask(Random(number))
        files = self._files()
        self.end = perf_counter() + self.seconds
        bad = (self._vanish, self._dawdle, self._rubbish)
        await asyncio.gather(
            open_loop(LOAD * CAPACITY, self.seconds, self._ask),
            *[self._again(act, 0.15) for act in bad],
            self._again(self._kill, KILL_EVERY_S),
            self._again(self._reload, 1.0),
            self._again(self._ask_plus, 0.02),
            self._again(self._look, 0.25),
        )
        self.client.close()
        await asyncio.sleep(2.5)  # longer than the server waits for those who dawdle
        return self._figures(self._files() - files)

    def _figures(self, more_files: int) -> list[Figure]:
        statuses = self.asked.statuses + self.plus.statuses
        odd = sum(count for status, count in statuses.items() if status not in EXPECTED)
        warm = self.memory_mib[int(WARM_SHARE * len(self.memory_mib)) :]
        third = max(1, len(warm) // 3)
        growth = statistics.median(warm[-third:]) / statistics.median(warm[:third]) - 1
        name = f"soak {self.seconds:g} s: "
        print(
            f"       {statuses.total()} requests {dict(statuses)}, {self.bad} bad clients, "
            f"{self.kills} kills, {self.reloads} reloads"
        )
        return [
            Figure(f"{name}wrong answers", self.asked.wrong + self.plus.wrong, 0, False),
            Figure(f"{name}requests without an answer, or with a 500", odd, 0, False),
            Figure(f"{name}answered right ÷ all", statuses[200] / statuses.total(), 0.95),
            Figure(f"{name}reloads that failed", self.failed_reloads, 0, False),
            Figure(f"{name}memory grown after warm-up", 100 * growth, 5, False, "%"),
            Figure(f"{name}more file descriptors than before", more_files, 0, False),
        ]

    def _ask(self, random: Random) -> "asyncio.Future[None]":
        return asyncio.ensure_future(
            self.client.ask(
                self.asked,
                random.randrange(1000),
                budget_ms=3000,
                priority=random.choice((1, 2, 3)),
            )
        )

    async def _again(self, act, every_s: float) -> None:
        while perf_counter() < self.end:
            await asyncio.sleep(every_s)
            await act()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.bad += 1
        return await asyncio.open_connection(self.client.host, self.client.port)

    def _request(self) -> bytes:
        body = body_of(self.random.randrange(1000), 3000)
        head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        return head % (self.client.path.encode(), len(body)) + body

    async def _vanish(self) -> None:
        """Asks, and goes before the answer; or in the middle of the question."""
        _, writer = await self._open()
        request = self._request()
        writer.write(request[: self.random.choice((40, len(request)))])
        await asyncio.sleep(self.random.random() * 0.05)
        writer.close()

    async def _dawdle(self) -> None:
        """Asks for much and reads nothing; goes in the end."""
        _, writer = await self._open()
        writer.write(self._request() * 20)
        asyncio.get_running_loop().call_later(self.random.random() * 3, writer.close)

    async def _rubbish(self) -> None:
        reader, writer = await self._open()
        writer.write(self.random.randbytes(200) + b"\r\n\r\n")
        with contextlib.suppress(TimeoutError, OSError):
            await asyncio.wait_for(reader.read(), 5)
        writer.close()

    async def _kill(self) -> None:
        for worker in workers_of(self.pid):
            os.kill(worker, signal.SIGKILL)
            self.kills += 1

    async def _reload(self) -> None:
        set_back(self.file)
        status, _ = await self.client.post("/v2/repository/models/plus/load", b"{}")
        self.reloads += 1
        self.failed_reloads += status != 200

    async def _ask_plus(self) -> None:
        """The model that is reloaded all the time."""
        x = self.random.randrange(1000)
        row = {"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [x]}
        body = orjson.dumps({"inputs": [row]})
        status, answer = await self.client.post("/v2/models/plus/infer", body)
        self.plus.statuses[status] += 1
        if status == 200:
            self.plus.wrong += orjson.loads(answer)["outputs"][0]["data"] != [x + 1]

    async def _look(self) -> None:
        self.memory_mib.append(_memory_mib(self.pid))

    def _files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def _memory_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MIB
