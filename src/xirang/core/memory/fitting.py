"""Finds the polynomial behind sizes that were measured at a few tiny shapes.

Along each axis of the shape a size follows a profile: how it goes with that length while all else
stays. The profile tells by which stride the length goes in and in which powers; what is left are a
few coefficients, found exactly, in fractions, and held against all samples.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import product
from math import gcd

from xirang.core.memory.polynomial import NOTHING, PLAIN, Factor, Polynomial, Size, Term, made

STRIDES = (
    *(1 << k for k in range(8)),
    *(3, 5, 6, 7, 9, 10, 12, 14, 20, 24, 28, 40, 48, 56, 80, 96, 112, 160, 256, 320),
)
"""By which a length may go in, the likely ones first: steps of convolutions, of patches, of audio.
"""

POWERS = ((0,), (1,), (2,), (0, 1), (0, 1, 2))
"""Of a length in one size, the simplest first."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How many bytes it took at one shape."""

    rows: int
    length: Size
    size_bytes: int

    @property
    def lengths(self) -> tuple[int, ...]:
        """Each of its lengths."""
        return (self.length,) if isinstance(self.length, int) else self.length


def fit(samples: Sequence[Measured]) -> tuple[Polynomial, bool]:
    """The polynomial through all samples, and true; else one above all of them, and false.

    A polynomial that as many samples decide as there are could be any: one more has to agree.
    """
    unit = reduce(gcd, (sample.size_bytes for sample in samples), 0)
    if not unit:
        return NOTHING, True
    small = [replace(sample, size_bytes=sample.size_bytes // unit) for sample in samples]
    for terms in _bases(small):
        found, deciding = _through(small, terms)
        if deciding < len(small) and _agrees(found, small):
            return found.times(Fraction(unit)), True
    return _above(samples), False


class Fits:
    """Fits, each found once: layers repeat, and most sizes are multiples of one another."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Polynomial, bool]] = {}

    def __call__(self, samples: Sequence[Measured]) -> tuple[Polynomial, bool]:
        """See `fit`."""
        unit = reduce(gcd, [sample.size_bytes for sample in samples], 0) or 1
        key = tuple([(s.rows, s.length, s.size_bytes // unit) for s in samples])
        if (known := self._known.get(key)) is None:
            found, is_exact = fit(samples)
            known = self._known[key] = found.times(Fraction(1, unit)), is_exact
        return known[0].times(Fraction(unit)), known[1]


# ------------------------------------------------------------------ which terms


def _bases(samples: Sequence[Measured]) -> Iterator[Sequence[Term]]:
    """Sets of terms that may be the right ones, the most likely first."""
    axes = len(samples[0].lengths)
    if axes <= 1:
        yield PLAIN
    rows = _profile(samples, lambda s: s.rows, lambda s: s.lengths)
    of_rows = next((p for p in POWERS if max(p) < 2 and _follows(rows, p)), (0, 1))
    choices = [_along(samples, axis) for axis in range(axes)]
    yield [
        Term(has_rows=bool(power), factors=tuple(factor for part in parts for factor in part))
        for power in of_rows
        for parts in product(*choices)
    ]
    if axes > 1:
        plain = [[(), (Factor(axis),), (Factor(axis),) * 2] for axis in range(axes)]
        yield [
            Term(has_rows=has_rows, factors=tuple(factor for part in parts for factor in part))
            for has_rows in (True, False)
            for parts in product(*plain)
        ]


def _along(samples: Sequence[Measured], axis: int) -> Sequence[tuple[Factor, ...]]:
    """What of one length stands in the terms."""
    profile = _profile(samples, lambda s: s.lengths[axis], lambda s: (s.rows, *_others(s, axis)))
    if _follows(profile, (0,)):
        return [()]
    for stride in STRIDES:
        # What the samples do not tell apart is rounded up rather than down.
        for shift in reversed(range(stride)):
            left = _strided(profile, shift, stride)
            powers = left and next((p for p in POWERS[1:] if _follows(left, p)), None)
            if powers:
                return [(Factor(axis, shift, stride),) * power for power in powers]
    return [(Factor(axis),) * power for power in (0, 1, 2)]


def _others(sample: Measured, axis: int) -> tuple[int, ...]:
    return sample.lengths[:axis] + sample.lengths[axis + 1 :]


def _profile(
    samples: Sequence[Measured],
    moving: Callable[[Measured], int],
    resting: Callable[[Measured], tuple[int, ...]],
) -> Mapping[int, int]:
    """How a size goes with one number, where most values of it were seen with all else alike."""
    lines: dict[tuple[int, ...], dict[int, int]] = {}
    for sample in samples:
        lines.setdefault(resting(sample), {})[moving(sample)] = sample.size_bytes
    return max(lines.values(), key=len)


def _strided(profile: Mapping[int, int], shift: int, stride: int) -> Mapping[int, int] | None:
    """The profile by what strides leave; None if that does not decide it."""
    if stride == 1:
        return profile
    left: dict[int, int] = {}
    for length, size in profile.items():
        if left.setdefault((length + shift) // stride, size) != size:
            return None
    return left


def _follows(profile: Mapping[int, int], powers: Sequence[int]) -> bool:
    """Whether a profile has these powers and no other; one value more than powers has to agree."""
    if powers == (0,):
        return len(set(profile.values())) == 1
    if len(profile) <= len(powers):
        return False
    points = [([x**power for power in powers], y) for x, y in profile.items()]
    if len(powers) == 1:  # by far the most
        ((first,), size), *others = points
        return all(first * y == value * size for (value,), y in others)
    coefficients, _ = _solved([([*map(Fraction, values)], Fraction(y)) for values, y in points])
    return all(
        sum((c * v for c, v in zip(coefficients, values, strict=True)), Fraction(0)) == y
        for values, y in points
    )


# ------------------------------------------------------------------ their coefficients


def _through(samples: Sequence[Measured], terms: Sequence[Term]) -> tuple[Polynomial, int]:
    """Through as many of them as decide it, and how many those are.

    Terms that the samples do not tell apart are left out.
    """
    rows = [
        ([Fraction(_value(term, sample)) for term in terms], Fraction(sample.size_bytes))
        for sample in samples
    ]
    coefficients, deciding = _solved(rows)
    return made(dict(zip(terms, coefficients, strict=True))), deciding


def _solved(rows: Sequence[tuple[list[Fraction], Fraction]]) -> tuple[list[Fraction], int]:
    """Coefficients of the first equations that decide them, and how many those are."""
    reduced: list[tuple[int, list[Fraction]]] = []
    for values, size in rows:
        row = [*values, size]
        for pivot, known in reduced:
            row = _without(row, known, pivot)
        pivot = next((k for k, value in enumerate(row[:-1]) if value), -1)
        if pivot >= 0:
            row = [value / row[pivot] for value in row]
            reduced = [(p, _without(known, row, pivot)) for p, known in reduced]
            reduced.append((pivot, row))
    coefficients = [Fraction(0)] * len(rows[0][0])
    for pivot, row in reduced:
        coefficients[pivot] = row[-1]
    return coefficients, len(reduced)


def _without(row: list[Fraction], known: list[Fraction], pivot: int) -> list[Fraction]:
    factor = row[pivot]
    return [a - factor * b for a, b in zip(row, known, strict=True)] if factor else row


def _value(term: Term, sample: Measured) -> int:
    each = term.each_at(sample.lengths)
    return each * sample.rows if term.has_rows else each


def _agrees(found: Polynomial, samples: Sequence[Measured]) -> bool:
    return all(found.bytes_at(s.rows, s.length) == s.size_bytes for s in samples)


def _above(samples: Sequence[Measured]) -> Polynomial:
    """The one term that follows the samples most closely from above."""
    best, closest = NOTHING, Fraction(-1)
    for term in _likely(len(samples[0].lengths)):
        ratios = [Fraction(s.size_bytes, _value(term, s)) for s in samples]
        highest = max(ratios)
        spread = sum((highest - ratio for ratio in ratios), Fraction(0)) / highest
        if closest < 0 or spread < closest:
            closest = spread
            best = made({term: highest})
    return best


def _likely(axes: int) -> list[Term]:
    """Terms of a slot that follows none exactly; what grows with rows and all lengths first."""
    powers = sorted(product((1, 2, 0), repeat=axes), key=lambda p: (p != (1,) * axes, -sum(p)))
    return [
        Term(
            has_rows=has_rows,
            factors=tuple(f for axis, n in enumerate(p) for f in [Factor(axis)] * n),
        )
        for p in powers
        for has_rows in (True, False)
    ]
