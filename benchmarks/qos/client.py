"""A small HTTP client: as many connections as there are requests on their way."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from urllib.parse import urlsplit

import orjson


@dataclass
class Asked:
    """How requests of one kind went.

    Attributes:
        statuses: Of the answers; 0 where there was none.
        wrong: Answers with another value than the model gives.
        on_time_s: Latencies of those answered right within their budgets.
        refused_s: Latencies of all others.
        at_s: When those answered right had their answers.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: int = 0
    on_time_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.statuses.total()

    @property
    def share(self) -> float:
        return len(self.on_time_s) / max(1, self.count)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Client:
    """Asks one model; connections are used again."""

    def __init__(self, url: str, *, model: str = "paced") -> None:
        place = urlsplit(url)
        self.host, self.port = place.hostname, place.port
        self.path = f"/v2/models/{model}/infer"
        self._number = 0
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body; 0 if the connection broke."""
        reader, writer = self._kept() or await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(
                b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"
                % (path.encode(), len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            answer = await reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError, IndexError):
            writer.close()
            return 0, b""
        except asyncio.CancelledError:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return int(head[9:12]), answer

    def _kept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection that is still open; idle ones are closed after a while."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    async def ask(self, asked: Asked, x: float, *, budget_ms: float, priority: int = 0) -> None:
        """One request, checked and counted."""
        self._number += 1
        identity = f"{id(self)}-{self._number}"
        began = perf_counter()
        body = body_of(x, budget_ms, priority, identity=identity)
        status, answer = await self.post(self.path, body)
        ended = perf_counter()
        asked.statuses[status] += 1
        is_right = status == 200 and is_answer(answer, x, identity)
        asked.wrong += status == 200 and not is_right
        if is_right and ended - began <= budget_ms / 1e3:
            asked.on_time_s.append(ended - began)
            asked.at_s.append(ended)
        else:
            asked.refused_s.append(ended - began)


def body_of(x: float, budget_ms: float, priority: int = 0, *, identity: str = "") -> bytes:
    row = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [x, x, x, x]}
    parameters = {"timeout": int(budget_ms * 1000), "priority": priority}
    return orjson.dumps({"id": identity, "inputs": [row], "parameters": parameters})


def is_answer(answer: bytes, x: float, identity: str) -> bool:
    """Whether it is the answer to this very request, and right."""
    said = orjson.loads(answer)
    return said.get("id") == identity and said["outputs"][0]["data"] == [2 * x + 1] * 4


async def open_loop(
    rate: float, seconds: float, ask: Callable[[Random], "asyncio.Future[None]"], *, seed: int = 1
) -> None:
    """Poisson arrivals, whatever became of the earlier ones; returns when all are answered."""
    random, tasks = Random(seed), set()
    at = perf_counter()
    end = at + seconds
    while (at := at + random.expovariate(rate)) < end:
        if (left := at - perf_counter()) > 0:
            await asyncio.sleep(left)
        task = asyncio.ensure_future(ask(random))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    while tasks:
        await asyncio.wait(set(tasks))
