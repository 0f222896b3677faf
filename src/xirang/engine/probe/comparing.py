"""How far two answers are apart."""

from dataclasses import dataclass

import numpy as np

from xirang.tensors.tensor import Array

TOLERANCES = {"f2": 5e-3, "f4": 1e-4, "f8": 1e-10}
"""Largest relative difference that is rounding, by type of the real numbers. Dozens of layers in
single precision, run by other kernels for other shapes, were seen to round to 2e-5 of an answer's
magnitude; what is unsafe was never below 1e-3."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Between an answer alone and the same in company.

    Attributes:
        absolute: Largest |difference|; None where the answers have different shapes or kinds.
        relative: Largest |difference| against the number itself or, if that is larger, against
            the answer's root mean square; None likewise.
        is_rounding: Whether that is no more than rounding. Whole numbers and words are exact.
    """

    absolute: float | None = 0.0
    relative: float | None = 0.0
    is_rounding: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether every bit is the same."""
        return self.absolute == 0.0

    def worst(self, other: "Difference") -> "Difference":
        """Of two comparisons."""
        return Difference(
            _larger(self.absolute, other.absolute),
            _larger(self.relative, other.relative),
            self.is_rounding and other.is_rounding,
        )


NONE = Difference()
INCOMPARABLE = Difference(None, None, is_rounding=False)


def compare(expected: Array, got: Array) -> Difference:
    """An answer and what it should be."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return INCOMPARABLE
    if expected.dtype.kind not in "fiub":
        return NONE if bool((expected == got).all()) else INCOMPARABLE
    is_real = expected.dtype.kind == "f"
    if not expected.size or np.array_equal(expected, got, equal_nan=is_real):
        return NONE
    a, b = expected.astype(np.float64), got.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return INCOMPARABLE
    a, b = np.where(same, 0.0, a), np.where(same, 0.0, b)
    distance = np.abs(a - b)
    finite = expected[np.isfinite(expected)].astype(np.float64)
    magnitude = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    relative = float((distance / np.maximum(np.abs(a), magnitude or 1.0)).max())
    is_rounding = is_real and relative <= TOLERANCES[expected.dtype.str[1:]]
    return Difference(float(distance.max()), relative, is_rounding)


def _larger(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else max(a, b)
