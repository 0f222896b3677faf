"""What a text model is for: a vector a text, weights of words, classes, or one score."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from xirang.backends.executable import Executable
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.text.folder import Pooling, TextFolder
from xirang.text.pooling import EMBEDDING, PooledExecutable

_POOLED_NAMES = ("sentence_embedding", "sentence_embeddings", "text_embeds", EMBEDDING)
"""What exporters call an output that is pooled already."""


class Task(Enum):
    """What its answer is."""

    EMBED = "embedding"
    SPARSE = "sparse embedding"
    CLASSIFY = "classifier"
    RERANK = "reranker"


@dataclass(frozen=True, slots=True)
class Purpose:
    """A model and what it is for.

    Attributes:
        task: What it is for.
        executable: Gives the answer in one of its outputs.
        output: Its name.
        width: Values of it a text.
        hidden: Name of the output with one vector a token; empty if there is none.
    """

    task: Task
    executable: Executable
    output: str
    width: int
    hidden: str = ""


def purpose_of(executable: Executable, folder: TextFolder, vocabulary_size: int) -> Purpose:
    """Find out what a model is for, and add the pooling that it lacks.

    Raises:
        InvalidSetting: Its outputs fit none of the tasks.
    """
    flat = [spec for spec in executable.outputs if len(spec.dims) == 2 and spec.datatype[0] == "F"]
    if folder.is_classifier:
        return _classifier(executable, folder, flat)
    for spec in flat:
        if spec.name in _POOLED_NAMES and isinstance(spec.dims[1], int):
            states = [each.name for each in executable.outputs if len(each.dims) == 3]
            return Purpose(Task.EMBED, executable, spec.name, spec.dims[1], "".join(states[:1]))
        if spec.dims[1] == vocabulary_size:
            return Purpose(Task.SPARSE, executable, spec.name, vocabulary_size)
    pooled = PooledExecutable(executable, folder.pooling, is_normalised=_is_scaled(folder))
    if folder.pooling is Pooling.SPLADE:
        return Purpose(Task.SPARSE, pooled, EMBEDDING, pooled.dimension)
    return Purpose(Task.EMBED, pooled, EMBEDDING, pooled.dimension, pooled.hidden)


def _is_scaled(folder: TextFolder) -> bool:
    return folder.is_normalised and folder.pooling is not Pooling.SPLADE


def _classifier(executable: Executable, folder: TextFolder, flat: Sequence[TensorSpec]) -> Purpose:
    if not flat:
        raise InvalidSetting(
            "a text classifier needs an output [batch, classes]; this one has "
            f"{[(spec.name, spec.shape) for spec in executable.outputs]}"
        )
    spec, count = flat[0], len(folder.labels)
    declared = spec.dims[1]
    width = declared if isinstance(declared, int) else count
    if not width or (count and width != count):
        raise InvalidSetting(
            f"output '{spec.name}' has {spec.shape[1]} classes, but config.json names {count}"
        )
    task = Task.RERANK if width == 1 else Task.CLASSIFY
    return Purpose(task, executable, spec.name, width)
