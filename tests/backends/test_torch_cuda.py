"""What is asked of `torch.cuda` in which order, over a puppet of its graphs: there is no device."""

import logging
from typing import ClassVar

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from xirang.backends import torch_cuda  # noqa: E402
from xirang.backends.torch_cuda import Cuda  # noqa: E402
from xirang.memory.cuda_driver import capturing  # noqa: E402


class Graph:
    log: ClassVar = []

    def capture_begin(self, *, pool, capture_error_mode):
        assert capturing.locked()
        Graph.log.append(("begin", pool, capture_error_mode))

    def capture_end(self):
        assert capturing.locked()
        Graph.log.append(("end",))
        if ("broken",) in Graph.log:
            raise RuntimeError("operation failed due to a previous error during capture")

    def replay(self):
        Graph.log.append(("replay",))


@pytest.fixture
def log(monkeypatch):
    numbers = iter(range(9))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(numbers))
    Graph.log.clear()
    return Graph.log


def test_graphs_of_one_room_share_a_pool_and_nobody_else_is_disturbed(log):
    first, second = Cuda("cuda:1").capturer(), Cuda("cuda:1").capturer()
    for capture in (first, first, second):
        replay, outputs = capture(lambda: log.append(("act",)) or ("output",))
        assert outputs == ("output",)
        replay()
    begun = [each for each in log if each[0] == "begin"]
    assert begun == [("begin", pool, "thread_local") for pool in (0, 0, 1)]
    assert [each[0] for each in log[:4]] == ["begin", "act", "end", "replay"]
    assert not capturing.locked()


def test_a_capture_that_fails_is_ended_and_says_what_was_wrong_first(log):
    def act():
        log.append(("broken",))
        raise RuntimeError("a copy that waits")

    with pytest.raises(RuntimeError, match="a copy that waits"):
        Cuda("cuda:0").capturer()(act)
    assert [each[0] for each in log] == ["begin", "broken", "end"]
    assert not capturing.locked()


def test_what_pytorch_keeps_is_given_back_while_nobody_captures(monkeypatch, caplog):
    seen = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: seen.append(capturing.locked()))
    torch_cuda._give_back()
    assert seen == [True]

    def fail():
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    with caplog.at_level(logging.WARNING, torch_cuda.log.name):
        torch_cuda._give_back()
    assert "the device is gone" in caplog.text
    assert not capturing.locked()


def test_an_arena_is_seen_from_its_first_byte_to_its_last(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "as_tensor", lambda view, device: asked.append((view, device)))

    class Arena:
        base_address, reserved_bytes = 1 << 40, 1 << 21

    Cuda("cuda:2").seen(Arena())
    ((view, device),) = asked
    told = view.__cuda_array_interface__
    assert (told["data"], told["shape"], device) == ((1 << 40, False), (1 << 21,), "cuda:2")
    assert np.dtype(told["typestr"]) == np.uint8
