"""How many bytes a tensor takes, as a polynomial in rows and lengths.

Shapes are products of sizes, so the bytes of nearly every tensor are such a polynomial, exactly. Of
a length there may be left what strides leave: (length + shift) // stride. Nothing here is rounded
but the last result, upwards.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm, prod
from typing import NamedTuple

Size = int | tuple[int, ...]
"""The length of a row; of several lengths (a picture's height and width), each of them."""


def size_of(lengths: tuple[int, ...]) -> Size:
    """From each of the lengths, however many there are; 1 where nothing varies."""
    return lengths if len(lengths) > 1 else lengths[0] if lengths else 1


def each_of(size: Size) -> tuple[int, ...]:
    """Each of the lengths."""
    return (size,) if isinstance(size, int) else size


def area(size: Size) -> int:
    """The elements of a row."""
    return size if isinstance(size, int) else prod(size)


def middle(one: Size, other: Size) -> Size:
    """A size between two."""
    if isinstance(one, int) and isinstance(other, int):
        return (one + other) // 2
    assert isinstance(one, tuple)
    assert isinstance(other, tuple)
    return tuple((a + b) // 2 for a, b in zip(one, other, strict=True))


class Factor(NamedTuple):
    """What is left of a length: (length + shift) // stride.

    Attributes:
        axis: Which length.
        shift: One less than the stride to round up, 0 to round down.
        stride: 1 for the length itself.
    """

    axis: int = 0
    shift: int = 0
    stride: int = 1

    def at(self, lengths: Sequence[int]) -> int:
        """Its value."""
        return (lengths[self.axis] + self.shift) // self.stride


class Term(NamedTuple):
    """A product of factors, and of the rows if they count.

    Attributes:
        has_rows: Whether each row adds one.
        factors: Sorted; one that stands twice is a square.
    """

    has_rows: bool = False
    factors: tuple[Factor, ...] = ()

    def each_at(self, lengths: Sequence[int]) -> int:
        """Its value for one row."""
        value = 1
        for axis, shift, stride in self.factors:
            value *= (lengths[axis] + shift) // stride
        return value


_LENGTH = Factor()
PLAIN = (
    Term(),
    Term(has_rows=True),
    Term(factors=(_LENGTH,)),
    Term(has_rows=True, factors=(_LENGTH,)),
    Term(has_rows=True, factors=(_LENGTH, _LENGTH)),
    Term(factors=(_LENGTH, _LENGTH)),
)
"""1, B, L, BL, BL², L²: what is in use where there is one length, or none."""

Line = tuple[int, int, int]
"""Bytes of a size: what they are without rows, what a row adds, the denominator of both."""


@dataclass(frozen=True)
class Polynomial:
    """Bytes of something.

    Attributes:
        numerators: One coefficient for each of the terms, times the denominator.
        denominator: Of all of them.
        terms: What the coefficients stand before.
    """

    numerators: tuple[int, ...]
    denominator: int = 1
    terms: tuple[Term, ...] = PLAIN

    @cached_property
    def _parts(self) -> tuple[tuple[int, bool, tuple[Factor, ...]], ...]:
        """Of each term that counts its coefficient, whether it has rows, its factors."""
        pairs = zip(self.numerators, self.terms, strict=True)
        return tuple((n, term.has_rows, term.factors) for n, term in pairs if n)

    def line_at(self, size: Size) -> Line:
        """At one size of a row it is a line."""
        lengths = (size,) if isinstance(size, int) else size
        fixed = each = 0
        for value, has_rows, factors in self._parts:
            for axis, shift, stride in factors:
                value *= (lengths[axis] + shift) // stride  # noqa: PLW2901
            if has_rows:
                each += value
            else:
                fixed += value
        return fixed, each, self.denominator

    def bytes_at(self, rows: int, size: Size) -> int:
        """Its value, rounded up; never below 0."""
        fixed, each, denominator = self.line_at(size)
        return max(0, -(-(fixed + each * rows) // denominator))

    def rows_max(self, size: Size, size_bytes: int) -> int | None:
        """The most rows that fit in so many bytes; None if rows do not matter, or not upwards."""
        return rows_of(self.line_at(size), size_bytes)

    def covers(self, other: "Polynomial") -> bool:
        """Whether it is at least as large whatever the rows and lengths; false if in doubt."""
        difference = _by_term(self, other.denominator)
        for term, value in _by_term(other, -self.denominator).items():
            difference[term] = difference.get(term, 0) + value
        # In what each factor and the rows are above their least, which is never negative, it is
        # enough that no coefficient is.
        shifted: dict[Term, int] = {}
        for term, value in difference.items():
            for part, scale in _above_least(term).items():
                shifted[part] = shifted.get(part, 0) + scale * value
        return min(shifted.values(), default=0) >= 0

    def is_multiple_of(self, alignment: int) -> bool:
        """Whether its values are multiples, whatever the shape."""
        return all(n % (alignment * self.denominator) == 0 for n in self.numerators)

    def plus(self, size_bytes: int) -> "Polynomial":
        """So many bytes more."""
        return total([self, Polynomial((size_bytes,), 1, (Term(),))])

    def times(self, factor: Fraction) -> "Polynomial":
        """So many times as much."""
        numerators = tuple(n * factor.numerator for n in self.numerators)
        return Polynomial(numerators, self.denominator * factor.denominator, self.terms)


def rows_of(line: Line, size_bytes: int) -> int | None:
    """The most rows at which a line stays within so many bytes; None if rows do not matter."""
    fixed, each, denominator = line
    room = size_bytes * denominator - fixed
    if each <= 0:
        return None if each <= room else 0
    return max(0, room // each)


def upper(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Those of some lines that none of the others covers."""
    found: list[Line] = []
    for line in sorted(set(lines), key=lambda one: (-one[1] / one[2], -one[0] / one[2])):
        fixed, each, denominator = line
        if not any(
            kept[0] * denominator >= fixed * kept[2] and kept[1] * denominator >= each * kept[2]
            for kept in found
        ):
            found.append(line)
    return tuple(found)


NOTHING = Polynomial((0,) * len(PLAIN))


def total(polynomials: Iterable[Polynomial]) -> Polynomial:
    """Their sum."""
    parts = list(polynomials)
    denominator = lcm(*(one.denominator for one in parts))
    sums: dict[Term, int] = {}
    for one in parts:
        for term, value in _by_term(one, denominator // one.denominator).items():
            sums[term] = sums.get(term, 0) + value
    return made(sums, denominator)


def made(coefficients: Mapping[Term, int | Fraction], denominator: int = 1) -> Polynomial:
    """A polynomial of these terms: with whole coefficients in lowest terms, those at rest left out.

    Args:
        coefficients: Of each term, times the denominator.
        denominator: Of all of them.
    """
    exact = {term: Fraction(value) / denominator for term, value in coefficients.items() if value}
    common = lcm(*(value.denominator for value in exact.values()))
    terms = PLAIN if exact.keys() <= set(PLAIN) else tuple(sorted(exact))
    return Polynomial(tuple(int(exact.get(t, 0) * common) for t in terms), common, terms)


def _by_term(polynomial: Polynomial, scale: int) -> dict[Term, int]:
    pairs = zip(polynomial.terms, polynomial.numerators, strict=True)
    return {term: scale * n for term, n in pairs if n}


def _above_least(term: Term) -> dict[Term, int]:
    """A term in what its factors are above their value at length 1, and the rows above 1."""
    parts = {Term(): 1}
    for factor in term.factors:
        least = factor.at((1,) * (factor.axis + 1))
        grown: dict[Term, int] = {}
        for part, scale in parts.items():
            longer = Term(factors=tuple(sorted((*part.factors, factor))))
            grown[longer] = grown.get(longer, 0) + scale
            if least:
                grown[part] = grown.get(part, 0) + least * scale
        parts = grown
    if term.has_rows:
        parts |= {Term(has_rows=True, factors=part.factors): s for part, s in parts.items()}
    return parts
