"""What a call takes of PyTorch's own allocator, as its profiler tells it."""

from collections.abc import Callable, Iterator
from typing import Any

Act = Callable[[], Any]


def taken_bytes(act: Act) -> int:
    """The most that was taken at once."""
    return max([used for _, used in _course(act)], default=0)


def taken_by_step(
    act: Callable[[Callable[[int], None]], Any], *, device: str = "cpu"
) -> dict[int, int]:
    """The most that was taken at once in each step.

    Args:
        act: Tells what it is given the number of each step before it makes it.
        device: Whose memory counts.
    """
    from torch.autograd.profiler import record_function

    def mark(step: int) -> None:
        with record_function(f"{_STEP}{step}"):
            pass

    most: dict[int, int] = {}
    for step, used in _course(lambda: act(mark), is_cuda=device.startswith("cuda")):
        most[step] = max(most.get(step, 0), used)
    return most


_STEP = "step "


def _course(act: Act, *, is_cuda: bool = False) -> Iterator[tuple[int, int]]:
    """The step and what is taken, from each event of this thread's to the next."""
    from torch._C._profiler import _ExperimentalConfig
    from torch.autograd import (
        ProfilerConfig,
        ProfilerState,
        _disable_profiler_legacy,
        _enable_profiler_legacy,
    )

    flags = (False, True, False, False, False)  # of them, only memory is looked at
    _enable_profiler_legacy(ProfilerConfig(ProfilerState.CPU, *flags, _ExperimentalConfig()))
    try:
        kept = act()
    finally:
        told = _disable_profiler_legacy()
    del kept
    step = used = 0
    for event in (event for events in told for event in events):
        if event.kind() == "memory_alloc":
            used += event.cuda_memory_usage() if is_cuda else event.cpu_memory_usage()
        elif event.name().startswith(_STEP):
            step = int(event.name().removeprefix(_STEP))
        yield step, used
