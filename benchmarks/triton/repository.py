"""The model repository that both servers get: add_sub, and MiniLM in three ways of batching."""

import shutil
from pathlib import Path

from xirang.repository.minilm import prepare

MODELS = Path(__file__).with_name("models")

ADD_SUB = """
backend: "python"
max_batch_size: 8
input [
  { name: "INPUT0" data_type: TYPE_FP32 dims: [16] },
  { name: "INPUT1" data_type: TYPE_FP32 dims: [16] }
]
output [
  { name: "OUTPUT0" data_type: TYPE_FP32 dims: [16] },
  { name: "OUTPUT1" data_type: TYPE_FP32 dims: [16] }
]
instance_group [{ count: 1 kind: KIND_CPU }]
dynamic_batching { }
"""

MINILM = """
backend: "python"
max_batch_size: 8
input [{ name: "ids" data_type: TYPE_INT64 dims: [-1]%(ragged)s }]
output [{ name: "embedding" data_type: TYPE_FP32 dims: [384] }]
instance_group [{ count: 2 kind: KIND_CPU }]
dynamic_batching { max_queue_delay_microseconds: %(delay)d }
parameters { key: "file" value { string_value: "%(file)s" } }
parameters { key: "xirang.scheduler" value { string_value: "%(scheduler)s" } }
"""

RAGGED = " allow_ragged_batch: true"
WAYS = {
    # What a user of Triton writes who wants texts batched: any lengths, padded by model.py.
    "minilm_padded": {"ragged": RAGGED, "delay": 5000, "scheduler": "triton"},
    # Only equal lengths share a batch: nearly nobody shares one.
    "minilm_equal": {"ragged": "", "delay": 2000, "scheduler": "triton"},
    # The first again, but for a parameter that Triton passes by.
    "minilm_ours": {"ragged": RAGGED, "delay": 5000, "scheduler": "xirang"},
}
"""Name of a MiniLM to how it is batched."""


def lay_out_add_sub(repository: Path) -> Path:
    """Write a repository of add_sub alone."""
    _model(repository / "add_sub", ADD_SUB, MODELS / "add_sub.py")
    return repository


def lay_out(repository: Path) -> Path:
    """Write the whole repository."""
    lay_out_add_sub(repository)
    file = (prepare(Path("models")) / "model.onnx").resolve()
    for name, way in WAYS.items():
        _model(repository / name, MINILM % (way | {"file": file}), MODELS / "minilm.py")
    return repository


def _model(folder: Path, config: str, file: Path) -> None:
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    shutil.copy(file, folder / "1" / "model.py")
