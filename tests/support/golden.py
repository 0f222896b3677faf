"""The repository that the genuine Triton server was probed with, as ONNX models of our own."""

from onnx import TensorProto, helper

from tests.support.models import save

KINDS = {
    "FP32": TensorProto.FLOAT,
    "FP16": TensorProto.FLOAT16,
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "INT64": TensorProto.INT64,
    "STRING": TensorProto.STRING,
}

IDENTITIES = {
    "ident_fp32": ("FP32", ["rows", "length"], 8),
    "ident_fp16": ("FP16", ["rows", "length"], 8),
    "ident_bool": ("BOOL", ["rows", "length"], 8),
    "ident_u8": ("UINT8", ["rows", "length"], 8),
    "ident_i64": ("INT64", ["rows", "length"], 8),
    "ident_nobatch": ("FP32", ["length", 2], 0),
    "ident_bytes1": ("STRING", ["rows", 1], 8),
    "ident_2d": ("FP32", ["rows", "height", "width"], 8),
}
"""Name to datatype, shape with rows, and `max_batch_size`."""


PARAMETERS = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        told = [np.array([[request.parameters()]], dtype=object) for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", each)]) for each in told]
"""
"""A model that answers with the parameters of its request."""


def repository(root):
    """Lay it out: models that give back what they take, one that adds, one that cannot load."""
    for version in (1, 3):
        _add_sub(_file(root, "addsub", version))
    labels = "\n".join(f"class {number}" for number in range(16))
    (root / "addsub" / "labels.txt").write_text(labels)
    (root / "addsub" / "config.pbtxt").write_text(
        'name: "addsub"\nmax_batch_size: 8\n'
        + "".join(_io("input", f"INPUT{i}", "FP32", [16]) for i in range(2))
        + _io("output", "OUTPUT0", "FP32", [16])
        + _io("output", "OUTPUT1", "FP32", [16], labels="labels.txt")
        + "dynamic_batching { max_queue_delay_microseconds: 1000 }\n"
    )
    for name, (kind, shape, rows) in IDENTITIES.items():
        _identity(_file(root, name, 1), kind, shape)
        dims = [size if isinstance(size, int) else -1 for size in (shape[1:] if rows else shape)]
        (root / name / "config.pbtxt").write_text(
            f'name: "{name}"\nmax_batch_size: {rows}\n'
            + _io("input", "INPUT0", kind, dims)
            + _io("output", "OUTPUT0", kind, dims)
        )
    _file(root, "params", 1).with_name("model.py").write_text(PARAMETERS)
    (root / "params" / "config.pbtxt").write_text(
        'name: "params"\nbackend: "python"\nmax_batch_size: 4\n'
        + _io("input", "INPUT0", "FP32", [1])
        + _io("output", "OUTPUT0", "STRING", [1])
    )
    _file(root, "noload", 1).write_bytes(b"this is no model")
    return root


def _file(root, name, version):
    folder = root / name / str(version)
    folder.mkdir(parents=True)
    return folder / "model.onnx"


def _io(role, name, kind, dims, *, labels=""):
    more = f' label_filename: "{labels}"' if labels else ""
    return f'{role} {{ name: "{name}" data_type: TYPE_{kind} dims: {dims}{more} }}\n'


def _identity(path, kind, shape):
    x, y = (helper.make_tensor_value_info(n, KINDS[kind], shape) for n in ("INPUT0", "OUTPUT0"))
    node = helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])
    save(path, helper.make_graph([node], "identity", [x], [y]))


def _add_sub(path):
    names = ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", 16]) for n in names]
    nodes = [
        helper.make_node(operator, names[:2], [output])
        for operator, output in zip(("Add", "Sub"), names[2:], strict=True)
    ]
    save(path, helper.make_graph(nodes, "add_sub", infos[:2], infos[2:]))
