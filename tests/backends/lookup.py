"""One graph in every form that a backend takes, for the conformance suite."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tests.support import models

from xirang.backends.onnx import OnnxExecutable
from xirang.backends.python import PythonExecutable
from xirang.errors import InvalidRequest

WORDS = 50
TABLE = np.random.default_rng(0).standard_normal((WORDS, 4)).astype(np.float32)
FORMS = ("onnx", "torchscript", "exported", "module", "python")
TORCH_FORMS = FORMS[1:4]


class Lookup:
    """As a callable over a list of rows."""

    inputs = {"ids": ("INT64", ["tokens"]), "scale": ("FP32", [1])}  # noqa: RUF012
    outputs = {"hidden": ("FP32", ["tokens", 4]), "total": ("FP32", [4])}  # noqa: RUF012

    def __call__(self, items):
        return [self.look_up(item["ids"], item["scale"]) for item in items]

    def look_up(self, ids, scale):
        if ids.min() < 0 or ids.max() >= WORDS:
            raise InvalidRequest(f"expected ids of 0…{WORDS - 1}")
        hidden = TABLE[ids] * scale
        return {"hidden": hidden, "total": hidden.sum(axis=0)}


def lookup(form, folder):
    """The executable of one form."""
    if form == "python":
        return PythonExecutable(Lookup(), name="lookup")
    if form == "onnx":
        return OnnxExecutable(_onnx(folder / "model.onnx"))
    return _torch(form, folder)


def inputs_of(rows, length, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "ids": rng.integers(0, WORDS, (rows, length)),
        "scale": rng.random((rows, 1)).astype(np.float32),
    }


def expected(inputs):
    hidden = TABLE[inputs["ids"]] * inputs["scale"][:, :, None]
    return {"hidden": hidden, "total": hidden.sum(axis=1)}


def _onnx(path):
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "tokens"])
    scale = helper.make_tensor_value_info("scale", TensorProto.FLOAT, ["batch", 1])
    hidden = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "tokens", 4])
    total = helper.make_tensor_value_info("total", TensorProto.FLOAT, ["batch", 4])
    weights = [
        numpy_helper.from_array(TABLE, "table"),
        numpy_helper.from_array(np.array([1], np.int64), "one"),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["vectors"]),
        helper.make_node("Unsqueeze", ["scale", "one"], ["factor"]),
        helper.make_node("Mul", ["vectors", "factor"], ["hidden"]),
        helper.make_node("ReduceSum", ["hidden", "one"], ["total"], keepdims=0),
    ]
    graph = helper.make_graph(nodes, "lookup", [ids, scale], [hidden, total], weights)
    return models.save(path, graph)


def _torch(form, folder):
    import torch
    from tests.support import torch_models

    from xirang.backends.torch import torch_file, torch_module

    module = torch_models.Lookup(TABLE)
    if form == "module":
        return torch_module(module, name="lookup")
    example = {"ids": torch.ones(2, 5, dtype=torch.int64), "scale": torch.ones(2, 1)}
    if form == "exported":
        path = torch_models.save_exported(folder / "model.pt2", module, example, axes=(0, 1))
    else:
        path = torch_models.save_script(
            folder / "model.pt", module, example, says=torch_models.signature_of(module)
        )
    return torch_file(path)
