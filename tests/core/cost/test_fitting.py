"""The fit is the best non-negative law, whatever was measured."""

from itertools import product

from hypothesis import given, strategies as st

from xirang.core.cost import CostModel, Sample
from xirang.core.cost.fitting import UNSURE_MAX, fitted, uncertainty


def test_fit_is_the_best_non_negative_law_on_a_fine_grid():
    # Falling times want a negative weight, which no law may have.
    samples = [Sample(rows, 1, ran_ns) for rows, ran_ns in ((1, 1000), (2, 900), (4, 1100))]

    def error(call_ns, row_ns):
        return sum((1 - (call_ns + row_ns * s.rows) / s.ran_ns) ** 2 for s in samples)

    w0, w1, w2, w3 = fitted(samples)
    assert min(w0, w1, w2, w3) >= 0
    finest = min(error(a, b) for a, b in product(range(0, 1200, 5), range(0, 600, 5)))
    assert error(w0, w1 + w2 + w3) <= finest * 1.02


runs = st.tuples(st.integers(1, 128), st.integers(1, 512), st.integers(1, 10**10))


@given(st.lists(runs, min_size=1, max_size=20))
def test_fit_takes_whatever_was_measured(measured):
    cost = CostModel()
    cost.fit([Sample(*run) for run in measured])
    assert min(cost.weights) >= 0
    assert cost.observations == len(measured)


def sure(samples):
    """Variances of the weights, each in what would explain all time alone."""
    scales = [samples[0].ran_ns / f for f in (1.0, 1.0, 8.0, 64.0)]
    covariance = uncertainty(samples, fitted(samples), scales)
    assert all(covariance[i][j] == covariance[j][i] for i in range(4) for j in range(4))
    return [covariance[i][i] for i in range(4)]


def test_a_law_is_the_less_sure_the_worse_it_fits():
    sizes = [(rows, length) for rows in (1, 2, 4, 8) for length in (8, 32, 128)]
    times_ns = [1_000_000 + 50_000 * rows * length for rows, length in sizes]
    quiet = [Sample(*size, ran_ns) for size, ran_ns in zip(sizes, times_ns, strict=True)]
    torn = [Sample(s.rows, s.length, s.ran_ns * (1 + i % 3)) for i, s in enumerate(quiet)]
    assert all(a < b for a, b in zip(sure(quiet), sure(torn), strict=True))


def test_what_samples_say_nothing_of_is_unknown_within_a_bound():
    alone = [Sample(1, 8, 1_000_000)]
    assert all(0.5 * UNSURE_MAX**2 < variance <= UNSURE_MAX**2 for variance in sure(alone))
