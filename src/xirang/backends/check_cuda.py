"""Checks memory on CUDA where it stands: `python -m xirang.backends.check_cuda [DEVICE]`.

Written for machines with a CUDA device, which the tests have not. Arenas grow, shrink and are
pinned; a small encoder runs from a plan and from a captured graph, and is held against itself as
PyTorch runs it. For a moment all free memory of the device is taken. The exit status is 0 only if
all of it passed: without a device nothing has.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xirang.backends.torch import TorchExecutable
from xirang.backends.torch_cuda import Cuda
from xirang.backends.torch_graphs import HOT
from xirang.backends.torch_place import DevicePlace
from xirang.backends.torch_program import open_module
from xirang.backends.torch_room import TorchRoom
from xirang.backends.torch_study import TOLERANCE, Feed
from xirang.core.memory.fitting import Measured, fit
from xirang.errors import XirangError
from xirang.memory.arena import NoMemory
from xirang.memory.cuda_arena import CudaArena
from xirang.memory.cuda_driver import CudaDriver, driver_of
from xirang.memory.pinned_arena import PinnedArena
from xirang.tensors.tensor import Array

RESERVED_BYTES = 1 << 40
GROWN_BYTES, KEPT_BYTES = 256 << 20, 32 << 20
TINY = [(rows, length) for rows in (1, 2, 3) for length in (8, 16, 24)]
SHAPES = [(1, 16), (7, 33), (32, 64)]
TIMES = 50

Line = tuple[str, bool]
"""What was found, and whether it is as it should be."""

Act = Callable[[], Any]


class Gauge:
    """Measures what is run on the device."""

    def taken_bytes(self, act: Act) -> int:
        """The most that it takes of PyTorch's own allocator."""
        import torch

        before = int(torch.cuda.memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        act()
        return int(torch.cuda.max_memory_allocated()) - before

    def milliseconds(self, act: Act) -> float:
        """How long it takes, by the device's own clock."""
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        act()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end))


def check_arenas(driver: CudaDriver) -> Iterator[Line]:
    """Memory of the device and of the host, without PyTorch."""
    arena = CudaArena(RESERVED_BYTES, driver=driver)
    base, free = arena.base_address, driver.free_bytes()

    def taken() -> int:
        return free - driver.free_bytes()

    yield f"{RESERVED_BYTES >> 30} GiB of addresses at {base:#x}", arena.reserved_bytes > 0
    arena.resize(0, GROWN_BYTES)
    yield f"growing by {GROWN_BYTES >> 20} MiB takes {taken() >> 20} MiB", taken() >= GROWN_BYTES
    arena.resize(GROWN_BYTES, KEPT_BYTES)
    left = taken()
    yield f"shrinking to {KEPT_BYTES >> 20} MiB leaves {left >> 20} MiB", left < GROWN_BYTES // 2
    arena.resize(KEPT_BYTES, GROWN_BYTES)
    yield f"grown again at {arena.base_address:#x}", arena.base_address == base
    try:
        arena.resize(GROWN_BYTES, RESERVED_BYTES)
        yield "more than there is was granted", False
    except NoMemory as error:
        yield f"more than there is: {error}", True
    arena.close()
    yield f"closing leaves {taken() >> 20} MiB", taken() < KEPT_BYTES
    host = PinnedArena(GROWN_BYTES, driver=driver)
    host.resize(0, KEPT_BYTES)
    host.view(0, np.int64, (1000,))[...] = np.arange(1000)
    host.resize(KEPT_BYTES, 2 * KEPT_BYTES)
    is_there = bool((host.view(0, np.int64, (1000,)) == np.arange(1000)).all())
    yield f"{2 * KEPT_BYTES >> 20} MiB of the host are pinned, and keep what they had", is_there
    host.close()
    yield "and are given back", host.reach_bytes == 0


class Encoder:
    """A model in a place, its room in an arena there, and what it gives outside of that."""

    def __init__(self, place: DevicePlace) -> None:
        """Study it; `says` tells what came of that."""
        program = open_module(_encoder(), name="encoder", device=place.target)
        self.model = TorchExecutable(program, place, is_governed=True)
        feeds = [Feed(rows, length, _inputs(rows, length)) for rows, length in TINY]
        measured = [
            Measured(feed.rows, feed.length, feed.inputs["ids"].nbytes + 63) for feed in feeds
        ]
        self.footprint = self.model.study(feeds, [fit(measured)[0]], (8, 64, 128))
        self.says = self.model.planning
        self.arena: Any = None

    def open(self) -> TorchRoom:
        """A room of its own."""
        assert self.footprint is not None
        arena: Callable[[int], Any] = getattr(self.footprint, "arena")  # noqa: B009
        self.arena = arena(GROWN_BYTES)
        room = self.footprint.room(self.arena)
        assert isinstance(room, TorchRoom)
        return room

    def planned(self, room: TorchRoom, given: dict[str, Array]) -> Array:
        """Its answer in the room."""
        assert self.footprint is not None
        rows, length = given["ids"].shape
        room.open(rows, length, self.footprint.peak_bytes(rows, length))
        own = room.take((rows, length), np.int64)
        own[...] = given["ids"]
        return room.run(self.model, {"ids": own}, ["output"])["output"]

    def eager(self, given: dict[str, Array]) -> Array:
        """Its answer as PyTorch gives it."""
        return self.model.run(given, ["output"])["output"]


def check_plans(place: DevicePlace, gauge: Gauge) -> Iterator[Line]:
    """An encoder from a plan, and from graphs."""
    encoder = Encoder(place)
    yield f"an encoder: {encoder.says}", encoder.footprint is not None
    if encoder.footprint is None:
        return
    room = encoder.open()
    worst = max(_off(encoder, room, [_inputs(*shape)]) for shape in SHAPES)
    yield f"answers from a plan are off by {worst:.1e} of the largest", worst <= TOLERANCE
    yield "every input went by pinned memory, every tensor by its plan", room.is_planned
    yield from _check_peak(encoder, room, gauge)
    yield from _check_graphs(encoder, room)
    given = _inputs(*SHAPES[0])
    ours = gauge.milliseconds(lambda: [encoder.planned(room, given) for _ in range(TIMES)])
    theirs = gauge.milliseconds(lambda: [encoder.eager(given) for _ in range(TIMES)])
    yield f"time of a captured run of {SHAPES[0]} ÷ PyTorch's own: {ours / theirs:.2f}", True
    encoder.arena.close()


def _check_peak(encoder: Encoder, room: TorchRoom, gauge: Gauge) -> Iterator[Line]:
    rows, length = SHAPES[-1]
    assert encoder.footprint is not None
    lease = encoder.footprint.peak_bytes(rows, length)
    outside = gauge.taken_bytes(lambda: encoder.planned(room, _inputs(rows, length)))
    inside = lease - getattr(encoder.footprint, "outside_bytes")(rows, length)  # noqa: B009
    words = f"{rows} × {length} takes {inside} bytes in the arena and {outside} outside"
    yield f"{words}; its lease has {lease}", inside + outside <= lease


def _check_graphs(encoder: Encoder, room: TorchRoom) -> Iterator[Line]:
    graphs = room.graphs
    assert graphs is not None
    many = [_inputs(*SHAPES[0], seed=seed) for seed in range(HOT + 5)]
    worst = _off(encoder, room, many)
    told = f"{graphs.captures} graphs were captured, {graphs.replays} runs replayed"
    yield f"{told} {graphs.refusal}".strip(), graphs.replays >= 5
    yield f"answers of replays are off by {worst:.1e} of the largest", worst <= TOLERANCE
    before = graphs.captures
    encoder.arena.resize(GROWN_BYTES, 0)
    worst = _off(encoder, room, many)
    is_anew = graphs.captures > before
    yield f"after all pages went and came back: {worst:.1e}", is_anew and worst <= TOLERANCE


def _off(encoder: Encoder, room: TorchRoom, many: Sequence[dict[str, Array]]) -> float:
    """By how much answers from the plan are off, as a part of the largest."""
    found = []
    for given in many:
        expected = encoder.eager(given)
        off = np.abs(encoder.planned(room, given) - expected).max()
        found.append(float(off / np.abs(expected).max()))
    return max(found)


def _inputs(rows: int, length: int, *, seed: int = 0) -> dict[str, Array]:
    return {"ids": np.random.default_rng((seed, rows)).integers(0, 1000, (rows, length))}


def _encoder() -> Any:
    """A layer of a transformer."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Layer(nn.Module):  # type: ignore[misc]
        inputs = {"ids": ("INT64", ["tokens"])}  # noqa: RUF012
        outputs = {"output": ("FP32", [128])}  # noqa: RUF012
        is_reentrant = True

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.norm = nn.Embedding(1000, 128), nn.LayerNorm(128)
            self.q, self.k, self.v, self.out = (nn.Linear(128, 128) for _ in range(4))
            self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

        def forward(self, ids: Any) -> Any:
            x = self.norm(self.words(ids))
            rows, length, _ = x.shape
            heads = (
                each(x).view(rows, length, 4, 32).transpose(1, 2)
                for each in (self.q, self.k, self.v)
            )
            seen = functional.scaled_dot_product_attention(*heads).transpose(1, 2)
            x = x + self.out(seen.reshape(rows, length, 128))
            return (x + self.down(functional.gelu(self.up(x)))).mean(1)

    return Layer()


def check(device: int) -> Iterator[Line]:
    """All of it on a device.

    Raises:
        InvalidSetting: There is no such device, or no way to it.
    """
    yield from check_arenas(driver_of(device))
    yield from check_plans(DevicePlace(Cuda(f"cuda:{device}")), Gauge())


def say(lines: Callable[[], Iterator[Line]], write: Callable[[str], object]) -> int:
    """Say what was found, and give the exit status."""
    is_right = True
    try:
        for line, is_so in lines():
            write(f"{'ok    ' if is_so else 'FAILED'}  {line}\n")
            is_right = is_right and is_so
    except NoMemory as error:
        write(f"FAILED  {error}\n")
        return 1
    except XirangError as error:
        write(f"no device, nothing was checked: {error}\n")
        return 1
    return 0 if is_right else 1


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    sys.exit(say(lambda: check(number), sys.stdout.write))
