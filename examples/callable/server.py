"""A Python class as a model: the rows of all waiting clients come as one list.

cd examples/callable
xirang serve server:Scorer
python client.py              # in another terminal
"""

import numpy as np

WORDS = {"good": 1.0, "great": 2.0, "fine": 0.5, "bad": -1.0, "awful": -2.0}


class Scorer:
    """Scores texts; made once, called with a list of dicts because it has two inputs."""

    def __init__(self):
        """Say what one row takes and gives: datatype and shape, without the batch axis."""
        self.inputs = {"text": ("BYTES", []), "scale": ("FP32", [])}
        self.outputs = {"score": ("FP32", []), "words": ("INT64", [])}

    def __call__(self, items):
        """One dict a row, in order."""
        return [self.score(item["text"].decode(), item["scale"]) for item in items]

    def score(self, text, scale):
        """The mean weight of the text's words."""
        weights = [WORDS.get(word.strip(".,!?").lower(), 0.0) for word in text.split()]
        return {"score": np.mean(weights or [0.0]) * scale, "words": len(weights)}
