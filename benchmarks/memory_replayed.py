"""The figures of PyTorch without a plan from a graph: eager modules, TorchScript, convolutions.

`python -m benchmarks.memory_torch` shows them too. Each model runs in an arena and as PyTorch runs
it, in turns, so that both see the same machine.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from time import thread_time

import numpy as np

from benchmarks.figures import Figure, print_figures
from xirang.core.memory.polynomial import Polynomial
from xirang.memory.arena import HostArena
from xirang.tensors.tensor import Array

LAYERS, WIDTH, HEADS, WORDS = 6, 384, 12, 30_522
"""Of MiniLM; all weights are drawn by lot."""

TEXTS = ((1, 16), (8, 32), (8, 128), (32, 64), (4, 512))
SIDE = 96
PICTURES = ((1, 1), (2, 1), (8, 1), (16, 1), (32, 1))

WARM = 6
"""So many runs at most teach it a way that it has not seen."""

Size = tuple[int, int]
Inputs = dict[str, Array]
Make = Callable[[int, int], Inputs]


def figures() -> Iterator[Figure]:
    """All of them."""
    import torch

    from xirang.backends.torch_allocator import allocator

    torch.set_num_threads(1)
    if allocator() is None:
        print("       no allocator for PyTorch here")
        return
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiny = [(rows, length) for rows in (1, 2, 3) for length in (8, 16, 24)]
        lengths = (8, 16, 32, 64, 128, 256, 512)
        yield from _of("eager encoder", _Pair(*_encoder(), texts, tiny, lengths), TEXTS)
        rows = [(rows, 1) for rows in (1, 2, 3)]
        yield from _of("eager network", _Pair(*_network(), _pictures, rows, (1,)), PICTURES)
        text = _text_script(Path(folder) / "text.pt")
        yield from _of(
            "encoder in TorchScript", _Pair(*text, texts, tiny, lengths), TEXTS, bound=0.8
        )
        script = _script(Path(folder) / "m.pt")
        yield from _of("network in TorchScript", _Pair(*script, _pictures, rows, (1,)), PICTURES)


class _Pair:
    """A model in a room, and the same without one."""

    def __init__(
        self, model, plain, inputs_of: Make, tiny: Sequence[Size], lengths: Sequence[int]
    ) -> None:
        from xirang.backends.torch_study import Feed

        self.model, self.plain, self.inputs_of = model, plain, inputs_of
        self.names = [spec.name for spec in model.outputs]
        each = [Polynomial((0, 0, 0, x.nbytes, 0, 0)) for x in inputs_of(1, 1).values()]
        feeds = [Feed(*size, inputs_of(*size)) for size in tiny]
        self.footprint = model.study(feeds, each, lengths)
        print(f"       {model.planning}")
        self.arena = HostArena()
        self.arena.resize(0, 1 << 30)
        self.room = self.footprint.room(self.arena)

    def opened(self, size: Size) -> tuple[Inputs, Callable[[], Inputs]]:
        """Inputs, and what runs the model on the same in the arena."""
        inputs = self.inputs_of(*size)
        self.room.open(*size, self.footprint.peak_bytes(*size))
        placed = {name: self.room.take(x.shape, x.dtype) for name, x in inputs.items()}
        for name, array in inputs.items():
            placed[name][...] = array
        return inputs, lambda: self.room.run(self.model, placed, self.names)

    def learn(self, size: Size) -> None:
        """As the first requests of a shape do."""
        for _ in range(WARM):
            self.opened(size)[1]()
            self.footprint.settle()
            if self.room.is_planned:
                break


def _of(name: str, pair: _Pair, sizes: Sequence[Size], *, bound: float = 1.0) -> Iterator[Figure]:
    """The figures of a model; `bound` is the lowest lease that it could have."""
    for size in sizes:
        pair.learn(size)
    told = [_at(pair, size) for size in sizes]
    for (rows, length), (same, hits, faults, peak, time) in zip(sizes, told, strict=True):
        print(
            f"       {name}, {rows} × {length}: {'the same bits' if same else 'OTHER BITS'}, "
            f"{hits:.0%} in place, {faults} page faults, peak {peak:.3f}, time {time:.3f}"
        )
    same, hits, faults, peaks, times = (list(column) for column in zip(*told, strict=True))
    yield Figure(f"{name}: answers with the same bits", float(np.mean(same)), 1.0, True)
    yield Figure(f"{name}: allocations in the plan", min(hits), 1.0, True)
    yield Figure(f"{name}: page faults of a warm run", max(faults), 0, False)
    # Whatever order and addresses, what PyTorch has alive at once has to lie somewhere.
    yield Figure(f"{name}: lease ÷ what PyTorch has alive", max(peaks[2:]), bound, False)
    yield Figure(f"{name}: processor time ÷ PyTorch's own, mean", float(np.mean(times)), 1.0, False)


def _at(pair: _Pair, size: Size) -> tuple[bool, float, int, float, float]:
    """Same bits, share of hits, page faults, peak and time at one shape."""
    from xirang.backends.torch_allocations import taken_bytes

    inputs, planned = pair.opened(size)

    def alone() -> Inputs:
        return pair.plain.run(inputs, pair.names)

    given, expected = planned(), alone()
    same = all(np.array_equal(given[name], expected[name]) for name in pair.names)
    run = pair.room._ground.run
    hits = run.hits / run.requests
    alive = taken_bytes(alone) + sum(x.nbytes for x in inputs.values())
    peak = pair.footprint.peak_bytes(*size) / alive
    return same, hits, _faults(planned), peak, time_ratio(planned, alone)


def _faults(act: Callable[[], object]) -> int:
    before = getrusage(RUSAGE_THREAD).ru_minflt
    act()
    return getrusage(RUSAGE_THREAD).ru_minflt - before


def time_ratio(planned: Callable[[], object], alone: Callable[[], object]) -> float:
    """Of pairs in turns."""
    count = max(5, min(60, int(0.4 / _seconds(alone))))
    pairs = [(_seconds(planned), _seconds(alone)) for _ in range(count)]
    return median(one / other for one, other in pairs)


def _seconds(act: Callable[[], object]) -> float:
    begin = thread_time()
    act()
    return thread_time() - begin


def texts(rows: int, length: int) -> Inputs:
    """Some, of which the first is half padding."""
    dice = np.random.default_rng(rows * length)
    mask = np.ones((rows, length), np.int64)
    mask[0, length // 2 + 1 :] = 0
    return {"ids": dice.integers(0, WORDS, (rows, length)), "mask": mask}


def _pictures(rows: int, _: int) -> Inputs:
    return {"x": np.random.default_rng(rows).standard_normal((rows, 3, SIDE, SIDE), np.float32)}


SAYS_TEXT = {name: ("INT64", ["tokens"]) for name in ("ids", "mask")}, {"vector": ("FP32", [WIDTH])}
SAYS_PICTURE = {"x": ("FP32", [3, SIDE, SIDE])}, {"scores": ("FP32", [10])}


def _encoder():
    return _modules(_module_oftexts(), *SAYS_TEXT)


def _network():
    return _modules(_residual(), *SAYS_PICTURE)


def _module_oftexts():
    import torch
    from tests.support.planned_models import Encoder

    torch.manual_seed(0)
    return Encoder(width=WIDTH, heads=HEADS, layers=LAYERS, words=WORDS).eval()


def _residual():
    import torch
    from tests.support.replayed_models import Residual

    torch.manual_seed(0)
    return Residual(width=64, blocks=4).eval()


def _modules(module, inputs, outputs):
    from xirang.backends.torch import torch_module

    module.inputs, module.outputs = inputs, outputs
    return [torch_module(module, name="m", is_governed=governed) for governed in (True, False)]


def _text_script(path: Path):
    import torch

    example = tuple(torch.from_numpy(x) for x in texts(3, 24).values())
    return _saved(torch.jit.trace(_module_oftexts(), example, check_trace=False), path, *SAYS_TEXT)


def _script(path: Path):
    import torch

    return _saved(torch.jit.script(_residual()), path, *SAYS_PICTURE)


def _saved(script, path: Path, inputs, outputs):
    import torch

    from xirang.backends.torch import torch_file

    extra = {"_xirang_signature": json.dumps({"inputs": inputs, "outputs": outputs})}
    torch.jit.save(script, path, _extra_files=extra)
    return [torch_file(path, is_governed=governed) for governed in (True, False)]


if __name__ == "__main__":
    for figure in figures():
        print_figures([figure])
