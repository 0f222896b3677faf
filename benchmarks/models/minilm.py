"""MiniLM as it is served, and the same with dynamic quantisation, which is not the same at all.

Dynamic quantisation takes one scale over all rows of a run: the answer to a request depends on
who shares its run.
"""

import tempfile
from pathlib import Path

from xirang.repository.minilm import prepare


def build(root: Path, _home: Path) -> None:
    """Lay out the demo's model."""
    prepare(root)


def build_quantised(root: Path, home: Path) -> None:
    """Fold the weights into float32, then quantise weights and activations."""
    import onnxruntime as ort
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(folded)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        ort.InferenceSession(
            str(root / "all-MiniLM-L6-v2" / "model.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )
        quantize_dynamic(folded, home / "model.onnx", weight_type=QuantType.QInt8)
