"""What every executable promises, held against each backend alike."""

import threading

import numpy as np
import pytest
from tests.backends import callables
from tests.support import models

from xirang.backends.onnx import OnnxExecutable
from xirang.backends.python import PythonExecutable
from xirang.core.signature import TensorSpec

NAMES = ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")


@pytest.fixture(params=["onnx", "python"])
def executable(request, tmp_path):
    """INPUT0, INPUT1 int32 [batch, 16]: their sum and difference, in either backend."""
    if request.param == "onnx":
        return OnnxExecutable(models.add_sub(tmp_path / "model.onnx"))
    return PythonExecutable(callables.AddSub(), name="add_sub")


def inputs_of(rows, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 99, (rows, 16)).astype(np.int32) for name in NAMES[:2]}


def test_it_says_what_it_takes_and_gives(executable):
    assert [spec.name for spec in executable.inputs + executable.outputs] == list(NAMES)
    for spec in executable.inputs + executable.outputs:
        assert isinstance(spec, TensorSpec)
        assert (spec.datatype, spec.shape) == ("INT32", (-1, 16))
    assert executable.platform in {"onnxruntime_onnx", "python"}


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_it_runs_any_number_of_rows(executable, rows):
    inputs = inputs_of(rows)
    outputs = executable.run(inputs, ["OUTPUT0", "OUTPUT1"])
    assert outputs["OUTPUT0"].tolist() == (inputs["INPUT0"] + inputs["INPUT1"]).tolist()
    assert outputs["OUTPUT1"].tolist() == (inputs["INPUT0"] - inputs["INPUT1"]).tolist()
    assert outputs["OUTPUT0"].dtype == np.int32


@pytest.mark.parametrize("wanted", [["OUTPUT1"], ["OUTPUT0"], ["OUTPUT0", "OUTPUT1"]])
def test_it_gives_what_is_wanted_and_nothing_else(executable, wanted):
    assert list(executable.run(inputs_of(2), wanted)) == wanted


def test_it_leaves_its_inputs_as_they_are(executable):
    inputs = inputs_of(3)
    before = {name: array.copy() for name, array in inputs.items()}
    executable.run(inputs, ["OUTPUT0"])
    assert all((inputs[name] == before[name]).all() for name in inputs)


def test_outputs_share_memory_with_inputs_only_if_it_says_so(executable):
    inputs = inputs_of(2)
    outputs = executable.run(inputs, ["OUTPUT0", "OUTPUT1"])
    shares = any(np.shares_memory(o, i) for o in outputs.values() for i in inputs.values())
    assert executable.keeps_inputs or not shares


def test_several_threads_may_run_it_if_it_says_so(executable):
    wrong = []

    def work(seed):
        for _ in range(50):
            inputs = inputs_of(3, seed)
            got = executable.run(inputs, ["OUTPUT0"])["OUTPUT0"]
            if not (got == inputs["INPUT0"] + inputs["INPUT1"]).all():
                wrong.append(seed)

    threads = [
        threading.Thread(target=work, args=(seed,))
        for seed in range(4 if executable.is_reentrant else 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
