"""A model in a process of its own: right answers, and a server that outlives it."""

import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from tests.support import models

from xirang.backends.isolated.executable import IsolatedExecutable, WorkerDied
from xirang.backends.isolated.messages import Load
from xirang.backends.isolated.segment import new_segment, size_of
from xirang.backends.onnx import OnnxExecutable
from xirang.errors import InvalidRequest, InvalidSetting

NOTHING, KILL, EXIT, HANG, LEAK, CRASH, RAISE = range(7)


def isolated(function, **options):
    load = Load("python", f"tests.backends.perilous:{function}", function, 1)
    return IsolatedExecutable(load, **options)


@pytest.fixture
def obey():
    executable = isolated("obey", hang_s=1.0)
    yield executable
    executable.close()


def ask(executable, *commands):
    outputs = executable.run({"command": np.array(commands, np.int64)[:, None]}, ["process"])
    return outputs["process"]


ARRAYS = st.one_of(
    hnp.arrays(
        hnp.scalar_dtypes().filter(lambda kind: kind.kind in "biuf" and kind.byteorder != ">"),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    ),
    hnp.arrays(object, hnp.array_shapes(max_side=4), elements=st.binary(max_size=9)),
)


@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=4))
@settings(max_examples=200)
def test_what_is_written_to_a_segment_is_read_from_it(arrays):
    segment, descriptor = new_segment(size_of(arrays))
    os.close(descriptor)
    for copy in (False, True):
        found = segment.read(segment.write(arrays), copy=copy)
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].shape == array.shape
            if array.dtype.kind == "O":
                assert found[name].tolist() == array.tolist()
            else:
                np.testing.assert_array_equal(found[name], array)
                assert found[name].dtype == array.dtype


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
    with pytest.raises(WorkerDied, match=word):
        ask(obey, NOTHING, command)
    second = ask(obey, NOTHING)[0, 0]
    assert first != second
    assert obey.restarts == 1


def test_a_worker_killed_from_outside_between_two_runs_is_noticed_and_replaced(obey):
    process = obey.process_id
    os.kill(process, signal.SIGKILL)
    with pytest.raises(WorkerDied):
        ask(obey, NOTHING)
    assert ask(obey, NOTHING)[0, 0] == obey.process_id != process


def test_an_error_of_the_model_is_told_and_the_worker_stays(obey):
    process = ask(obey, NOTHING)[0, 0]
    with pytest.raises(RuntimeError, match="ValueError: six is refused"):
        ask(obey, RAISE)
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


def test_each_instance_may_have_a_process_of_its_own(obey):
    other = obey.another()
    try:
        assert ask(other, NOTHING)[0, 0] != ask(obey, NOTHING)[0, 0]
    finally:
        other.close()


def test_closing_ends_the_process(obey):
    process = obey.process_id
    obey.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(WorkerDied, match="going down"):
        ask(obey, NOTHING)


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
