"""A model in a process of its own: right answers, and a server that outlives it."""

import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from tests.support import models
from tests.support.wire import DEADLINE_S, until

from xirang.backends.executable import WorkerDied
from xirang.backends.isolated.executable import HANG_S, IsolatedExecutable
from xirang.backends.isolated.messages import Load
from xirang.backends.isolated.segment import written
from xirang.backends.onnx import OnnxExecutable
from xirang.errors import InvalidRequest, InvalidSetting

pytestmark = pytest.mark.slow

NOTHING, KILL, EXIT, HANG, LEAK, CRASH, RAISE = range(7)


def isolated(function, **options):
    load = Load("python", f"tests.backends.perilous:{function}", function, 1)
    return IsolatedExecutable(load, **options)


@pytest.fixture
def obey():
    executable = isolated("obey")
    yield executable
    executable.close()


def ask(executable, *commands):
    outputs = executable.run({"command": np.array(commands, np.int64)[:, None]}, ["process"])
    return outputs["process"]


def addresses_bytes(process):
    """How much of its addresses it uses."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def lowest_free_descriptor():
    """As the limit it leaves no room."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


ARRAYS = st.one_of(
    hnp.arrays(
        hnp.scalar_dtypes().filter(lambda kind: kind.kind in "biuf" and kind.byteorder != ">"),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    ),
    hnp.arrays(object, hnp.array_shapes(max_side=4), elements=st.binary(max_size=9)),
)


@given(st.lists(st.tuples(st.text(max_size=5), ARRAYS), max_size=4))
@settings(max_examples=200)
def test_what_is_written_to_a_segment_is_read_from_it(arrays):
    segment, placed, descriptor = written(arrays)
    os.close(descriptor)
    for copy in (False, True):
        found = segment.read(placed, copy=copy)
        assert [name for name, _ in found] == [name for name, _ in arrays]
        for (_, got), (_, array) in zip(found, arrays, strict=True):
            assert got.shape == array.shape
            if array.dtype.kind == "O":
                assert got.tolist() == array.tolist()
            else:
                np.testing.assert_array_equal(got, array)
                assert got.dtype == array.dtype


def test_an_onnx_model_answers_from_its_process_as_it_does_here(tmp_path):
    path = models.mlp(tmp_path / "mlp.onnx")
    here = OnnxExecutable(path)
    there = IsolatedExecutable(Load("onnx", str(path), "mlp", 1))
    try:
        assert (there.platform, there.inputs, there.outputs) == (
            here.platform,
            here.inputs,
            here.outputs,
        )
        rng = np.random.default_rng(0)
        kept = []
        for rows in (1, 7, 300, 2, 5000):  # the segments grow on the way
            x = rng.standard_normal((rows, 64)).astype(np.float32)
            kept.append((there.run({"x": x}, ["y"])["y"], here.run({"x": x}, ["y"])["y"]))
        for got, expected in kept:  # later runs left earlier answers alone
            np.testing.assert_array_equal(got, expected)
    finally:
        there.close()


def test_words_travel_too():
    executable = isolated("words")
    try:
        texts = np.array([b"drawer", "息壤".encode()], object)
        outputs = executable.run({"input": texts}, ["output"])
        assert outputs["output"].tolist() == [b"reward", "壤息".encode()]
    finally:
        executable.close()


@pytest.mark.parametrize(
    ("command", "word"),
    [(KILL, "SIGKILL"), (EXIT, "status 7"), (CRASH, "SIGSEGV"), (HANG, "in time")],
)
def test_a_worker_that_dies_takes_one_run_along_and_the_next_one_finds_a_new_worker(
    obey, command, word
):
    first = ask(obey, NOTHING)[0, 0]
    if command == HANG:
        obey.hang_s = 0.5
    with pytest.raises(WorkerDied, match=word) as died:
        ask(obey, NOTHING, command)
    assert died.value.is_suspect
    assert died.value.workers.wait(DEADLINE_S)
    obey.hang_s = HANG_S
    second = ask(obey, NOTHING)[0, 0]
    assert first != second
    assert (obey.restarts, obey.living) == (1, 1)


def test_after_a_death_no_run_gets_the_dead_process(obey):
    for restarts in range(1, 6):
        with pytest.raises(WorkerDied):
            ask(obey, KILL)
        assert obey.wait(DEADLINE_S)
        ask(obey, NOTHING)
        assert obey.restarts == restarts


def test_a_worker_killed_between_two_runs_is_replaced_before_anybody_asks(obey):
    (process,) = obey.process_ids
    os.kill(process, signal.SIGKILL)
    until(lambda: obey.restarts == 1, "a new process")
    assert [ask(obey, NOTHING)[0, 0]] == obey.process_ids != [process]


def test_a_process_that_cannot_be_started_again_is_said_at_once_and_tried_again(tmp_path):
    module = tmp_path / "vanishing.py"
    module.write_text("import os\ndef echo(texts): return [str(os.getpid())] * len(texts)\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        executable = IsolatedExecutable(Load("python", "vanishing:echo", "echo", 1))
        try:
            text = {"input": np.array([b""], object)}
            module.rename(tmp_path / "away.py")
            os.kill(executable.process_ids[0], signal.SIGKILL)
            until(lambda: not executable.wait(0.1) and executable.living == 0, "it to be stuck")
            with pytest.raises(WorkerDied, match="no process") as died:
                executable.run(text, ["output"])
            assert not died.value.is_suspect
            (tmp_path / "away.py").rename(module)
            assert until(lambda: executable.wait(DEADLINE_S), "it to come back")
            assert len(executable.run(text, ["output"])["output"]) == 1
        finally:
            executable.close()


def test_an_error_of_the_model_is_told_and_the_worker_stays(obey):
    process = ask(obey, NOTHING)[0, 0]
    with pytest.raises(Exception, match="six is refused") as raised:
        ask(obey, RAISE)
    assert type(raised.value).__name__ == "ValueError"
    assert "perilous.py" in raised.value.__notes__[0], "the log says where"
    assert ask(obey, NOTHING)[0, 0] == process


def test_a_refused_input_stays_the_clients_fault():
    executable = isolated("words")
    try:
        with pytest.raises(InvalidRequest, match="UTF-8"):
            executable.run({"input": np.array([b"\xff"], object)}, ["output"])
    finally:
        executable.close()


def test_a_worker_that_grows_too_large_is_replaced_between_runs():
    executable = isolated("obey", resident_bytes_max=256 << 20)
    try:
        seen = {int(ask(executable, LEAK)[0, 0]) for _ in range(16)}
        assert len(seen) >= 2
    finally:
        executable.close()


def test_a_model_may_have_several_processes_and_a_run_takes_an_idle_one(obey):
    obey.grow(1)
    one, other = obey.process_ids
    os.kill(one, signal.SIGSTOP)
    os.kill(other, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, obey, NOTHING) for _ in range(2)]
        until(lambda: not obey.wait(0), "both to be taken")
        os.kill(one, signal.SIGCONT)
        os.kill(other, signal.SIGCONT)
        assert {int(each.result()[0, 0]) for each in asked} == {one, other}


def test_lists_of_unlike_rows_travel_row_by_row():
    executable = isolated("ends")
    try:
        assert executable.takes_lists
        rows = [np.arange(n, dtype=np.int64) for n in (3, 1, 70_000)]
        outputs = executable.run_lists({"ids": rows}, ["both", "back"])
        assert [row.tolist() for row in outputs["both"]] == [[0, 2], [0, 0], [0, 69_999]]
        for row, back in zip(rows, outputs["back"], strict=True):
            np.testing.assert_array_equal(back, row[::-1])
    finally:
        executable.close()


def test_what_a_callable_keeps_does_not_change_under_it():
    executable = isolated("remember")
    try:
        for number in range(3):
            row = {"x": np.full((1, 4), number, np.float32)}
            outputs = executable.run(row, ["first"])
        assert outputs["first"].tolist() == [[0.0] * 4]
    finally:
        executable.close()


def test_closing_ends_the_process(obey):
    (process,) = obey.process_ids
    obey.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(WorkerDied, match="no process"):
        ask(obey, NOTHING)


def test_a_server_without_room_for_another_file_says_so_and_the_worker_stays(obey):
    process = ask(obey, NOTHING)[0, 0]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    large = {"command": np.zeros((1 << 15, 1), np.int64)}
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free_descriptor(), limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            obey.run(large, ["process"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert obey.run(large, ["process"])["process"][0, 0] == process


def test_a_worker_without_room_for_new_inputs_never_reads_old_ones():
    executable = isolated("ends")
    try:
        small, large = np.arange(3, dtype=np.int64), np.arange(1 << 21, dtype=np.int64)
        executable.run_lists({"ids": [small]}, ["both"])
        (process,) = executable.process_ids
        limits = resource.prlimit(process, resource.RLIMIT_AS)
        low = addresses_bytes(process) + (8 << 20)
        resource.prlimit(process, resource.RLIMIT_AS, (low, limits[1]))
        for _ in range(2):
            with pytest.raises(Exception, match="Cannot allocate memory"):
                executable.run_lists({"ids": [large]}, ["both"])
        resource.prlimit(process, resource.RLIMIT_AS, limits)
        outputs = executable.run_lists({"ids": [large]}, ["both"])
        assert outputs["both"][0].tolist() == [0, (1 << 21) - 1]
        assert executable.process_ids == [process]
    finally:
        executable.close()


def test_a_worker_without_memory_says_so_and_stays():
    executable = isolated("obey")
    try:
        process = int(ask(executable, NOTHING)[0, 0])
        # There is room for two leaks and the words about the third.
        limit_bytes = addresses_bytes(process) + (80 << 20)
        resource.prlimit(process, resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        with pytest.raises(MemoryError):
            ask(executable, *[LEAK] * 3)
        assert ask(executable, NOTHING)[0, 0] == process
    finally:
        executable.close()


@pytest.mark.parametrize(
    ("load", "word"),
    [
        (Load("python", "tests.backends.perilous:absent", "m", 1), "absent"),
        (Load("onnx", "/nowhere.onnx", "m", 1), "nowhere"),
        (Load("cobol", "x", "m", 1), "cobol"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_a_setting_at_fault(load, word):
    with pytest.raises(InvalidSetting, match=word):
        IsolatedExecutable(load)
