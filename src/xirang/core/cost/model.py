"""How long a run takes: a small law, fitted at load and kept up to date by every run.

    t(rows, length) = w0 + w1·rows + w2·rows·length + w3·rows·length²,   all w ≥ 0

w0 is what a call costs however small it is, w2 the work of an element, w3 that of attention.
For a fixed length the law is affine in rows, which keeps the optimal partition exact and fast
(see batching/partition.py). Learning is a Kalman filter on the *relative* error: a run teaches the
less, the more runs scatter and the better the law is known. The machine's speed may change soon,
the proportions of the weights hardly ever: a law that forgot both alike would take a busy hour's
noise for a dearer call. Huber weights (P. J. Huber, Robust Statistics, 1981) keep a rare slow run
from bending it; slow runs in a row are no rare ones, and set it to the machine's new speed.

One cost model belongs to a model on a kind of device; all its instances teach it. Times are
nanoseconds; the weights are floats, what is asked for is int.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappush, heapreplace
from math import exp, log
from operator import mul, truediv

from xirang.core.cost.fitting import (
    Matrix,
    Sample,
    Vector,
    dot,
    features,
    fitted,
    relative,
    uncertainty,
)
from xirang.core.cost.margins import Margins

DRIFT_SPEED = 0.004  # from run to run the machine gets faster or slower by about this share
DRIFT_SHAPE = 0.0005  # and each weight for itself by this
SPEED_UNSURE, SHAPE_UNSURE = 0.2, 0.5  # what is known no better than this does not get any worse
SHAPE_JUMP = 0.05  # a change of speed need not be the same for all weights
WEIGHT_LEAST = 0.02  # of what would explain all time alone: even a weight of zero may grow again
SCATTER_MIN = 0.03  # runs agree no better than this, however quiet the machine
SCATTER_FITTED = 0.05  # a typical |residual| where sizes were measured and nothing has run yet
HUBER = 1.5  # a run that is slower by this many typical residuals counts less
HUBER_FAST = 4.0  # one that is faster, by so many: much makes a run slow, nothing makes it fast
COLD_PRIOR = (1e6, 0.0, 5e4, 0.0)  # only the proportion matters: one call ≈ twenty elements
COLD_RUNS = 5  # fewer observations than this decide nothing about deadlines
SURPRISES = 10  # this many residuals of one sign that Huber would damp are a change of speed
TRIED_RUNS = 5  # a size is tried when so many runs were at least as large
TRUST = 1.25  # how far beyond the largest tried size a run may go


@dataclass(frozen=True, slots=True)
class CostState:
    """All that a cost model knows, to be kept and taken up again exactly.

    Attributes:
        weights: w0…w3.
        scales: By how much a weight moves for a residual of one.
        covariance: Variances of the scaled weights, row by row.
        residual_scale: A typical |residual|.
        surprises: Logarithms of the latest ratios that were surprising, all on one side.
        ratios: Actual ÷ predicted, the oldest first.
        observations: Runs seen.
        largest: Elements of the few largest runs.
        longest: The greatest target length of a run.
        is_measured: Whether a probe covered all sizes.
    """

    weights: tuple[float, ...]
    scales: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    residual_scale: float
    surprises: tuple[float, ...]
    ratios: tuple[float, ...]
    observations: int
    largest: tuple[int, ...]
    longest: int
    is_measured: bool


class CostModel:
    """Predicts a run's time and learns from each that ended.

    Attributes:
        observations: Runs that it has seen.
        revision: Another one whenever it predicts anything else than before.
    """

    def __init__(self) -> None:
        self._weights: Vector = list(COLD_PRIOR)
        self._scales: Vector = [COLD_PRIOR[0], 1e4, 1e4, 1e2]
        self._covariance = _identity(0.2)
        self._residual_scale = 0.15
        self._surprises: list[float] = []
        self._margins = Margins()
        self._largest: list[int] = []  # a heap: its first is the largest size that was tried
        self._longest = 1
        self._is_measured = False
        self.observations = 0
        self.revision = 0

    # ------------------------------------------------------------------ questions

    @property
    def is_cold(self) -> bool:
        """Whether too little was seen to refuse, expire or delay anybody on a prediction."""
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

    def margin_fit(self) -> float:
        """How much longer than predicted three of four runs take at most, ≥ 0: for sizing."""
        return self._margins.fit()

    def margin_wait(self) -> float:
        """How much longer than predicted a run takes in the worst of two hundred, ≥ 0.

        For voluntary waiting only: a batch sized by it would be too small.
        """
        return self._margins.wait()

    def trusted_elements(self) -> int | None:
        """Padded elements up to which the law may be believed; None if all sizes were measured.

        A little beyond what was tried, so that sizes grow while traffic asks for more; 0 as long
        as nothing was tried: a run of one request is never held back.
        """
        if self._is_measured:
            return None
        if len(self._largest) < TRIED_RUNS:
            return 0
        # By a row at least: a quarter of three rows is none.
        return max(int(self._largest[0] * TRUST), self._largest[0] + self._longest)

    # ------------------------------------------------------------------ learning

    def fit(self, samples: Sequence[Sample]) -> None:
        """Replace the law by the best one for these samples, which cover all sizes."""
        assert samples
        self._weights = fitted(samples)
        rows = relative(samples)
        means = [sum(row[i] for row in rows) / len(rows) for i in range(4)]
        self._scales = [1.0 / m if m > 0 else 1.0 for m in means]
        self._covariance = uncertainty(samples, self._weights, self._scales)
        self._residual_scale = SCATTER_FITTED
        self._is_measured = True
        for sample in samples:
            predicted = max(1, self.predict_ns(rows=sample.rows, length=sample.length))
            self._margins.add(max(1, sample.ran_ns) / predicted)
        self.observations += len(samples)
        self.revision += 1

    def observe(self, *, rows: int, length: int, ran_ns: int) -> None:
        """Learn from one finished run."""
        ran_ns = max(1, ran_ns)
        predicted = max(1.0, self.call_ns() + rows * self.row_ns(length))
        if not self._is_measured:
            self._note_size(rows, length)
        self.observations += 1
        self.revision += 1
        if self.observations <= COLD_RUNS:
            # Of the prior only the proportions are meant: its size is the geometric mean of what
            # was measured. Learning step by step from a size that is far off would take for ever,
            # because every run would look like an outlier.
            self.rescale((ran_ns / predicted) ** (1.0 / self.observations))
            return
        self._margins.add(ran_ns / predicted)
        inputs = features(rows, length)
        x = [shared / predicted for shared in map(mul, inputs, self._scales)]
        residual = (ran_ns - dot(self._weights, inputs)) / predicted
        weight = self._huber_weight(residual, ran_ns / predicted)
        px = [dot(row, x) for row in self._covariance]
        # Of a normal law the standard deviation is 1.48 typical residuals.
        noise = max(SCATTER_MIN, 1.48 * self._residual_scale) ** 2
        unsure = max(0.0, dot(x, px))
        gain = 1.0 / (noise / weight + unsure)
        known = list(map(truediv, self._weights, self._scales))
        learned = [u + gain * residual * p for u, p in zip(known, px, strict=True)]
        self._learn(self._likeliest(learned) if min(learned) < 0.0 else learned)
        self._doubt(px, gain, known, DRIFT_SPEED if unsure < SPEED_UNSURE**2 else 0.0)
        if len(self._surprises) >= SURPRISES:
            self._change_speed()

    def rescale(self, factor: float) -> None:
        """The machine is slower by this factor, whatever the size of a run."""
        self.revision += 1
        self._scales = [scale * factor for scale in self._scales]
        self._weights = [weight * factor for weight in self._weights]

    def _learn(self, known: Vector) -> None:
        self._weights = list(map(mul, known, self._scales))

    def _likeliest(self, known: Vector) -> Vector:
        """The likeliest scaled weights of which none is negative, if some of these are.

        They cannot just be cut off: those that made up for them would be left too large, with no
        residual to correct them.
        """
        covariance = self._covariance
        for _ in range(3):
            least = min(range(4), key=known.__getitem__)
            if known[least] >= 0.0:
                break
            share = known[least] / max(1e-12, covariance[least][least])
            known = [u - share * c for u, c in zip(known, covariance[least], strict=True)]
            known[least] = 0.0
        return [max(0.0, u) for u in known]

    def _huber_weight(self, residual: float, ratio: float) -> float:
        size = abs(residual)
        step = 0.02 if size > self._residual_scale else -0.02  # a running median of |residual|
        self._residual_scale = min(1.0, max(0.02, self._residual_scale * (1 + step)))
        usual = HUBER * self._residual_scale
        surprises = self._surprises
        if size <= usual:
            if surprises:
                surprises.pop()
            return 1.0
        surprise = log(ratio)
        if surprises and (surprises[0] > 0) != (surprise > 0):
            surprises.clear()
        surprises.append(surprise)
        limit = usual if residual > 0 else HUBER_FAST * self._residual_scale
        return min(1.0, limit / size)

    def _change_speed(self) -> None:
        ordered = sorted(self._surprises)
        self.rescale(exp(ordered[len(ordered) // 2]))
        self._doubt_shape(list(map(truediv, self._weights, self._scales)), SHAPE_JUMP)
        self._surprises.clear()

    def _doubt(self, px: Vector, gain: float, known: Vector, speed: float) -> None:
        """More is known by one run, and a little less than before it by the time that went by."""
        root = gain**0.5
        # Both factors of a product are treated alike, so that what rounding makes of an entry and
        # of its mirror image is the same. Written out, because every finished run comes by.
        t0, t1, t2, t3 = taught = [root * p for p in px]
        d0, d1, d2, d3 = drifted = [speed * u for u in known]
        self._covariance = [
            [
                row[0] - t * t0 + d * d0,
                row[1] - t * t1 + d * d1,
                row[2] - t * t2 + d * d2,
                row[3] - t * t3 + d * d3,
            ]
            for row, t, d in zip(self._covariance, taught, drifted, strict=True)
        ]
        self._doubt_shape(known, DRIFT_SHAPE)

    def _doubt_shape(self, known: Vector, share: float) -> None:
        covariance = self._covariance
        for i, weight in enumerate(known):
            least = weight if weight > WEIGHT_LEAST else WEIGHT_LEAST
            if covariance[i][i] < (SHAPE_UNSURE * least) ** 2:
                covariance[i][i] += (share * least) ** 2

    def _note_size(self, rows: int, length: int) -> None:
        self._longest = max(self._longest, length)
        if len(self._largest) < TRIED_RUNS:
            heappush(self._largest, rows * length)
        elif rows * length > self._largest[0]:
            heapreplace(self._largest, rows * length)

    # ------------------------------------------------------------------ keeping

    def state(self) -> CostState:
        """All that is known, as a value."""
        return CostState(
            weights=tuple(self._weights),
            scales=tuple(self._scales),
            covariance=tuple(map(tuple, self._covariance)),
            residual_scale=self._residual_scale,
            surprises=tuple(self._surprises),
            ratios=self._margins.ratios,
            observations=self.observations,
            largest=tuple(self._largest),
            longest=self._longest,
            is_measured=self._is_measured,
        )

    @classmethod
    def of(cls, state: CostState) -> "CostModel":
        """A cost model that goes on where another one was.

        Raises:
            ValueError: No cost model can be in such a state.
        """
        _check(state)
        cost = cls()
        cost._weights, cost._scales = list(state.weights), list(state.scales)
        cost._covariance = [list(row) for row in state.covariance]
        cost._residual_scale = state.residual_scale
        cost._surprises = list(state.surprises)
        cost._margins = Margins(state.ratios)
        cost._largest, cost._longest = list(state.largest), state.longest
        cost._is_measured = state.is_measured
        cost.observations = state.observations
        return cost


def _check(state: CostState) -> None:
    """Refuse what no cost model can have written: it would promise nonsense for long."""
    floats = [*state.weights, *state.scales, *state.ratios, *state.surprises]
    floats += [entry for row in state.covariance for entry in row]
    if not all(abs(number) < 1e300 for number in floats):
        raise ValueError("a cost model's numbers must be finite")
    if [len(state.weights), len(state.scales), *map(len, state.covariance)] != [4] * 6:
        raise ValueError("a cost model has four weights")
    if min(state.weights) < 0 or min(state.scales) <= 0 or min(state.ratios, default=1.0) < 0:
        raise ValueError("times must not be negative")
    if not 0.0 < state.residual_scale <= 1.0 or state.observations < 0 or state.longest < 1:
        raise ValueError("a cost model cannot have seen that")


def _identity(scale: float) -> Matrix:
    return [[scale if i == j else 0.0 for j in range(4)] for i in range(4)]
