"""What every executable promises: one graph in five forms, the same answers, the same faults."""

import importlib.util
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.backends.lookup import FORMS, TORCH_FORMS, WORDS, expected, inputs_of, lookup
from tests.support import models

from xirang.backends.executable import OutOfMemory
from xirang.backends.onnx import OnnxExecutable
from xirang.backends.python import PythonExecutable
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidRequest
from xirang.tensors.tensor import NUMPY_TYPES

HAS_TORCH = importlib.util.find_spec("torch") is not None
PRESENT = [form for form in FORMS if HAS_TORCH or form not in TORCH_FORMS]
DATATYPES = ("BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64")
BOTH = ("hidden", "total")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each form's executable, made once."""
    return {form: lookup(form, tmp_path_factory.mktemp(form)) for form in PRESENT}


@pytest.fixture(params=PRESENT)
def executable(request, opened):
    return opened[request.param]


def same(got, wanted):
    assert list(got) == list(wanted)
    for name, array in got.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, wanted[name], rtol=1e-5, atol=1e-5)


def test_it_says_what_it_takes_and_gives(executable):
    told = {spec.name: (spec.datatype, spec.shape) for spec in executable.inputs}
    assert told == {"ids": ("INT64", (-1, -1)), "scale": ("FP32", (-1, 1))}
    told = {spec.name: (spec.datatype, spec.shape) for spec in executable.outputs}
    assert told == {"hidden": ("FP32", (-1, -1, 4)), "total": ("FP32", (-1, 4))}
    assert all(isinstance(spec, TensorSpec) for spec in executable.inputs + executable.outputs)
    assert executable.platform.partition("_")[0] in {"onnxruntime", "pytorch", "python"}


@pytest.mark.parametrize("rows", [1, 2, 7, 32])
@pytest.mark.parametrize("length", [1, 2, 31])
def test_any_rows_of_any_length(executable, rows, length):
    inputs = inputs_of(rows, length)
    same(executable.run(inputs, BOTH), expected(inputs))


@pytest.mark.parametrize("wanted", [["total"], ["hidden"], ["hidden", "total"]])
def test_it_gives_what_is_wanted_and_nothing_else(executable, wanted):
    assert list(executable.run(inputs_of(2, 3), wanted)) == wanted


def test_strides_do_not_matter(executable):
    inputs = inputs_of(6, 8)
    strided = {
        "ids": inputs["ids"][::2, ::-1],
        "scale": np.asfortranarray(np.repeat(inputs["scale"], 2, axis=1))[::2, :1],
    }
    plain = {name: np.ascontiguousarray(array) for name, array in strided.items()}
    same(executable.run(strided, BOTH), expected(plain))


def test_memory_that_is_read_only_is_read(executable):
    inputs = inputs_of(3, 4)
    for array in inputs.values():
        array.flags.writeable = False
    same(executable.run(inputs, BOTH), expected(inputs))


def test_it_leaves_its_inputs_as_they_are(executable):
    inputs = inputs_of(3, 4)
    before = {name: array.copy() for name, array in inputs.items()}
    executable.run(inputs, BOTH)
    assert all((inputs[name] == before[name]).all() for name in inputs)


def test_earlier_answers_stay_when_the_slab_is_filled_anew(executable):
    inputs = inputs_of(3, 4)
    wanted = expected(inputs)
    got = executable.run(inputs, BOTH)
    for array in inputs.values():
        array[:] = 0
    executable.run(inputs, BOTH)
    same(got, wanted)


def test_a_word_that_it_does_not_know_is_the_requests_fault(executable):
    inputs = inputs_of(2, 3)
    inputs["ids"][1, 1] = WORDS
    with pytest.raises(InvalidRequest):
        executable.run(inputs, BOTH)
    same(executable.run(inputs_of(2, 3), BOTH), expected(inputs_of(2, 3)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"ids": np.zeros((2, 3), np.float32)},
        {"scale": np.zeros((2, 2), np.float32)},
        {"scale": np.zeros((2, 1), np.float64)},
        {"ids": np.zeros(3, np.int64)},
    ],
    ids=["type", "size", "precision", "rank"],
)
@pytest.mark.parametrize("form", [form for form in PRESENT if form != "python"])
def test_what_contradicts_the_signature_is_the_requests_fault(opened, form, wrong):
    """A callable is called with what it is given: the engine's check stands before it."""
    with pytest.raises(InvalidRequest):
        opened[form].run(inputs_of(2, 3) | wrong, BOTH)


@pytest.mark.parametrize("form", PRESENT)
def test_an_error_inside_the_model_is_the_models(form, tmp_path):
    executable, good, bad = faulty(form, tmp_path)
    executable.run({"x": good}, ["y"])
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has its own
        executable.run({"x": bad}, ["y"])
    assert not isinstance(caught.value, InvalidRequest)
    executable.run({"x": good}, ["y"])


@pytest.mark.parametrize("form", [form for form in PRESENT if form not in {"python", "exported"}])
def test_too_much_memory_has_one_name(form, tmp_path):
    """An exported program takes no size from a value without bounds, and a callable is its own."""
    executable = large(form, tmp_path)
    assert executable.run({"n": np.array([[3]])}, ["zeros"])["zeros"].size == 3
    with pytest.raises(OutOfMemory):
        executable.run({"n": np.array([[1 << 44]])}, ["zeros"])
    assert executable.run({"n": np.array([[3]])}, ["zeros"])["zeros"].size == 3


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("form", PRESENT)
def test_datatypes_go_through_and_share_no_memory_unless_it_says_so(form, datatype, tmp_path):
    executable, x = identity(form, datatype, tmp_path)
    (y,) = executable.run({"x": x}, [executable.outputs[0].name]).values()
    assert executable.outputs[0].datatype == datatype
    assert (y.dtype, y.tolist()) == (x.dtype, x.tolist())
    assert executable.keeps_inputs or not np.shares_memory(x, y)


def test_several_threads_may_run_it_if_it_says_so(executable):
    assert executable.is_reentrant or executable.platform == "python"
    wrong = []

    def work(seed):
        for number in range(40):
            inputs = inputs_of(3, 1 + number % 7, seed)
            total = executable.run(inputs, ["total"])["total"]
            if not np.allclose(total, expected(inputs)["total"], atol=1e-5):
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


def faulty(form, folder):
    """A model that raises for some inputs, one that it takes and one that it does not."""
    if form == "onnx":
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
        shape = helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 3])
        node = helper.make_node("Reshape", ["x", "shape"], ["y"])
        graph = helper.make_graph([node], "faulty", [x], [y], [shape])
        executable = OnnxExecutable(models.save(folder / "faulty.onnx", graph))
        return executable, np.zeros((3, 4), np.float32), np.zeros((1, 4), np.float32)
    good = np.stack([np.eye(2, dtype=np.float32)] * 2)
    if form == "python":
        return PythonExecutable(root, name="root"), good, -good
    return torch_root(form, folder), good, -good


def large(form, folder):
    """n int64 [batch, 1] → as many zeros as n says."""
    if form == "onnx":
        n = helper.make_tensor_value_info("n", TensorProto.INT64, ["batch", 1])
        zeros = helper.make_tensor_value_info("zeros", TensorProto.FLOAT, ["size"])
        flat = helper.make_tensor("flat", TensorProto.INT64, [1], [-1])
        nodes = [
            helper.make_node("Reshape", ["n", "flat"], ["size"]),
            helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        ]
        graph = helper.make_graph(nodes, "large", [n], [zeros], [flat])
        return OnnxExecutable(models.save(folder / "large.onnx", graph))
    import torch
    from tests.support import torch_models

    return in_form(form, torch_models.Large(), {"n": torch.tensor([[2]])}, folder)


def root(rows):
    return [np.linalg.cholesky(row) for row in rows]


root.inputs = {"x": ("FP32", [2, 2])}
root.outputs = {"y": ("FP32", [2, 2])}


def torch_root(form, folder):
    import torch
    from tests.support import torch_models

    return in_form(form, torch_models.Root(), {"x": torch.eye(2).repeat(2, 1, 1)}, folder)


def in_form(form, module, example, folder):
    from tests.support import torch_models

    from xirang.backends.torch import torch_file, torch_module

    if form == "module":
        return torch_module(module, name="m")
    if form == "exported":
        return torch_file(torch_models.save_exported(folder / "m.pt2", module, example))
    says = torch_models.signature_of(module)
    return torch_file(torch_models.save_script(folder / "m.pt", module, example, says=says))


def identity(form, datatype, folder):
    """A model that gives back what it is given."""
    x = np.arange(6).reshape(3, 2).astype(NUMPY_TYPES[datatype])
    if form == "onnx":
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        infos = [helper.make_tensor_value_info(name, kind, ["batch", 2]) for name in "xy"]
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])], "same", infos[:1], infos[1:]
        )
        return OnnxExecutable(models.save(folder / "same.onnx", graph)), x
    dims = {"x": (datatype, [2])}
    if form == "python":

        def give_back(rows):
            return rows

        give_back.inputs, give_back.outputs = dims, dims
        return PythonExecutable(give_back, name="same"), x
    import torch
    from tests.support import torch_models

    module = torch_models.Same()
    module.inputs = module.outputs = dims
    return in_form(form, module, {"x": torch.from_numpy(x.copy())}, folder), x
