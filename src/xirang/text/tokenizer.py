"""From a string to a text model's inputs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xirang.errors import InvalidRequest, InvalidSetting
from xirang.tensors.tensor import Tensor

EMBEDDING = "embedding"
"""Name of the output that pooling adds to a text model."""


class TextModel:
    """A served model that takes token ids, with the tokenizer that makes them.

    Attributes:
        name: Of the served model.
        dimension: Of its embedding.
        length_max: Most tokens of a text.
        vocabulary_size: Token ids are below this.
        embedding_output: Name of the output with one vector a text.
    """

    embedding_output = EMBEDDING

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        input_names: Sequence[str],
        dimension: int,
        truncate: bool = True,
    ) -> None:
        """Load a `tokenizer.json`.

        Args:
            name: Of the served model.
            path: The file.
            input_names: The model's inputs: ids first, a mask and token types if it has them.
            dimension: Of its embedding.
            truncate: Cut longer texts (or refuse them).

        Raises:
            InvalidSetting: The library is missing, or the file is no tokenizer.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise InvalidSetting(f"{path} needs tokenizers: pip install 'xirang[text]'") from error
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exceptions
            raise InvalidSetting(f"{path} is not a tokenizer: {error}") from error
        truncation = self._tokenizer.truncation
        self.name = name
        self.dimension = dimension
        self.length_max = int(truncation["max_length"]) if truncation else 512
        self.vocabulary_size = self._tokenizer.get_vocab_size()
        self._input_names = tuple(input_names)
        self._tokenizer.no_padding()
        if truncate:
            self._tokenizer.enable_truncation(self.length_max)
        else:
            self._tokenizer.no_truncation()

    def encode(self, text: str) -> list[int]:
        """Token ids, special ones included.

        Raises:
            InvalidRequest: More tokens than the model takes, and cutting is off.
        """
        ids: list[int] = self._tokenizer.encode(text).ids
        if len(ids) > self.length_max:
            raise InvalidRequest(
                f"the text has {len(ids)} tokens; expected at most {self.length_max}"
            )
        return ids

    def inputs(self, ids: Sequence[int]) -> dict[str, Tensor]:
        """The model's inputs for one row of token ids."""
        shape = (1, len(ids))
        tensors = {}
        for name in self._input_names:
            if "mask" in name:
                row = np.ones(len(ids), np.int64)
            elif "type" in name:
                row = np.zeros(len(ids), np.int64)
            else:
                row = np.array(ids, np.int64)
            tensors[name] = Tensor("INT64", shape, row.view(np.uint8).data)
        return tensors
