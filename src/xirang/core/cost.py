"""How long a run takes: a small law, fitted at load and kept up to date by every run.

    t(rows, length) = w0 + w1·rows + w2·rows·length + w3·rows·length²,   all w ≥ 0

w0 is what a call costs however small it is, w2 the work of an element, w3 that of attention.
For a fixed length the law is affine in rows, which keeps the optimal partition exact and fast
(see batching/partition.py). Fitting is least squares on the *relative* error, so that short
runs count as much as long ones; learning is recursive least squares with a forgetting factor
and Huber weights (P. J. Huber, Robust Statistics, 1981), so that neither drift nor a rare slow
run bends it for long. Times are nanoseconds; the weights are floats, what is asked for is int.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

Vector = list[float]
Matrix = list[list[float]]

FORGETTING = 0.98  # a changed machine is relearned in about a hundred runs
HUBER = 1.5  # residuals beyond this many typical ones count less
COLD_PRIOR = (1e6, 0.0, 5e4, 0.0)  # only the proportion matters: one call ≈ twenty elements
COLD_RUNS = 5  # fewer observations than this decide nothing about deadlines
RESIDUALS = 512
_TRIANGLE = tuple((i, j) for i in range(4) for j in range(i + 1))


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured run: rows × length took ran_ns."""

    rows: int
    length: int
    ran_ns: int


class CostModel:
    """Predicts a run's time and learns from each that ended."""

    def __init__(self) -> None:
        self._weights: Vector = list(COLD_PRIOR)
        self._scales: Vector = [COLD_PRIOR[0], 1e4, 1e4, 1e2]
        self._covariance = _identity(1.0)
        self._residual_scale = 0.15
        self._ratios: list[float] = []  # actual ÷ predicted, a ring
        self._margin: tuple[int, float] | None = None  # when it was computed, and the margin
        self.observations = 0

    @property
    def is_cold(self) -> bool:
        """Whether too little was seen to refuse or expire anybody on a prediction."""
        return self.observations < COLD_RUNS

    @property
    def weights(self) -> tuple[float, float, float, float]:
        """w0…w3 in nanoseconds."""
        w0, w1, w2, w3 = self._weights
        return w0, w1, w2, w3

    def call_ns(self) -> float:
        """w0, what a run costs before its first row."""
        return self._weights[0]

    def row_ns(self, length: int) -> float:
        """What one row of a run of this target length costs."""
        _, w1, w2, w3 = self._weights
        cost = w1 + length * (w2 + length * w3)
        return cost if cost > 0.0 else 1e-3 * length

    def predict_ns(self, *, rows: int, length: int) -> int:
        """The expected time of a run."""
        return round(self.call_ns() + rows * self.row_ns(length))

    def margin_wait(self) -> float:
        """How much longer than predicted a run takes in the worst of a hundred, ≥ 0.

        For voluntary waiting only: a batch sized by it would be too small.
        """
        # Sorting 512 ratios at each decision would cost more than it tells: refresh now and then.
        if self._margin is None or self.observations - self._margin[0] >= 32:
            self._margin = (self.observations, _margin(self._ratios))
        return self._margin[1]

    def fit(self, samples: Sequence[Sample]) -> None:
        """Replace the law by the best one for these samples.

        Non-negative least squares on relative error. With four weights the exact answer is the
        best of the fifteen unconstrained fits on subsets of them that came out non-negative.
        """
        assert samples
        rows = [[f / s.ran_ns for f in _features(s.rows, s.length)] for s in samples]
        best, best_error = None, float("inf")
        for columns in _subsets():
            weights = _solve_least_squares(rows, columns)
            if weights is None or min(weights) < 0:
                continue
            error = sum((1 - _dot(weights, row)) ** 2 for row in rows)
            # A simpler law wins a tie: an extra weight must earn a percent of the error.
            if error < best_error * 0.99 - 1e-12:
                best, best_error = weights, error
        assert best is not None
        self._learn(best)
        means = [sum(row[i] for row in rows) / len(rows) for i in range(4)]
        self._scales = [1.0 / m if m > 0 else 1.0 for m in means]
        self._covariance = _identity(0.02)
        self.observations += len(samples)

    def observe(self, *, rows: int, length: int, ran_ns: int) -> None:
        """Learn from one finished run."""
        predicted = max(1.0, self.call_ns() + rows * self.row_ns(length))
        if self.is_cold:
            self._rescale(max(1, ran_ns) / predicted)
            return
        self._remember(ran_ns / predicted)
        features = _features(rows, length)
        x = [f * s / predicted for f, s in zip(features, self._scales, strict=True)]
        residual = (ran_ns - _dot(self._weights, features)) / predicted
        weight = self._huber_weight(abs(residual))
        px = [_dot(row, x) for row in self._covariance]
        gain = weight / (FORGETTING + weight * _dot(x, px))
        step = gain * residual
        weights, scales = self._weights, self._scales
        self._learn([weights[i] + step * px[i] * scales[i] for i in range(4)])
        self._shrink(px, gain)
        self.observations += 1

    def _learn(self, weights: Vector) -> None:
        # Projected at every step: a weight left negative would leave its positive partner too
        # large in what is predicted, with no residual to correct it.
        self._weights = [max(0.0, weight) for weight in weights]

    def _rescale(self, ratio: float) -> None:
        # Of the prior only the proportions are meant: its size is the geometric mean of what was
        # measured. Learning step by step from a size that is far off would take for ever, because
        # every run would look like an outlier.
        self.observations += 1
        factor = ratio ** (1.0 / self.observations)
        self._learn([weight * factor for weight in self._weights])
        self._scales = [scale * factor for scale in self._scales]

    def _huber_weight(self, size: float) -> float:
        limit = HUBER * self._residual_scale
        step = 0.02 if size > self._residual_scale else -0.02  # a running median of |residual|
        self._residual_scale = min(1.0, max(0.02, self._residual_scale * (1 + step)))
        return 1.0 if size <= limit else limit / size

    def _shrink(self, px: Vector, gain: float) -> None:
        # Forgetting inflates directions that traffic does not excite; the bound stops that.
        covariance = self._covariance
        trace = covariance[0][0] + covariance[1][1] + covariance[2][2] + covariance[3][3]
        forget = FORGETTING if trace < 4.0 else 1.0
        # One triangle is computed and mirrored: a difference between the two that comes from
        # rounding would grow by 1/FORGETTING a run, and wreck the law after two thousand.
        for i, j in _TRIANGLE:
            entry = (covariance[i][j] - gain * px[i] * px[j]) / forget
            covariance[i][j] = covariance[j][i] = entry

    def _remember(self, ratio: float) -> None:
        if len(self._ratios) < RESIDUALS:
            self._ratios.append(ratio)
        else:
            self._ratios[self.observations % RESIDUALS] = ratio


def _margin(ratios: Sequence[float]) -> float:
    if len(ratios) < 20:
        return 0.5
    ordered = sorted(ratios)
    # The conformal index ⌈(n+1)(1−ε)⌉ with ε = 1 %.
    worst = ordered[min(len(ordered) - 1, int(0.99 * (len(ordered) + 1)))] - 1
    return min(5.0, max(0.05, worst))


def _features(rows: int, length: int) -> Vector:
    return [1.0, float(rows), float(rows * length), float(rows * length * length)]


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


def _dot(a: Vector, b: Vector) -> float:
    # Written out, because every finished run asks for it half a dozen times.
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


def _identity(scale: float) -> Matrix:
    return [[scale if i == j else 0.0 for j in range(4)] for i in range(4)]
