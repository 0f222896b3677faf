"""Protobuf's text format: from text to a tree of fields that know where they stand.

What a field means is not decided here: `reading.py` holds the tree against a schema.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xirang.errors import InvalidSetting

DEPTH_MAX = 100
"""As protobuf has it: no configuration is nested so deep, and no text exhausts the stack."""

_SKIPPED = re.compile(r"(?:[ \t\r\n\v\f]|#[^\n]*)+")
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>[{}<>\[\]:,;\-])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_ESCAPED = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
_CLOSING = {"{": "}", "<": ">"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands, counted from one."""

    line: int
    column: int

    def error(self, message: str) -> InvalidSetting:
        """What is wrong there."""
        return InvalidSetting(f"{self.line}:{self.column}: {message}")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that is no block.

    Attributes:
        kind: `string`, `number` or `word`.
        text: As it stands there; of a string what it says.
        place: Where it stands.
    """

    kind: str
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Block:
    """A value in braces."""

    fields: tuple["Field", ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Field:
    """A name and one value; a list of values is that many fields.

    Attributes:
        name: Left of the value.
        value: One.
        place: Of the name.
        is_listed: Whether it stood in brackets.
    """

    name: str
    value: Scalar | Block
    place: Place
    is_listed: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: Place


def parse(text: str) -> Block:
    """The fields of a text.

    Raises:
        InvalidSetting: It is not in the text format; line, column, and what was expected there.
    """
    reader = _Reader(list(_tokens(text)))
    block = Block(reader.fields(until=""), Place(1, 1))
    reader.take("end")
    return block


def _tokens(text: str) -> Iterator[_Token]:
    at = line = 0
    line_begin = 0
    while True:
        if skipped := _SKIPPED.match(text, at):
            line += skipped[0].count("\n")
            line_begin = text.rfind("\n", 0, skipped.end()) + 1
            at = skipped.end()
        place = Place(line + 1, at - line_begin + 1)
        if at == len(text):
            yield _Token("end", "", place)
            return
        found = _TOKEN.match(text, at)
        if found is None:
            sort = "unterminated string" if text[at] in "\"'" else "unexpected character"
            raise place.error(f"{sort} {text[at]!r}")
        assert found.lastgroup is not None
        at = found.end()
        if found.lastgroup == "number" and re.match(r"\w", text[at : at + 1]):
            raise place.error("expected a space between a number and a name")
        yield _Token(found.lastgroup, found[0], place)


class _Reader:
    """Takes one token after another."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def take(self, kind: str, text: str | None = None) -> _Token:
        token = self.next
        if token.kind != kind or text not in {None, token.text}:
            expected = {"end": "a field"}.get(kind, f"'{text}'" if text else f"a {kind}")
            found = f"'{token.text}'" if token.text else "the end"
            raise token.place.error(f"expected {expected}, found {found}")
        self._at += 1
        return token

    def has(self, *signs: str) -> bool:
        """Whether one of these signs comes; it is taken then."""
        if self.next.kind == "sign" and self.next.text in signs:
            self._at += 1
            return True
        return False

    def fields(self, until: str) -> tuple[Field, ...]:
        found: list[Field] = []
        while self.next.kind != "end" and not (
            self.next.kind == "sign" and self.next.text == until
        ):
            found += self._field()
            self.has(",", ";")
        return tuple(found)

    def _field(self) -> list[Field]:
        name = self.take("word")
        has_colon = self.has(":")
        values = self._list() if self.has("[") else [self._value(needs_block=not has_colon)]
        if not has_colon and any(isinstance(value, Scalar) for value in values):
            raise name.place.error(f"expected ':' behind '{name.text}'")
        is_listed = self._tokens[self._at - 1].text == "]"
        return [Field(name.text, value, name.place, is_listed) for value in values]

    def _list(self) -> list[Scalar | Block]:
        values: list[Scalar | Block] = []
        if self.has("]"):
            return values
        while True:
            values.append(self._value())
            if self.has("]"):
                return values
            self.take("sign", ",")

    def _value(self, *, needs_block: bool = False) -> Scalar | Block:
        token = self.next
        if token.text in _CLOSING and token.kind == "sign":
            return self._block()
        if needs_block:
            raise token.place.error(f"expected ':' or '{{', found '{token.text or 'the end'}'")
        if self.has("-"):
            after = self.next
            if after.kind == "word" and after.text.lower().rstrip("f") in {"in", "nan", "infinity"}:
                self.take("word")
            else:
                self.take("number")
            return Scalar("number", "-" + after.text, token.place)
        if token.kind == "string":
            return self._string()
        if token.kind not in {"number", "word"}:
            raise token.place.error(f"expected a value, found '{token.text or 'the end'}'")
        self._at += 1
        return Scalar(token.kind, token.text, token.place)

    def _block(self) -> Block:
        opening = self.take("sign")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise opening.place.error(f"nested deeper than {DEPTH_MAX} blocks")
        fields = self.fields(until=_CLOSING[opening.text])
        self.take("sign", _CLOSING[opening.text])
        self._depth -= 1
        return Block(fields, opening.place)

    def _string(self) -> Scalar:
        place, parts = self.next.place, []
        while self.next.kind == "string":
            parts.append(_unescaped(self.take("string")))
        try:
            return Scalar("string", b"".join(parts).decode(), place)
        except UnicodeDecodeError:
            raise place.error("the string is not UTF-8") from None


def _unescaped(token: _Token) -> bytes:
    def plain(found: re.Match[bytes]) -> bytes:
        octal, hexadecimal, short, long, sign = found.groups()
        if octal or hexadecimal:
            return bytes([int(octal, 8) & 255 if octal else int(hexadecimal, 16)])
        if sign:
            if sign[0] not in _ESCAPED:
                raise token.place.error(f"unknown escape '\\{sign.decode()}' in a string")
            return bytes([_ESCAPED[sign[0]]])
        try:
            return chr(int(short or long, 16)).encode()
        except (ValueError, OverflowError):
            raise token.place.error("an escape in a string is no character") from None

    return _ESCAPE.sub(plain, token.text[1:-1].encode())
