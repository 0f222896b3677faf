"""The best non-negative law for measured runs, by least squares on their relative error.

    t(rows, length) = w0 + w1·rows + w2·rows·length + w3·rows·length²,   all w ≥ 0

Relative, so that short runs count as much as long ones. With four weights the exact answer is the
best of the fifteen unconstrained fits on subsets of them that came out non-negative.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

SCATTER_MIN = 0.05
"""However well a law fits the few samples that it was fitted to."""

DOUBT = 2.0
"""Traffic differs from samples, which were taken alone, by so many times their scatter."""

UNSURE_MAX = 0.5
"""What samples say nothing of is unknown by this share of what would explain all time alone."""

Vector = list[float]
Matrix = list[list[float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured run: rows × length took ran_ns."""

    rows: int
    length: int
    ran_ns: int


def fitted(samples: Sequence[Sample]) -> Vector:
    """w0…w3 for these samples, of which there must be one."""
    rows = relative(samples)
    best, best_error = None, float("inf")
    for columns in _subsets():
        weights = _solve_least_squares(rows, columns)
        if weights is None or min(weights) < 0:
            continue
        error = sum((1 - dot(weights, row)) ** 2 for row in rows)
        # A simpler law wins a tie: an extra weight must earn a percent of the error.
        if error < best_error * 0.99 - 1e-12:
            best, best_error = weights, error
    assert best is not None
    return best


def uncertainty(samples: Sequence[Sample], weights: Vector, scales: Vector) -> Matrix:
    """Covariance of a fitted law, each weight counted in its scale.

    Args:
        samples: What it was fitted to.
        weights: The law.
        scales: Units of the weights.
    """
    rows = relative(samples)
    errors = [1.0 - dot(weights, row) for row in rows]
    spare = max(1, len(rows) - sum(weight > 0 for weight in weights))
    scatter = max(SCATTER_MIN, (sum(error * error for error in errors) / spare) ** 0.5)
    variance = (DOUBT * scatter) ** 2
    scaled = [[entry * scale for entry, scale in zip(row, scales, strict=True)] for row in rows]
    size = range(4)
    known = [
        [sum(row[i] * row[j] for row in scaled) / variance + (i == j) / UNSURE_MAX**2 for j in size]
        for i in size
    ]
    inverse = []
    for k in size:
        column = _eliminate([[*known[i], float(i == k)] for i in size])
        assert column is not None, "never singular, since nothing is unknown without a bound"
        inverse.append(column)
    return [[(inverse[i][j] + inverse[j][i]) / 2 for j in size] for i in size]


def relative(samples: Sequence[Sample]) -> Matrix:
    """What the weights of each sample are multiplied by, against the time it took."""
    return [[f / s.ran_ns for f in features(s.rows, s.length)] for s in samples]


def features(rows: int, length: int) -> Vector:
    """What w0…w3 are multiplied by."""
    return [1.0, float(rows), float(rows * length), float(rows * length * length)]


def dot(a: Vector, b: Vector) -> float:
    """The inner product of four."""
    # Written out, because every finished run asks for it half a dozen times.
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


def _subsets() -> Iterator[tuple[int, ...]]:
    for size in (1, 2, 3, 4):
        yield from combinations(range(4), size)


def _solve_least_squares(rows: Matrix, columns: tuple[int, ...]) -> Vector | None:
    """Weights (zero outside `columns`) that bring Σ (1 − w·row)² to its least; None if singular."""
    scales = [max(abs(row[c]) for row in rows) or 1.0 for c in columns]
    size = range(len(columns))
    table = [
        [
            sum(row[columns[i]] * row[columns[j]] for row in rows) / (scales[i] * scales[j])
            for j in size
        ]
        + [sum(row[columns[i]] for row in rows) / scales[i]]
        for i in size
    ]
    solved = _eliminate(table)
    if solved is None:
        return None
    weights = [0.0] * 4
    for i, column in enumerate(columns):
        weights[column] = solved[i] / scales[i]
    return weights


def _eliminate(table: Matrix) -> Vector | None:
    """Gauss–Jordan with partial pivoting on an augmented matrix."""
    size = len(table)
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(table[r][i]))
        if abs(table[pivot][i]) < 1e-9:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        for r in range(size):
            if r != i:
                factor = table[r][i] / table[i][i]
                table[r] = [a - factor * b for a, b in zip(table[r], table[i], strict=True)]
    return [table[i][size] / table[i][i] for i in range(size)]
