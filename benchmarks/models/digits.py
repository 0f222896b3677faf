"""Two classifiers of scikit-learn's handwritten digits, whose dims have no names."""

from pathlib import Path

import numpy as np

TRAINED = 1200
"""Digits to learn from; the other 597 are for tests."""


def build_forest(_root: Path, home: Path) -> None:
    """Two hundred trees."""
    from sklearn.ensemble import RandomForestClassifier

    _convert(RandomForestClassifier(200, random_state=0), home)


def build_logistic(_root: Path, home: Path) -> None:
    """A few kilobytes: all that such a model costs is the server's own."""
    from sklearn.linear_model import LogisticRegression

    _convert(LogisticRegression(max_iter=3000), home)


def _convert(model, home: Path) -> None:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels.astype(np.float32)
    model.fit(pixels[:TRAINED], labels[:TRAINED])
    converted = to_onnx(
        model, initial_types=[("x", FloatTensorType([None, 64]))], options={"zipmap": False}
    )
    (home / "model.onnx").write_bytes(converted.SerializeToString())
    np.savez_compressed(home / "unseen.npz", pixels=pixels[TRAINED:], labels=labels[TRAINED:])
