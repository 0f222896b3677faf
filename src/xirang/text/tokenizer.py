"""From a string to a text model's inputs, and back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xirang.errors import InvalidRequest, InvalidSetting
from xirang.tensors.tensor import Array, Tensor
from xirang.text.folder import TextFolder
from xirang.text.pooling import normalise, pool
from xirang.text.task import Purpose

TOKENS_MAX = 512
"""Of a text, where nothing says how long it may be."""
ANY_LENGTH = 1 << 62


class TextTooLong(InvalidRequest):
    """A text has more tokens than the model takes, and was not to be cut."""


class Tokens(NamedTuple):
    """A text as its model takes it.

    Attributes:
        ids: Special ones included.
        types: 1 for what belongs to the second text of a pair; None for all 0.
    """

    ids: list[int]
    types: list[int] | None = None


class Manner(NamedTuple):
    """How a text is read.

    Attributes:
        truncate: Cut it where it is too long, do not refuse it.
        is_cut_left: Keep its end.
        prompt_name: What to put before it; None for the model's default.
    """

    truncate: bool = True
    is_cut_left: bool = False
    prompt_name: str | None = None


USUAL = Manner()


def load_tokenizer(path: Path) -> Any:
    """A `tokenizer.json`, without padding and without a bound.

    Raises:
        InvalidSetting: The library is missing, or the file is no tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InvalidSetting(f"{path} needs tokenizers: pip install 'xirang[text]'") from error
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exceptions
        raise InvalidSetting(f"{path} is not a tokenizer: {error}") from error


class TextModel:
    """A served model that takes token ids, with the tokenizer that makes them.

    Attributes:
        name: Of the served model.
        task: What it is for.
        output: Name of the output that holds its answer.
        hidden: Name of the output with one vector a token; empty if there is none.
        dimension: Values of its answer.
        length_max: Most tokens of a text.
        vocabulary_size: Token ids are below this.
        folder: What its folder says.
        labels: Of its classes.
    """

    def __init__(
        self,
        name: str,
        folder: TextFolder,
        purpose: Purpose,
        tokenizer: Any,
        *,
        length_max: int = 0,
    ) -> None:
        """Read texts for a model.

        Args:
            name: Of the served model.
            folder: What its folder says.
            purpose: What it is for.
            tokenizer: Of `load_tokenizer`; nobody else uses it.
            length_max: What its operator says; 0 for nothing.
        """
        self.name = name
        self.folder = folder
        self.task, self.output, self.hidden = purpose.task, purpose.output, purpose.hidden
        self.dimension = purpose.width
        self.labels = folder.labels or tuple(f"LABEL_{n}" for n in range(purpose.width))
        self.length_max = min(length_max or ANY_LENGTH, _length_max(folder, tokenizer))
        self.vocabulary_size = int(tokenizer.get_vocab_size())
        self._input_names = [spec.name for spec in purpose.executable.inputs]
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._specials = int(tokenizer.num_special_tokens_to_add(is_pair=False))
        self._specials_of_pair = int(tokenizer.num_special_tokens_to_add(is_pair=True))

    def encode(self, text: str, manner: Manner = USUAL) -> Tokens:
        """A text's tokens; may be called from a thread.

        Raises:
            TextTooLong: And cutting is off.
            InvalidRequest: There is no prompt of that name.
        """
        prompt = self.prompt(manner.prompt_name)
        if prompt:
            text = prompt + text
        if len(text) <= self.length_max:  # it hardly has more tokens than letters: one call will do
            ids: list[int] = self._tokenizer.encode(text).ids
            if len(ids) <= self.length_max:
                return Tokens(ids)
        part = self._bare(text)
        room = self.length_max - self._specials
        if len(part) > room:
            self._check_length(len(part) + self._specials, manner)
            _cut(part, room, manner)
        return Tokens(self._tokenizer.post_process(part).ids)

    def encode_pair(self, first: str, second: str, manner: Manner = USUAL) -> Tokens:
        """The tokens of two texts that are read together; the longer one is cut first.

        Raises:
            TextTooLong: And cutting is off.
        """
        parts = [self._bare(first), self._bare(second)]
        count, room = sum(map(len, parts)), self.length_max - self._specials_of_pair
        if count > room:
            self._check_length(count + self._specials_of_pair, manner)
            shares = _shares(len(parts[0]), len(parts[1]), room)
            for part, size in zip(parts, shares, strict=True):
                _cut(part, size, manner)
        encoding = self._tokenizer.post_process(*parts)
        return Tokens(encoding.ids, encoding.type_ids)

    def reads_as(self, other: "TextModel") -> bool:
        """Whether another model makes the same tokens of every text."""
        is_same: bool = self._tokenizer.to_str() == other._tokenizer.to_str()
        return is_same and self.prompt(None) == other.prompt(None)

    def prompt(self, name: str | None) -> str:
        """What is put before a text.

        Raises:
            InvalidRequest: There is no prompt of that name.
        """
        prompts = self.folder.prompts
        if not name:
            return prompts.get(self.folder.default_prompt, "")
        if name not in prompts:
            raise InvalidRequest(
                f"model '{self.name}' has no prompt '{name}'; expected one of {list(prompts)}"
            )
        return prompts[name]

    def pieces(self, text: str, *, has_specials: bool) -> list[dict[str, Any]]:
        """A text's tokens, each with where it stands in the text."""
        encoding = self._tokenizer.encode(text, add_special_tokens=has_specials)
        found = []
        for number, token, is_special, (start, stop) in zip(
            encoding.ids,
            encoding.tokens,
            encoding.special_tokens_mask,
            encoding.offsets,
            strict=True,
        ):
            where = (token, None, None) if is_special else (text[start:stop], start, stop)
            piece = dict(zip(("text", "start", "stop"), where, strict=True))
            found.append({"id": number, "special": bool(is_special), **piece})
        return found

    def decode(self, ids: Sequence[int], *, has_specials: bool) -> str:
        """The text of token ids, as far as they remember it."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=not has_specials)
        return text

    def pooled(self, hidden: Array, *, is_normalised: bool) -> Array:
        """The vector of a text from the states [1, tokens, dimension] of its tokens."""
        vector = pool(hidden, np.ones(hidden.shape[:2], np.int64), self.folder.pooling)[0]
        return normalise(vector) if is_normalised else vector

    def inputs(self, tokens: Tokens) -> dict[str, Tensor]:
        """The model's inputs for one row of tokens."""
        count = len(tokens.ids)
        tensors = {}
        for name in self._input_names:
            if "mask" in name:
                row = np.ones(count, np.int64)
            elif "type" in name:
                row = np.zeros(count, np.int64) if tokens.types is None else _row(tokens.types)
            elif "position" in name:
                row = np.arange(count, dtype=np.int64)
            else:
                row = _row(tokens.ids)
            tensors[name] = Tensor("INT64", (1, count), row.view(np.uint8).data)
        return tensors

    def _bare(self, text: str) -> Any:
        """A text's encoding without special tokens: those are put on after it was cut."""
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _check_length(self, count: int, manner: Manner) -> None:
        if not manner.truncate:
            raise TextTooLong(f"the text has {count} tokens; expected at most {self.length_max}")


def _cut(encoding: Any, size: int, manner: Manner) -> None:
    encoding.truncate(max(0, size), direction="left" if manner.is_cut_left else "right")


def _row(values: list[int]) -> Array:
    return np.array(values, np.int64)


def _length_max(folder: TextFolder, tokenizer: Any) -> int:
    truncation = tokenizer.truncation
    told = folder.tokens_max or (int(truncation["max_length"]) if truncation else 0)
    return min(told or TOKENS_MAX, folder.positions_max or ANY_LENGTH)


def _shares(first: int, second: int, room: int) -> tuple[int, int]:
    """How much of two texts is kept, so that the shorter one loses last."""
    kept = max(min(first, room // 2), room - second)
    return min(first, kept), min(second, room - min(first, kept))
