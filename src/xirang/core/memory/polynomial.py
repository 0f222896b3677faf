"""How many bytes a tensor takes, as a polynomial in rows and length.

Shapes are products of sizes, so the bytes of nearly every tensor are one of these, exactly; from a
few runs at tiny shapes the polynomial is found, and holds for the large ones. Fractions are kept
whole: nothing here is rounded but the last result, upwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

Terms = tuple[int, int, int, int, int, int]


def terms_of(rows: int, length: int) -> Terms:
    """What the coefficients stand before: 1, B, L, BL, BL², L²."""
    return (1, rows, length, rows * length, rows * length * length, length * length)


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Bytes of something.

    Attributes:
        numerators: One coefficient for each of the terms, times the denominator.
        denominator: Of all of them.
    """

    numerators: Terms
    denominator: int = 1

    def bytes_at(self, rows: int, length: int) -> int:
        """Its value, rounded up; never below 0."""
        terms = terms_of(rows, length)
        total = sum(n * term for n, term in zip(self.numerators, terms, strict=True))
        return max(0, -(-total // self.denominator))

    def line_at(self, length: int) -> tuple[int, int, int]:
        """At one length it is a line: what it is without rows, what a row adds, the denominator."""
        one, by_rows, by_length, by_both, by_square, square = self.numerators
        fixed = one + (by_length + square * length) * length
        each = by_rows + (by_both + by_square * length) * length
        return fixed, each, self.denominator

    def rows_max(self, length: int, size_bytes: int) -> int | None:
        """The most rows that fit in so many bytes; None if rows do not matter, or not upwards."""
        return rows_of(self.line_at(length), size_bytes)

    def covers(self, other: "Polynomial") -> bool:
        """Whether it is at least as large at every shape of one row and one position or more."""
        mine, theirs = self.numerators, other.numerators
        one, by_rows, by_length, by_both, by_square, square = (
            m * other.denominator - t * self.denominator for m, t in zip(mine, theirs, strict=True)
        )
        # In B-1 and L-1, which are never negative, it is enough that no coefficient is.
        shifted = (
            one + by_rows + by_length + by_both + by_square + square,
            by_rows + by_both + by_square,
            by_length + by_both + 2 * (by_square + square),
            by_both + 2 * by_square,
            by_square,
            by_square + square,
        )
        return min(shifted) >= 0

    def is_multiple_of(self, alignment: int) -> bool:
        """Whether its values are multiples, whatever the shape."""
        return all(n % (alignment * self.denominator) == 0 for n in self.numerators)

    def plus(self, size_bytes: int) -> "Polynomial":
        """So many bytes more."""
        first, *others = self.numerators
        return _polynomial(
            [Fraction(first + size_bytes * self.denominator, self.denominator)]
            + [Fraction(n, self.denominator) for n in others]
        )


def rows_of(line: tuple[int, int, int], size_bytes: int) -> int | None:
    """The most rows at which a line stays within so many bytes; None if rows do not matter."""
    fixed, each, denominator = line
    room = size_bytes * denominator - fixed
    if each <= 0:
        return None if each <= room else 0
    return max(0, room // each)


NOTHING = Polynomial((0, 0, 0, 0, 0, 0))


def total(polynomials: Sequence[Polynomial]) -> Polynomial:
    """Their sum."""
    denominator = lcm(*(one.denominator for one in polynomials)) if polynomials else 1
    sums = [0] * len(NOTHING.numerators)
    for one in polynomials:
        scale = denominator // one.denominator
        for term, numerator in enumerate(one.numerators):
            sums[term] += numerator * scale
    return _polynomial([Fraction(value, denominator) for value in sums])


@dataclass(frozen=True, slots=True)
class Measured:
    """How many bytes it took at one shape."""

    rows: int
    length: int
    size_bytes: int


def fit(samples: Sequence[Measured]) -> tuple[Polynomial, bool]:
    """The polynomial through all samples, and true; else one above all of them, and false.

    A polynomial that as many samples decide as there are could be any: one more has to agree.
    """
    found, deciding = _through(samples)
    agree = all(found.bytes_at(s.rows, s.length) == s.size_bytes for s in samples)
    if agree and (deciding < len(samples) or not any(s.size_bytes for s in samples)):
        return found, True
    return _above(samples), False


def _through(samples: Sequence[Measured]) -> tuple[Polynomial, int]:
    """Through as many of them as decide it, and how many those are.

    Terms that the samples do not tell apart are left out.
    """
    reduced: list[tuple[int, list[Fraction]]] = []
    for sample in samples:
        row = [Fraction(t) for t in (*terms_of(sample.rows, sample.length), sample.size_bytes)]
        for pivot, known in reduced:
            row = _without(row, known, pivot)
        pivot = next((k for k, value in enumerate(row[:-1]) if value), -1)
        if pivot >= 0:
            row = [value / row[pivot] for value in row]
            reduced = [(p, _without(known, row, pivot)) for p, known in reduced]
            reduced.append((pivot, row))
    coefficients = [Fraction(0)] * len(NOTHING.numerators)
    for pivot, row in reduced:
        coefficients[pivot] = row[-1]
    return _polynomial(coefficients), len(reduced)


def _without(row: list[Fraction], known: list[Fraction], pivot: int) -> list[Fraction]:
    factor = row[pivot]
    return [a - factor * b for a, b in zip(row, known, strict=True)] if factor else row


_LIKELY = (3, 4, 1, 5, 2, 0)
"""Terms of a slot that follows none exactly; what grows with rows × length comes first."""


def _above(samples: Sequence[Measured]) -> Polynomial:
    """The one term that follows the samples most closely from above."""
    best, closest = NOTHING, Fraction(-1)
    for term in _LIKELY:
        ratios = [Fraction(s.size_bytes, terms_of(s.rows, s.length)[term]) for s in samples]
        highest = max(ratios, default=Fraction(0))
        if not highest:
            return NOTHING
        spread = sum((highest - ratio for ratio in ratios), Fraction(0)) / highest
        if closest < 0 or spread < closest:
            closest = spread
            coefficients = [Fraction(0)] * len(NOTHING.numerators)
            coefficients[term] = highest
            best = _polynomial(coefficients)
    return best


def _polynomial(coefficients: Sequence[Fraction]) -> Polynomial:
    denominator = lcm(*(value.denominator for value in coefficients))
    one, two, three, four, five, six = (int(value * denominator) for value in coefficients)
    return Polynomial((one, two, three, four, five, six), denominator)
