"""The check for machines with a CUDA device: honest where there is none, right on the puppet."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from tests.support.accelerator import Accelerator  # noqa: E402
from tests.support.cuda_driver import Driver  # noqa: E402

from xirang.backends import check_cuda  # noqa: E402
from xirang.backends.check_cuda import check_arenas, check_plans, say  # noqa: E402
from xirang.backends.torch_place import DevicePlace  # noqa: E402
from xirang.errors import InvalidSetting  # noqa: E402
from xirang.memory.arena import NoMemory  # noqa: E402
from xirang.memory.cuda_driver import CudaDriver  # noqa: E402

pytestmark = pytest.mark.slow

SLABS = 160


class Gauge:
    def __init__(self, taken_bytes=1000):
        self.taken = taken_bytes

    def taken_bytes(self, act):
        act()
        return self.taken

    def milliseconds(self, act):
        act()
        return 1.0


def said(lines):
    written = []
    status = say(lambda: lines, written.append)
    return status, "".join(written)


def test_arenas_pass_on_the_puppet(monkeypatch):
    monkeypatch.setattr(check_cuda, "RESERVED_BYTES", 1 << 32)  # of the host's own, here
    driver = Driver(slabs=SLABS)
    status, text = said(check_arenas(CudaDriver(module=driver)))
    assert status == 0, text
    assert text.count("ok") == 8
    assert not driver.created
    assert not driver.locked
    assert not driver.mapped


def test_plans_and_graphs_pass_on_the_puppet():
    puppet = Accelerator(Driver(slabs=SLABS))
    status, text = said(check_plans(DevicePlace(puppet), Gauge()))
    assert status == 0, text
    assert "after all pages went" in text


@pytest.mark.parametrize(
    ("break_it", "line"),
    [
        (lambda puppet: setattr(puppet, "fails", RuntimeError("no")), "replayed no"),
        (lambda puppet: setattr(puppet, "is_lazy", True), "answers of replays"),
    ],
)
def test_what_is_wrong_with_graphs_is_found(break_it, line):
    puppet = Accelerator(Driver(slabs=SLABS))
    break_it(puppet)
    status, text = said(check_plans(DevicePlace(puppet), Gauge()))
    assert status == 1
    (told,) = [each for each in text.splitlines() if line in each]
    assert told.startswith("FAILED"), text


def test_a_run_that_takes_more_than_its_lease_is_found():
    puppet = Accelerator(Driver(slabs=SLABS))
    status, text = said(check_plans(DevicePlace(puppet), Gauge(1 << 30)))
    assert (status, text.count("FAILED")) == (1, 1)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InvalidSetting("there is none"), "no device, nothing was checked: there is none\n"),
        (NoMemory("there is no more"), "FAILED  there is no more\n"),
    ],
)
def test_what_stops_it_is_said(error, words):
    def lines():
        yield "something", True
        raise error

    assert said(lines()) == (1, f"ok      something\n{words}")


@pytest.mark.slow
def test_it_is_honest_about_the_machine_at_hand():
    command = [sys.executable, "-m", "xirang.backends.check_cuda"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        assert "no device" in ended.stdout
    else:
        assert "FAILED" not in ended.stdout
