"""Checks arenas on CUDA where it stands: `python -m xirang.memory.check_cuda [DEVICE]`.

Written for machines with a CUDA device, which the tests have not: an arena grows, shrinks and grows
again, and PyTorch, if it is there, writes through a view and reads the same back. The exit status
is 0 only if all of it passed: without a device nothing has.
"""

import sys
from collections.abc import Iterator

from xirang.errors import XirangError
from xirang.memory.arena import NoMemory
from xirang.memory.cuda_arena import CudaArena

RESERVED_BYTES = 1 << 40
GROWN_BYTES, KEPT_BYTES = 256 << 20, 32 << 20


def check(device: int) -> Iterator[tuple[str, bool]]:
    """What was checked, line by line, and whether it is as it should be.

    Raises:
        InvalidSetting: There is no such device, or no way to it.
    """
    arena = CudaArena(RESERVED_BYTES, device=device)
    base = arena.base_address
    yield f"{RESERVED_BYTES >> 30} GiB of addresses at {base:#x}", arena.reserved_bytes > 0
    free = _free_bytes(arena)
    arena.resize(0, GROWN_BYTES)
    taken = free - _free_bytes(arena)
    yield f"growing by {GROWN_BYTES >> 20} MiB takes {taken >> 20} MiB", taken >= GROWN_BYTES
    yield from _through_torch(arena)
    arena.resize(GROWN_BYTES, KEPT_BYTES)
    left = free - _free_bytes(arena)
    yield f"shrinking to {KEPT_BYTES >> 20} MiB leaves {left >> 20} MiB", left < GROWN_BYTES // 2
    arena.resize(KEPT_BYTES, GROWN_BYTES)
    yield f"grown again at {arena.base_address:#x}", arena.base_address == base
    try:
        arena.resize(GROWN_BYTES, RESERVED_BYTES)
        yield "more than there is was granted", False
    except NoMemory as error:
        yield f"more than there is: {error}", True
    yield from _through_torch(arena)
    arena.close()
    left = free - _free_bytes(arena)
    yield f"closing leaves {left >> 20} MiB", left < KEPT_BYTES


def _free_bytes(arena: CudaArena) -> int:
    _, free, _ = arena._driver.cuMemGetInfo()
    return int(free)


def _through_torch(arena: CudaArena) -> Iterator[tuple[str, bool]]:
    try:
        import torch
    except ImportError:
        yield "PyTorch is not there: nothing was written", True
        return
    count = GROWN_BYTES // 4
    tensor = torch.as_tensor(arena.view(0, "<f4", (count,)), device="cuda")
    is_there = tensor.data_ptr() == arena.base_address
    tensor.copy_(torch.arange(count, device="cuda", dtype=torch.float32))
    # Whole numbers beyond 2²⁴ are not all floats: only the first ones are looked at.
    is_right = bool((tensor[: 1 << 20].cpu() == torch.arange(1 << 20)).all())
    torch.cuda.synchronize()
    yield "PyTorch writes and reads through a view", is_there and is_right


def main(arguments: list[str]) -> int:
    """Say it, and give the exit status."""
    is_right = True
    try:
        for line, is_so in check(int(arguments[0]) if arguments else 0):
            sys.stdout.write(f"{'ok    ' if is_so else 'FAILED'}  {line}\n")
            is_right = is_right and is_so
    except NoMemory as error:
        sys.stdout.write(f"FAILED  {error}\n")
        return 1
    except XirangError as error:
        sys.stdout.write(f"no device, nothing was checked: {error}\n")
        return 1
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
