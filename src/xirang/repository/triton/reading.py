"""Holds a tree of the text format, or JSON, against the schema: unknown fields are refused."""

from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from xirang.errors import InvalidSetting
from xirang.repository.triton.schema import Message, ModelConfig, Opaque
from xirang.repository.triton.text_format import Block, Field, Scalar, parse

_TRUE, _FALSE = {"true", "True", "t", "1"}, {"false", "False", "f", "0"}


class _Sort(Enum):
    ONE = "one"
    LIST = "list"
    MAP = "map"


class _Slot(NamedTuple):
    """What a field takes: how many, of which type, and by keys of which type."""

    sort: _Sort
    kind: Any
    key: Any = None


def read_text(text: str) -> ModelConfig:
    """A configuration in the text format.

    Raises:
        InvalidSetting: Line, column, and what is wrong there.
    """
    config: ModelConfig = _message(parse(text), ModelConfig)
    return config


def read_json(text: str | bytes) -> ModelConfig:
    """A configuration in JSON, with the same names.

    Raises:
        InvalidSetting: What is wrong, and in which field.
    """
    try:
        plain = msgspec.json.decode(text)
        if isinstance(plain, dict):
            plain.pop("xirang", None)  # what we tell of a model ourselves may come back
        config = msgspec.convert(plain, ModelConfig, strict=False, str_keys=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSetting(f"the model configuration is wrong: {error}") from error
    for message in _messages(config):
        if given := _too_many(message):
            raise InvalidSetting(given)
    return config


def _message(block: Block, kind: type[Message]) -> Any:
    slots = _slots(kind)
    values: dict[str, Any] = {}
    for field in block.fields:
        slot = slots.get(field.name)
        if slot is None:
            raise field.place.error(
                f'Message type "inference.{kind.__name__}" has no field named "{field.name}".'
            )
        if slot.sort is _Sort.LIST:
            values.setdefault(field.name, []).append(_value(field.value, slot.kind, field.name))
        elif slot.sort is _Sort.MAP:
            values.setdefault(field.name, {}).update([_entry(field, slot)])
        elif field.name in values or field.is_listed:
            raise field.place.error(
                f'Non-repeated field "{field.name}" is specified multiple times.'
            )
        else:
            values[field.name] = _value(field.value, slot.kind, field.name)
    message = kind(**values)
    if given := _too_many(message):
        raise block.place.error(given)
    return message


def _entry(field: Field, slot: _Slot) -> tuple[Any, Any]:
    """One entry of a map: a block with a key and a value."""
    if not isinstance(field.value, Block):
        raise field.value.place.error(f"{field.name} takes blocks with a key and a value")
    parts: dict[str, Field] = {}
    for part in field.value.fields:
        if part.name not in {"key", "value"} or part.name in parts:
            raise part.place.error(f"{field.name} takes blocks with one key and one value")
        parts[part.name] = part
    key = _value(parts["key"].value, slot.key, "key") if "key" in parts else slot.key()
    if "value" in parts:
        return key, _value(parts["value"].value, slot.kind, "value")
    return key, slot.kind()


def _value(value: Scalar | Block, kind: Any, name: str) -> Any:
    if kind == Opaque:
        if isinstance(value, Scalar):
            raise value.place.error(f"{name} takes a block")
        return _opaque(value)
    if isinstance(kind, type) and issubclass(kind, Message):
        if isinstance(value, Scalar):
            raise value.place.error(f"{name} takes a block")
        return _message(value, kind)
    if isinstance(value, Block):
        raise value.place.error(f"{name} takes no block")
    return _scalar(value, kind, name)


def _scalar(value: Scalar, kind: Any, name: str) -> Any:
    if get_origin(kind) is Literal:
        return _choice(value, get_args(kind), name)
    if kind is str:
        if value.kind != "string":
            raise value.place.error(f"{name} takes a string in quotes, found '{value.text}'")
        return value.text
    if kind is bool:
        if value.kind == "string" or value.text not in _TRUE | _FALSE:
            raise value.place.error(f"{name} takes true or false, found '{value.text}'")
        return value.text in _TRUE
    try:
        return msgspec.convert(_whole(value), kind)
    except msgspec.ValidationError as error:
        raise value.place.error(f"{name} is {value.text}: {error}") from None
    except ValueError:
        raise value.place.error(f"{name} takes a whole number, found '{value.text}'") from None


def _choice(value: Scalar, choices: tuple[str, ...], name: str) -> str:
    if value.kind == "word" and value.text in choices:
        return value.text
    if value.kind == "number" and value.text.isdigit() and int(value.text) < len(choices):
        return choices[int(value.text)]
    raise value.place.error(
        f'Unknown enumeration value of "{value.text}" for field "{name}"; '
        f"expected one of {', '.join(choices)}"
    )


def _whole(value: Scalar) -> int:
    if value.kind != "number":
        raise ValueError
    digits = value.text.lstrip("-")
    is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    return int(value.text, 8 if is_octal else 0)


def _opaque(block: Block) -> Opaque:
    found: Opaque = {}
    for field in block.fields:
        value = field.value
        plain = _opaque(value) if isinstance(value, Block) else value.text
        found.setdefault(field.name, []).append(plain)
    return found


def _too_many(message: Message) -> str:
    """What is wrong if more was given than one of those that exclude each other."""
    given = [name for name in message.ONE_OF if getattr(message, name) is not UNSET]
    return f"only one of {', '.join(given)} may be given" if len(given) > 1 else ""


def _messages(value: Any) -> list[Message]:
    if isinstance(value, Message):
        inside = [getattr(value, name) for name in value.__struct_fields__]
        return [value, *(found for each in inside for found in _messages(each))]
    if isinstance(value, dict):
        return [found for each in value.values() for found in _messages(each)]
    return [found for each in value for found in _messages(each)] if isinstance(value, list) else []


@cache
def _slots(kind: type[Message]) -> dict[str, _Slot]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: _slot(hints[name]) for name in kind.__struct_fields__}


def _slot(hint: Any) -> _Slot:
    if get_origin(hint) in {UnionType, Union}:
        (hint,) = [part for part in get_args(hint) if part is not UnsetType]
    if get_origin(hint) is list:
        return _Slot(_Sort.LIST, get_args(hint)[0])
    if get_origin(hint) is dict and hint != Opaque:
        key, kind = get_args(hint)
        return _Slot(_Sort.MAP, kind, key)
    return _Slot(_Sort.ONE, hint)
