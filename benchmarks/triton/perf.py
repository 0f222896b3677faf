"""The judge of the doors: the real perf_analyzer against our server, every way that it can ask.

Over HTTP, gRPC, a gRPC stream and shared memory it must find the server's own statistics beside its
own figures; over the embeddings door of OpenAI it asks MiniLM with texts, and so does genai-perf.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.triton.analyzer import VARIABLE, AnalyzerFailed, Found, analyzer, ask
from benchmarks.triton.genai import VARIABLE as GENAI, embeddings, genai_perf
from benchmarks.triton.repository import lay_out_add_sub
from benchmarks.triton.servers import Ours, absent
from xirang.lab.server import ServerFailed, ServerProcess
from xirang.repository.minilm import NAME, prepare

STEADY = ("--concurrency-range", "4:4", "--measurement-interval", "1000", "-r", "4", "-s", "999")
SERVER_SIDE = ("  Server:", "Inference count:", "Execution count:", "compute infer")
TEXTS = ("a short text", "another text, which is a little longer than the first", "hello")


def _of_grpc(server: Ours, *options: str) -> Sequence[str]:
    return ("-m", "add_sub", "-u", server.grpc, "-i", "grpc", *options)


def _of_http(server: Ours, *options: str) -> Sequence[str]:
    return ("-m", "add_sub", "-u", server.http, "-i", "http", *options)


MEMORY = ("--shared-memory", "system")
WAYS: dict[str, Callable[[Ours], Sequence[str]]] = {
    "http": _of_http,
    "http, JSON": lambda server: _of_http(
        server, "--input-tensor-format", "json", "--output-tensor-format", "json"
    ),
    "grpc": _of_grpc,
    "grpc stream": lambda server: _of_grpc(server, "--async", "--streaming"),
    "http, shared memory": lambda server: _of_http(server, *MEMORY),
    "grpc, shared memory": lambda server: _of_grpc(server, *MEMORY),
}
"""What is asked of add_sub, and with which options."""


def judge() -> bool:
    """Ask in every way; whether each gave figures of both sides."""
    with tempfile.TemporaryDirectory() as folder:
        repository = lay_out_add_sub(Path(folder) / "models")
        with Ours(repository, "--allow-shared-memory=true") as server:
            told = [_asked(name, way(server), SERVER_SIDE) for name, way in WAYS.items()]
    home = prepare(Path("models"))
    with tempfile.TemporaryDirectory() as folder, ServerProcess([home]) as server:
        told.append(_asked("openai embeddings", _of_openai(server, Path(folder)), ()))
        told.append(_embedded(server, home, Path(folder)))
    return all(told)


def _embedded(server: ServerProcess, home: Path, folder: Path) -> bool:
    if not genai_perf():
        print(absent(GENAI, "genai-perf"))
        return True
    try:
        found = embeddings(server.url, home, folder)
    except RuntimeError as error:
        print(f"short  genai-perf, embeddings: {error}")
        return False
    print(f"ok     genai-perf, embeddings   {found['rate']:8.0f}/s  p99 {found['p99_ms']:7.2f} ms")
    return True


def _of_openai(server: ServerProcess, folder: Path) -> Sequence[str]:
    payloads = [{"payload": [{"model": NAME, "input": text}]} for text in TEXTS]
    file = folder / "payloads.json"
    file.write_text(json.dumps({"data": payloads}))
    place = server.url.removeprefix("http://")
    kind = ("--service-kind", "openai", "--endpoint", "v1/embeddings")
    return ("-m", NAME, "-u", place, *kind, "--input-data", str(file), "--async")


def _asked(name: str, arguments: Sequence[str], expected: Sequence[str]) -> bool:
    try:
        found = ask([*arguments, *STEADY])
    except AnalyzerFailed as error:
        print(f"short  {name}: {error}", flush=True)
        return False
    missing = [words for words in expected if words not in found.text]
    state = "short" if missing else "ok   "
    print(f"{state}  perf_analyzer, {name:<24} {_figures(found)} {missing or ''}", flush=True)
    return not missing


def _figures(found: Found) -> str:
    return f"{found.rate:8.0f}/s  p50 {found.p50_ms:7.2f}  p99 {found.p99_ms:7.2f} ms"


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    if not analyzer():
        print(absent(VARIABLE, "perf_analyzer"))
        return 0
    try:
        return 0 if judge() else 1
    except ServerFailed as error:
        print(f"short  {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
