"""Checks the PyTorch backend where it stands: `python -m xirang.backends.torch_check [DEVICE]`.

Written for machines with a CUDA device, which the tests have not: a small network runs there from
several threads at once, with memory that is asked for and not there, and is held against the CPU.
"""

import sys
import threading
from collections.abc import Iterator

import numpy as np

from xirang.backends.executable import OutOfMemory
from xirang.backends.torch import TorchExecutable, torch_module
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array

THREADS, RUNS = 4, 50
TOLERANCE = 1e-3
"""A device may multiply in another order and in TF32."""


def check(device: str) -> Iterator[str]:
    """Says line by line what was checked; nothing was, if there is no such device."""
    import torch

    yield f"PyTorch {torch.__version__}, {torch.cuda.device_count()} CUDA devices"
    try:
        there = _network(device)
    except InvalidSetting as error:
        yield f"nothing was checked: {error}"
        return
    here = _network("cpu")
    inputs = [_rows(rows) for rows in (1, 7, 64)]
    worst = max(_difference(there, here, each) for each in inputs)
    yield f"largest difference to the CPU: {worst:.1e}, allowed are {TOLERANCE}"
    wrong = _from_many_threads(there, here)
    yield f"{wrong} of {THREADS * RUNS} runs from {THREADS} threads at once were wrong"
    is_named = _runs_out_of_memory(device)
    yield f"memory that is not there is {'' if is_named else 'NOT '}reported as such"
    passed = worst <= TOLERANCE and not wrong and is_named
    yield f"{'all of it passed' if passed else 'something FAILED'} on {there.device}"


def _network(device: str) -> TorchExecutable:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    model.inputs = {"input": ("FP32", [64])}
    model.outputs = {"output": ("FP32", [8])}
    return torch_module(model, name="network", device=device)


def _rows(rows: int) -> dict[str, Array]:
    return {"input": np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)}


def _difference(one: TorchExecutable, other: TorchExecutable, inputs: dict[str, Array]) -> float:
    got, wanted = (each.run(inputs, ["output"])["output"] for each in (one, other))
    return float(np.abs(got - wanted).max())


def _from_many_threads(there: TorchExecutable, here: TorchExecutable) -> int:
    differences: list[float] = []

    def work(seed: int) -> None:
        for number in range(RUNS):
            differences.append(_difference(there, here, _rows(1 + (seed + number) % 9)))  # noqa: PERF401

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One that raised has left no difference, and is wrong too.
    return THREADS * RUNS - sum(each <= TOLERANCE for each in differences)


def _runs_out_of_memory(device: str) -> bool:
    import torch

    def grow(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(1 << 44, device=x.device)

    grow.inputs = {"x": ("FP32", [])}  # type: ignore[attr-defined]
    grow.outputs = {"y": ("FP32", [])}  # type: ignore[attr-defined]
    try:
        torch_module(grow, name="grow", device=device).run({"x": np.zeros(1, np.float32)}, ["y"])
    except OutOfMemory:
        return True
    return False


if __name__ == "__main__":
    said = list(check(sys.argv[1] if len(sys.argv) > 1 else "auto"))
    sys.stdout.write("\n".join(said) + "\n")
    sys.exit(0 if said[-1].startswith("all of it passed") else 1)
