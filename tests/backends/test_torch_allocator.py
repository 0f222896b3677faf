"""How our allocator gets into PyTorch, and what becomes of it where it cannot."""

import ctypes
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.support.torch_native import TOLD, library, needs_allocator  # noqa: E402

from xirang.backends import torch_allocator  # noqa: E402
from xirang.config import cache_folder  # noqa: E402
from xirang.memory.arena import HostArena  # noqa: E402
from xirang.memory.native import compile as building  # noqa: E402
from xirang.memory.native.compile import LIBRARY  # noqa: E402
from xirang.memory.room import Ground  # noqa: E402

pytestmark = pytest.mark.slow

START = "from xirang.backends.torch_allocator import allocator; print(allocator() is not None)"


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """As at the start of a process whose cache is empty."""
    monkeypatch.setattr(torch_allocator, "_found", [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "xirang"


def refused(caplog, path=None):
    """Why it is not used: said once, with what that costs."""
    with caplog.at_level(logging.WARNING, logger="xirang"):
        assert torch_allocator.allocator(path) is None
        assert torch_allocator.allocator(path) is None
    (record,) = [each for each in caplog.records if each.name.startswith("xirang")]
    assert torch_allocator.LOST in record.message
    return record.message


def test_the_cache_is_where_the_user_says():
    assert cache_folder({"XDG_CACHE_HOME": "/var/mine"}) == Path("/var/mine/xirang")
    for told in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "not/absolute"}):
        assert cache_folder(told) == Path("~/.cache/xirang").expanduser()


@pytest.mark.slow
@pytest.mark.skipif(TOLD is not None, reason="compilers do not run under AddressSanitizer")
def test_it_is_built_once(tmp_path):
    needs_allocator()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    changed = []
    for _ in range(2):
        started = subprocess.run(
            [sys.executable, "-c", START], env=environment, capture_output=True, check=True
        )
        assert started.stdout.strip() == b"True"
        (built,) = (tmp_path / "xirang").iterdir()
        changed.append(built.stat().st_mtime_ns)
    assert built.name.startswith(f"torch-{torch.__version__}-")
    assert built.stat().st_mode & 0o022 == 0
    assert changed[0] == changed[1]


@pytest.mark.skipif(building.compiler() is None, reason="there is no C++ compiler")
def test_those_who_build_it_at_once_all_have_it_whole(tmp_path):
    source, target = tmp_path / "one.cpp", tmp_path / "built" / "one.so"
    source.write_text('#include "exported.hpp"\nXIRANG_EXPORTED int one() { return 1; }')
    target.parent.mkdir()
    told = [f"-I{building.HEADERS[0].parent}"]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: building.compiled(target, (source,), options=told), range(4))
        assert list(found) == [""] * 4
    assert list(target.parent.iterdir()) == [target]
    assert ctypes.CDLL(str(target)).one() == 1


def test_a_cache_that_cannot_be_written_costs_a_line_in_the_log(fresh, caplog):
    fresh.write_text("a file where the folder should be")
    assert "File exists" in refused(caplog)


@pytest.mark.parametrize("bit", [0o020, 0o002])
def test_a_cache_that_others_may_write_to_is_not_used(fresh, caplog, bit):
    fresh.mkdir()
    fresh.chmod(0o700 | bit)
    assert "others than this user may write to" in refused(caplog)
    assert not list(fresh.iterdir())


@pytest.mark.parametrize("planted", ["writable", "link", "garbage", "empty"])
def test_what_lies_in_the_cache_is_looked_at(fresh, caplog, monkeypatch, planted):
    monkeypatch.setattr(torch_allocator, "compiled", lambda *_, **__: "it was not there")
    fresh.mkdir(mode=0o700)
    assert "it was not there" in refused(caplog)
    caplog.clear()
    torch_allocator._found.clear()
    paths = []
    monkeypatch.setattr(
        torch_allocator, "compiled", lambda path, *_, **__: paths.append(path) or "not now"
    )
    refused(caplog)
    caplog.clear()
    torch_allocator._found.clear()
    (path,) = paths
    if planted == "link":
        path.symlink_to(LIBRARY)
    else:
        path.write_bytes(b"" if planted == "empty" else b"this is no library")
        path.chmod(0o777 if planted == "writable" else 0o700)
    why = refused(caplog)
    assert ("others than this user" in why) is (planted in {"writable", "link"})


def test_without_a_compiler_it_is_not_built(fresh, caplog, monkeypatch):
    monkeypatch.setattr(building, "compiler", lambda: None)
    assert "there is no C++ compiler" in refused(caplog)


def test_what_does_not_compile_is_said_with_the_compilers_words(
    fresh, caplog, monkeypatch, tmp_path
):
    broken = tmp_path / "broken.cpp"
    broken.write_text("this is no C++")
    monkeypatch.setattr(torch_allocator, "TORCH_SOURCES", (broken,))
    assert "error" in refused(caplog)
    assert not list(fresh.iterdir())


@pytest.mark.skipif(not LIBRARY.exists(), reason="there is no native allocator")
def test_the_mouth_of_another_runtime_is_not_taken_for_ones_own(fresh, caplog):
    why = refused(caplog, LIBRARY)
    assert "ONNX Runtime has not called" in why or "PyTorch does not ask it" in why


def test_one_that_computes_wrongly_is_found_out():
    """In a process of its own, for whatever is once inside PyTorch stays there."""
    needs_allocator()
    code = f"""
import logging, sys, torch
from pathlib import Path
from xirang.backends.torch_allocator import allocator
logging.basicConfig()
torch.equal = lambda *_: False
assert allocator({f"Path({TOLD!r})" if TOLD else None}) is None
assert (torch.ones(1000) + 1).sum() == 2000
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "wrong answers" in ended.stderr


# ---------------------------------------------------------------------- tensors in an arena


class Opened:
    """An arena in which tensors are made."""

    def __init__(self, lease_bytes=1 << 20):
        needs_allocator()
        self.arena = HostArena(1 << 20)
        self.ground = Ground(library(), self.arena)
        self.ground.run.lease_bytes = lease_bytes

    @contextmanager
    def run(self):
        self.ground.begin(None, 0, 0)
        try:
            yield self.ground.run
        finally:
            self.ground.end()

    def holds(self, tensor):
        begin = self.arena.base_address
        return begin <= tensor.data_ptr() < begin + (1 << 20)


def test_a_tensor_of_nothing_asks_for_nothing():
    opened = Opened()
    with opened.run() as told:
        empty = torch.empty(0, 5)
        assert empty.data_ptr() == 0
        assert empty.clone().shape == (0, 5)
    assert (told.requests, told.leftover_bytes) == (0, 0)


def test_outside_of_a_run_and_in_other_threads_memory_is_pytorchs_own():
    opened, made = Opened(), [torch.ones(100)]
    with opened.run() as told:
        thread = threading.Thread(target=lambda: made.append(torch.ones(100)))
        thread.start()
        thread.join()
        assert told.requests == 0
    assert not any(map(opened.holds, made))


def test_what_another_thread_gives_back_is_free_again():
    opened = Opened()
    with opened.run():
        kept = [torch.ones(1000)]
        address = kept[0].data_ptr()
        assert opened.holds(kept[0])
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
        again = torch.ones(1000)
        assert again.data_ptr() == address
        del again
    assert opened.ground.run.leftover_bytes == 0


def test_a_tensor_that_outlives_its_run_its_arena_and_all_who_knew_them_stays_as_it_was():
    opened = Opened()
    with opened.run():
        kept = torch.arange(1000) * 2
    for _ in range(3):
        with opened.run():
            other = torch.full((1000,), 7)
            assert not set(range(kept.data_ptr(), kept.data_ptr() + 8000)) & {other.data_ptr()}
            del other
    opened.arena.close()
    del opened
    others = [Opened() for _ in range(4)]
    for each in others:
        with each.run():
            torch.full((1000,), 7)
    assert torch.equal(kept, torch.arange(1000) * 2)
    assert kept.resize_(5000)[999] == 1998


@pytest.mark.parametrize("is_in_run", [True, False])
def test_sizes_that_nobody_has_are_refused_and_what_follows_is_served(is_in_run):
    opened = Opened()
    for size in (1 << 47, 1 << 60):
        if is_in_run:
            opened.ground.begin(None, 0, 0)
        with pytest.raises(RuntimeError, match=r"can't allocate memory|overflow"):
            torch.empty(size, dtype=torch.int8)
        assert torch.ones(10).sum() == 10
        opened.ground.end()


def test_what_finds_no_gap_is_pytorchs_own():
    opened = Opened(lease_bytes=1024)
    with opened.run() as told:
        inside, outside = torch.ones(200), torch.ones(200)
        assert opened.holds(inside)
        assert not opened.holds(outside)
        del inside, outside
    assert (told.spilled_bytes, told.reach_bytes, told.leftover_bytes) == (800, 832, 0)
