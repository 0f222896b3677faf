"""The real genai-perf, over perf_analyzer, against the embeddings door.

The environment variable `XIRANG_GENAI_PERF` says where it is. It looks for perf_analyzer on the
path, and for a tokenizer on a hub: it gets both from here.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

from benchmarks.triton.analyzer import LIMIT_S, analyzer
from benchmarks.triton.servers import runnable

VARIABLE = "XIRANG_GENAI_PERF"
SPECIAL = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def genai_perf() -> str:
    """Where it is; empty if nobody has said so."""
    return os.environ.get(VARIABLE, "")


def embeddings(url: str, model: Path, folder: Path) -> dict[str, float]:
    """Ask for embeddings of two texts at a time.

    Args:
        url: Of the server.
        model: The folder of the text model that it serves.
        folder: An empty one, for what genai-perf reads and writes.

    Returns:
        Requests a second, and p99 in ms.

    Raises:
        RuntimeError: It ended without figures; the message holds what it wrote.
    """
    command = [genai_perf(), "profile", "-m", model.name, "-u", url]
    command += ["--endpoint-type", "embeddings", "--endpoint", "v1/embeddings"]
    command += ["--input-file", str(_texts(folder)), "--batch-size-text", "2"]
    command += ["--tokenizer", str(_tokenizer(model, folder)), "--concurrency", "2"]
    command += ["--measurement-interval", "2000", "--", "--max-trials", "3", "-s", "999"]
    path = f"{_path(folder)}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    found = next(folder.glob("artifacts/*/profile_export_genai_perf.json"), None)
    if found is None:
        raise RuntimeError((ended.stdout + ended.stderr)[-2000:])
    told = json.loads(found.read_text())
    return {"rate": told["request_throughput"]["avg"], "p99_ms": told["request_latency"]["p99"]}


def _texts(folder: Path) -> Path:
    file = folder / "texts.jsonl"
    lines = [json.dumps({"text": f"text number {number} of a few words"}) for number in range(64)]
    file.write_text("\n".join(lines) + "\n")
    return file


def _tokenizer(model: Path, folder: Path) -> Path:
    home = folder / "tokenizer"
    home.mkdir()
    (home / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512} | SPECIAL
    (home / "tokenizer_config.json").write_text(json.dumps(told))
    return home


def _path(folder: Path) -> Path:
    home = folder / "bin"
    home.mkdir()
    script = home / "perf_analyzer"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(runnable(analyzer()))} "$@"\n')
    script.chmod(0o755)
    return home
