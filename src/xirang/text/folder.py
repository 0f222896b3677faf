"""What a Hugging Face folder says of its text model: lengths, pooling, prompts and labels.

Read are tokenizer_config.json, config.json and what the library sentence-transformers puts beside
them: modules.json, 1_Pooling/config.json, sentence_bert_config.json and
config_sentence_transformers.json. Any of them may be missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import orjson

from xirang.errors import InvalidSetting

TOKENIZER = "tokenizer.json"
TOKENS_ABSURD = 1_000_000
"""Tokenizers without a bound say 10^30."""

_ONNX = "onnx"
"""The folder below a model's own in which its ONNX files are kept."""
_OFFSET_FAMILIES = {"roberta", "xlm-roberta", "camembert", "mpnet", "longformer"}
"""Count positions from behind that of padding, so that their first ones are never used."""


class Pooling(Enum):
    """How the states of a text's tokens become one vector."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"
    MAX = "max"
    SPLADE = "splade"


_POOLINGS = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_lasttoken": Pooling.LAST,
    "pooling_mode_max_tokens": Pooling.MAX,
}


@dataclass(frozen=True, slots=True)
class TextFolder:
    """What is known of a text model before its weights are looked at.

    Attributes:
        tokenizer: The file.
        tokens_max: Most tokens of a text; None where only the tokenizer can say.
        positions_max: Beyond so many tokens the model cannot tell places; None for any.
        pooling: Of its vectors.
        is_normalised: Whether its vectors have length one.
        prompts: Name to what is put before a text.
        default_prompt: Name of the one for texts that ask for none; empty for none.
        is_classifier: Whether it gives classes or a score.
        labels: Of its classes, in their order; empty where it names none.
        has_many_labels: Whether several of them may hold at once.
        dimensions: Those that its vectors may be cut to; empty for any, None for no cut at all.
    """

    tokenizer: Path
    tokens_max: int | None = None
    positions_max: int | None = None
    pooling: Pooling = Pooling.MEAN
    is_normalised: bool = True
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    is_classifier: bool = False
    labels: tuple[str, ...] = ()
    has_many_labels: bool = False
    dimensions: tuple[int, ...] | None = ()


def folder_of(model: Path) -> Path:
    """The folder in which a model's tokenizer lies: its own, or the one above `onnx`."""
    home = model.parent
    is_below = home.name == _ONNX and not (home / TOKENIZER).is_file()
    return home.parent if is_below else home


def read_folder(model: Path) -> TextFolder:
    """Read all that stands beside a model's file.

    Raises:
        InvalidSetting: A file cannot be read, or says what cannot be done here.
    """
    home = folder_of(model)
    config = _read(home / "config.json")
    modules = _modules(home)
    transformer = _read(home / "sentence_bert_config.json")
    tokenizer = _read(home / "tokenizer_config.json")
    pooling_file = modules.get("Pooling", home / "1_Pooling") / "config.json"
    pooling = _read(pooling_file)
    is_whole = bool(pooling.get("include_prompt", True))
    prompts, default_prompt = _prompts(home, is_pooled_whole=is_whole)
    return TextFolder(
        tokenizer=home / TOKENIZER,
        tokens_max=_count(transformer.get("max_seq_length"))
        or _count(tokenizer.get("model_max_length")),
        positions_max=_positions(config),
        pooling=Pooling.SPLADE if "SpladePooling" in modules else _pooling(pooling, pooling_file),
        is_normalised="Normalize" in modules or not modules,
        prompts=prompts,
        default_prompt=default_prompt,
        is_classifier=_is_classifier(config),
        labels=_labels(config, home),
        has_many_labels=config.get("problem_type") == "multi_label_classification",
        dimensions=_dimensions(config),
    )


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}") from error
    if type(document) is not dict:
        raise InvalidSetting(f"{path} holds no JSON object")
    return document


def _modules(home: Path) -> dict[str, Path]:
    """The steps from tokens to a vector: the last word of a step's type to its folder."""
    path = home / "modules.json"
    if not path.is_file():
        return {}
    try:
        steps = orjson.loads(path.read_bytes())
        return {step["type"].rpartition(".")[2]: home / step["path"] for step in steps}
    except (OSError, orjson.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
        raise InvalidSetting(f"{path} is no list of modules: {error}") from error


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and 1 <= value < TOKENS_ABSURD else None


def _positions(config: Mapping[str, Any]) -> int | None:
    positions = _count(config.get("max_position_embeddings"))
    if positions is not None and config.get("model_type") in _OFFSET_FAMILIES:
        return positions - int(config.get("pad_token_id") or 0) - 1
    return positions


def _pooling(config: Mapping[str, Any], path: Path) -> Pooling:
    modes = [name for name, value in config.items() if name.startswith("pooling_mode_") and value]
    if not modes:
        return Pooling.MEAN
    if len(modes) > 1 or modes[0] not in _POOLINGS:
        raise InvalidSetting(f"{path} pools by {modes}; expected one of {list(_POOLINGS)}")
    return _POOLINGS[modes[0]]


def _prompts(home: Path, *, is_pooled_whole: bool) -> tuple[dict[str, str], str]:
    path = home / "config_sentence_transformers.json"
    config = _read(path)
    prompts = config.get("prompts") or {}
    default = config.get("default_prompt_name") or ""
    texts = prompts.values() if isinstance(prompts, dict) else [None]
    if not all(isinstance(text, str) for text in (*texts, default)):
        raise InvalidSetting(f"{path} has prompts that are no texts by name")
    if default and default not in prompts:
        raise InvalidSetting(f"{path} has the default prompt '{default}', but only {list(prompts)}")
    if not is_pooled_whole and any(prompts.values()):
        raise InvalidSetting(
            f"{home} leaves its prompts out of the pooling (include_prompt), which is not done here"
        )
    return prompts, default


def _is_classifier(config: Mapping[str, Any]) -> bool:
    architectures = config.get("architectures") or ()
    return any(str(each).endswith("ForSequenceClassification") for each in architectures)


def _labels(config: Mapping[str, Any], home: Path) -> tuple[str, ...]:
    named = config.get("id2label") or {}
    try:
        numbers = {int(number): str(label) for number, label in named.items()}
    except (AttributeError, ValueError) as error:
        raise InvalidSetting(f"{home / 'config.json'} has labels without numbers") from error
    if sorted(numbers) != list(range(len(numbers))):
        raise InvalidSetting(f"{home / 'config.json'} numbers its labels {sorted(numbers)}")
    return tuple(numbers[number] for number in range(len(numbers)))


def _dimensions(config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """What a model that says so was trained to be cut to: Kusupati et al., "Matryoshka", 2022."""
    if config.get("is_matryoshka") is False:
        return None
    return tuple(_count(each) or 0 for each in config.get("matryoshka_dimensions") or ())
