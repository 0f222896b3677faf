"""One vector a text, from the states of its tokens.

Reimers and Gurevych, "Sentence-BERT", EMNLP 2019: the mean over the tokens of the mask. Formal,
Piwowarski and Clinchant, "SPLADE", SIGIR 2021: for each word the largest weight over the tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xirang.backends.executable import Executable
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array
from xirang.text.folder import Pooling

EMBEDDING = "embedding"
"""Name of the output that pooling adds to a text model."""


class PooledExecutable:
    """An executable with one more output, `embedding`, computed from its hidden states."""

    def __init__(
        self,
        executable: Executable,
        pooling: Pooling = Pooling.MEAN,
        *,
        is_normalised: bool = True,
    ) -> None:
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
        self._pooling, self._is_normalised = pooling, is_normalised
        self.hidden, self._mask = hidden[0].name, mask[0]
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
        if self.hidden not in inner:
            inner.append(self.hidden)
        outputs = self._executable.run(inputs, inner)
        vectors = pool(outputs[self.hidden], inputs[self._mask], self._pooling)
        outputs[EMBEDDING] = normalise(vectors) if self._is_normalised else vectors
        return {name: outputs[name] for name in wanted}


def pool(hidden: Array, mask: Array, pooling: Pooling = Pooling.MEAN) -> NDArray[np.float32]:
    """One vector a row.

    Args:
        hidden: [rows, tokens, dimension], float32.
        mask: [rows, tokens], 1 where there is a token.
        pooling: How.

    Returns:
        [rows, dimension], zero where the mask is empty.
    """
    pooled = np.zeros((hidden.shape[0], hidden.shape[2]), np.float32)
    # The last token, not the length: a product over padding too would be blocked otherwise, and
    # round otherwise, so that company would change an answer in its last bits.
    ends = mask.shape[1] - np.argmax(mask[:, ::-1] != 0, axis=1)
    rule = _RULES[pooling]
    for row, end in enumerate(ends.tolist()):
        kept = mask[row, :end]
        if kept.any():
            rule(hidden[row, :end], kept, pooled[row])
    return pooled


def normalise(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale the vectors to length one, in place; a zero stays one."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    vectors /= np.maximum(norms, 1e-12)
    return vectors


def _mean(states: Array, mask: Array, out: Array) -> None:
    weights = mask.astype(np.float32)
    np.matmul(weights, states, out=out)
    out /= weights.sum()


def _cls(states: Array, mask: Array, out: Array) -> None:
    out[:] = states[np.argmax(mask != 0)]


def _last(states: Array, _mask: Array, out: Array) -> None:
    out[:] = states[-1]


def _max(states: Array, mask: Array, out: Array) -> None:
    np.max(states[mask != 0], axis=0, out=out)


def _splade(states: Array, mask: Array, out: Array) -> None:
    _max(states, mask, out)
    np.log1p(np.maximum(out, 0, out=out), out=out)  # it grows with the state: once is enough


_RULES: dict[Pooling, Callable[[Array, Array, Any], None]] = {
    Pooling.MEAN: _mean,
    Pooling.CLS: _cls,
    Pooling.LAST: _last,
    Pooling.MAX: _max,
    Pooling.SPLADE: _splade,
}
