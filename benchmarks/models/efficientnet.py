"""EfficientNet-lite0 as ONNX, exported by PyTorch from its own weights and code."""

import importlib
import logging
import sys
import warnings
from pathlib import Path


def build(root: Path, home: Path) -> None:
    """Load the weights into the network and export it, with the batch left open."""
    import torch

    sys.path.insert(0, str(root / "sources"))
    try:
        code = importlib.import_module("efficientnet_lite_pytorch")
    finally:
        sys.path.pop(0)
    network = code.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=str(root / "sources" / "efficientnet-lite0.pth")
    ).eval()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # The exporter that traces is called old; it needs no further package.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(2, 3, 224, 224),),
            str(home / "model.onnx"),
            input_names=["image"],
            output_names=["logits"],
            dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
            dynamo=False,
        )
