"""One vector a text: the mean of its hidden states, scaled to length one.

Reimers and Gurevych, "Sentence-BERT", EMNLP 2019: mean pooling over the tokens of the mask.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from xirang.backends.executable import Executable
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array
from xirang.text.tokenizer import EMBEDDING


class PooledExecutable:
    """An executable with one more output, `embedding`, computed from its hidden states."""

    def __init__(self, executable: Executable) -> None:
        """Wrap a text model.

        Raises:
            InvalidSetting: It has no mask, or no output of one vector a token.
        """
        hidden = [spec for spec in executable.outputs if len(spec.dims) == 3]
        mask = [spec.name for spec in executable.inputs if "mask" in spec.name]
        if not hidden or not mask or not isinstance(hidden[0].dims[2], int):
            raise InvalidSetting(
                "a text model needs an attention mask and an output [batch, tokens, dimension]; "
                f"this one has {[s.name for s in executable.inputs]} and "
                f"{[(s.name, s.shape) for s in executable.outputs]}"
            )
        self._executable = executable
        self._hidden, self._mask = hidden[0].name, mask[0]
        self.dimension = hidden[0].dims[2]
        self.platform = executable.platform
        self.is_reentrant = executable.is_reentrant
        self.keeps_inputs = executable.keeps_inputs
        self.inputs = executable.inputs
        batch = hidden[0].dims[0]
        self.outputs = (TensorSpec(EMBEDDING, "FP32", (batch, self.dimension)), *executable.outputs)

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the model, and pool if the embedding is wanted."""
        if EMBEDDING not in wanted:
            return self._executable.run(inputs, wanted)
        inner = [name for name in wanted if name != EMBEDDING]
        if self._hidden not in inner:
            inner.append(self._hidden)
        outputs = self._executable.run(inputs, inner)
        outputs[EMBEDDING] = pool(outputs[self._hidden], inputs[self._mask])
        return {name: outputs[name] for name in wanted}


def pool(hidden: Array, mask: Array) -> Array:
    """Mean over the masked tokens, then L2 norm.

    Args:
        hidden: [rows, tokens, dimension], float32.
        mask: [rows, tokens], 1 where there is a token.

    Returns:
        [rows, dimension], each of length one (zero where the mask is empty).
    """
    summed: Array = np.empty((hidden.shape[0], hidden.shape[2]), np.float32)
    weights = mask.astype(np.float32)
    # The last token, not the length: a product over padding too would be blocked otherwise, and
    # round otherwise, so that company would change an answer in its last bits.
    ends = mask.shape[1] - np.argmax(mask[:, ::-1] != 0, axis=1)
    for row, end in enumerate(ends.tolist()):
        np.matmul(weights[row, :end], hidden[row, :end], out=summed[row])
    summed /= np.maximum(weights.sum(axis=1), 1e-9)[:, None]
    norms = np.linalg.norm(summed, axis=1, keepdims=True)
    summed /= np.maximum(norms, 1e-12)
    return summed
