"""What the routes of Text Embeddings Inference take: bodies to checked values."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import msgspec

from xirang.frontends.texts.desk import ITEMS_MAX
from xirang.frontends.texts.gathering import Item
from xirang.frontends.texts.tei_errors import BatchTooLarge, EmptyBatch, WrongBody
from xirang.text.tokenizer import Manner

PAIRED_CHARACTERS_MAX = 1 << 24
"""A small body could ask for very much reading otherwise."""

Direction = Literal["Left", "Right", "left", "right"]
Input = str | list[str | int | list[int]]
"""A text, token ids, or a list of texts and lists of token ids."""
PredictInput = str | list[str | list[str]]
"""A text, two that are read together, or a list of lists of one or two."""
_T = TypeVar("_T")


class Cut(msgspec.Struct, frozen=True):
    """What every body may say of texts that are too long."""

    truncate: bool | None = None
    truncation_direction: Direction = "Right"
    prompt_name: str | None = None

    @property
    def manner(self) -> Manner:
        """How the texts are read."""
        is_cut_left = self.truncation_direction in ("Left", "left")
        return Manner(self.truncate is not False, is_cut_left, self.prompt_name)


class EmbedBody(Cut, frozen=True, kw_only=True):
    """Of /embed, /embed_all and /embed_sparse."""

    inputs: Input
    normalize: bool = True
    dimensions: int | None = None


class PredictBody(Cut, frozen=True, kw_only=True):
    """Of /predict."""

    inputs: PredictInput
    raw_scores: bool = False


class RerankBody(Cut, frozen=True, kw_only=True):
    """Of /rerank."""

    query: str
    texts: list[str]
    raw_scores: bool = False
    return_text: bool = False


class Sentences(msgspec.Struct, frozen=True):
    """A text, and those that it is compared with."""

    source_sentence: str
    sentences: list[str]


class SimilarityBody(msgspec.Struct, frozen=True):
    """Of /similarity."""

    inputs: Sentences
    parameters: Cut | None = None


class TokenizeBody(msgspec.Struct, frozen=True):
    """Of /tokenize."""

    inputs: str | list[str]
    add_special_tokens: bool = True
    prompt_name: str | None = None


class DecodeBody(msgspec.Struct, frozen=True):
    """Of /decode."""

    ids: list[int | list[int]]
    skip_special_tokens: bool = True


def decode(body: bytes, kind: type[_T]) -> _T:
    """The body as that kind.

    Raises:
        WrongBody: It is no JSON, or not of that kind; the message says where.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongBody(f"failed to read the request's JSON: {error}") from None


def items_of(inputs: Input) -> list[Item]:
    """The texts of a body.

    Raises:
        XirangError: There are none, too many, or an empty one.
    """
    if isinstance(inputs, str):
        return _checked([inputs])
    numbers = [each for each in inputs if isinstance(each, int)]
    if numbers and len(numbers) < len(inputs):
        raise WrongBody("`inputs` mixes token ids with texts or lists")
    return _checked([numbers] if numbers else inputs)


def texts_of(inputs: str | list[str], name: str = "inputs") -> list[str]:
    """The texts of a body that may hold nothing else.

    Raises:
        XirangError: There are none, or too many.
    """
    texts = [inputs] if isinstance(inputs, str) else inputs
    check_count(texts, name)
    return texts


def ids_of(ids: list[int | list[int]]) -> list[list[int]]:
    """The lists of token ids of a body.

    Raises:
        XirangError: There are none, or too many.
    """
    numbers = [each for each in ids if isinstance(each, int)]
    if numbers and len(numbers) < len(ids):
        raise WrongBody("`ids` mixes token ids with lists of them")
    check_count(ids, "ids")
    return [numbers] if numbers else [each for each in ids if isinstance(each, list)]


def sequences_of(inputs: PredictInput) -> tuple[list[Item], bool]:
    """The texts and pairs of a body, and whether they came as a batch.

    Raises:
        XirangError: There are none, too many, or some of three texts.
    """
    if isinstance(inputs, str):
        return _checked([inputs]), False
    first = inputs[0] if inputs else []
    if isinstance(first, str):
        return _checked([_sequence(inputs)]), False
    check_count(inputs, "inputs")
    return _checked([_sequence(each if isinstance(each, list) else []) for each in inputs]), True


def pairs_of(body: RerankBody) -> list[Item]:
    """The query with each of the texts.

    Raises:
        XirangError: There are none, too many, or too much to read: the query counts each time.
    """
    texts = texts_of(body.texts, "texts")
    characters = len(body.query) * len(texts) + sum(map(len, texts))
    if characters > PAIRED_CHARACTERS_MAX:
        raise BatchTooLarge(
            f"the query with each of the texts has {characters} characters; "
            f"expected at most {PAIRED_CHARACTERS_MAX}"
        )
    return [(body.query, text) for text in texts]


def check_count(items: Sequence[Any], name: str) -> None:
    """Refuse no items, and too many.

    Raises:
        EmptyBatch: There are none.
        BatchTooLarge: There are too many.
    """
    if not items:
        raise EmptyBatch(f"`{name}` cannot be empty")
    if len(items) > ITEMS_MAX:
        raise BatchTooLarge(f"batch size {len(items)} > maximum allowed batch size {ITEMS_MAX}")


def _sequence(words: Sequence[Any]) -> Item:
    if not 1 <= len(words) <= 2 or not all(isinstance(word, str) for word in words):
        raise WrongBody(
            "`inputs` must be a string, a pair of strings, or a batch of lists of one or two"
        )
    return words[0] if len(words) == 1 else (words[0], words[1])


def _checked(items: Sequence[Any]) -> list[Item]:
    check_count(items, "inputs")
    if not all(items):
        raise WrongBody("`inputs` cannot be empty")
    return list(items)
