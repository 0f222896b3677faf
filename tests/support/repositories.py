"""Model repositories in Triton's layout, with models that tell which one they are."""

import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.support.models import save


def plus(number, path, *, shape=("batch", 1)):
    """x int64 → y = x + number."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.INT64, list(shape)) for n in "xy")
    weight = numpy_helper.from_array(np.array(number, np.int64), "number")
    node = helper.make_node("Add", ["x", "number"], ["y"])
    return save(path, helper.make_graph([node], "plus", [x], [y], [weight]))


def put(root, name, version=1, *, number=0, config=None, **options):
    """One version of a model; it appears at once, as a finished folder that is moved into place."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    draft = folder / f".draft-{version}"
    draft.mkdir()
    plus(number, draft / "model.onnx", **options)
    target = folder / str(version)
    if target.exists():
        (draft / "model.onnx").replace(target / "model.onnx")
        draft.rmdir()
    else:
        draft.rename(target)
    return target / "model.onnx"


def set_back(file):
    """Give a file another date, so that it has changed although its size has not."""
    about = file.stat()
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns - 10**9))


def bytes_of(number, folder):
    """A model's file as it would be sent."""
    return plus(number, folder / f"sent-{number}.onnx").read_bytes()
