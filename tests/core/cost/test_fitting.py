"""The fit is the best non-negative law, whatever was measured."""

from itertools import product

from hypothesis import given, strategies as st

from xirang.core.cost import CostModel, Sample
from xirang.core.cost.fitting import fitted


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
