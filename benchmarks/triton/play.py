"""Plays sequences of requests against a server over HTTP and gathers what became of them."""

import asyncio
import json
import shutil
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

from tests.support.batcher import Ask, Outcome, Sequence, moments

TIMED_OUT, FULL = "Request timeout expired", "Exceeds maximum queue size"


def lay_out(sequences: Iterable[Sequence], repository: Path) -> Path:
    """A model repository with one model for each of them."""
    for sequence in sequences:
        version = repository / sequence.model / "1"
        version.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("models") / "told.py", version / "model.py")
        (version.parent / "config.pbtxt").write_text(sequence.config())
    return repository


async def play(sequence: Sequence, place: str) -> Outcome:
    """Send a sequence's requests, each over a connection of its own, at their instants."""
    host, port = place.rsplit(":", 1)
    streams = [await asyncio.open_connection(host, int(port)) for _ in sequence.asks]
    answered: list[tuple[float, int]] = []
    start = perf_counter()

    async def ask(number: int) -> dict[str, Any]:
        reader, writer = streams[number]
        each = sequence.asks[number]
        await asyncio.sleep(max(0.0, start + each.at_ms / 1000 - perf_counter()))
        writer.write(_message(sequence.model, each))
        answer = await _answer(reader)
        if "outputs" in answer:
            answered.append((1000 * (perf_counter() - start), number))
        writer.close()
        return answer

    answers = await asyncio.gather(*map(ask, range(len(sequence.asks))))
    stats = await asyncio.to_thread(_statistics, place, sequence.model)
    return _outcome(answers, moments(answered) if sequence.is_watched else (), stats)


def _message(model: str, ask: Ask) -> bytes:
    row = [float(ask.busy_ms)] + [0.0] * (ask.length - 1)
    parameters = {"priority": ask.priority, "timeout": 1000 * ask.timeout_ms}
    shape = [ask.rows, ask.length]
    body = json.dumps(
        {
            "inputs": [{"name": "IN", "datatype": "FP32", "shape": shape, "data": row * ask.rows}],
            "parameters": {name: value for name, value in parameters.items() if value},
        }
    ).encode()
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + body


async def _answer(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
    told: dict[str, Any] = json.loads(await reader.readexactly(size))
    return told


def _statistics(place: str, model: str) -> dict[str, Any]:
    url = f"http://{place}/v2/models/{model}/stats"
    with urllib.request.urlopen(url, timeout=10) as answer:
        told: dict[str, Any] = json.load(answer)["model_stats"][0]
    return told


def _outcome(answers: list[dict[str, Any]], answered: list[int], stats: dict[str, Any]) -> Outcome:
    runs: dict[int, list[int]] = {}
    for number, answer in enumerate(answers):
        if "outputs" in answer:
            runs.setdefault(answer["outputs"][0]["data"][0], []).append(number)
    said = [answer.get("error", "") for answer in answers]
    unexpected = [text for text in said if text and not (TIMED_OUT in text or FULL in text)]
    if unexpected:
        raise RuntimeError(unexpected[0])
    shared = tuple(sorted(map(tuple, runs.values())))
    return Outcome(
        runs=shared,
        timed_out=tuple(number for number, text in enumerate(said) if TIMED_OUT in text),
        refused=tuple(number for number, text in enumerate(said) if FULL in text),
        sizes=tuple(
            (each["batch_size"], each["compute_infer"]["count"]) for each in stats["batch_stats"]
        ),
        inferences=stats["inference_count"],
        executions=stats["execution_count"],
        answered=answered,
    )
