"""Polynomials in rows and length: found from samples, exact, and never too small."""

import pytest
from hypothesis import given, strategies as st

from xirang.core.memory.polynomial import Measured, Polynomial, fit, terms_of, total

SHAPES = [(rows, length) for rows in (1, 2, 3) for length in (16, 32, 48, 64)]
coefficients = st.tuples(*[st.integers(0, 500)] * 6)


def measured(size_of, shapes=SHAPES):
    return [Measured(b, n, size_of(b, n)) for b, n in shapes]


@given(coefficients, st.integers(1, 10_000), st.integers(1, 10_000))
def test_tiny_samples_give_the_size_at_any_shape(numerators, rows, length):
    truth = Polynomial(numerators)
    found, is_exact = fit(measured(truth.bytes_at))
    assert is_exact
    assert found.bytes_at(rows, length) == truth.bytes_at(rows, length)


@given(coefficients, coefficients)
def test_what_covers_is_nowhere_smaller(one, other):
    first, second = Polynomial(one), Polynomial(other, 2)
    if first.covers(second):
        shapes = [*SHAPES, (1, 1), (1, 2), (2, 1), (500, 1), (1, 500)]
        assert all(first.bytes_at(b, n) >= second.bytes_at(b, n) for b, n in shapes)


@given(coefficients, st.integers(1, 64), st.integers(0, 10**7))
def test_the_largest_batch_fits_and_one_row_more_does_not(numerators, length, size_bytes):
    found = Polynomial(numerators)
    rows = found.rows_max(length, size_bytes)
    if rows is None:
        assert found.bytes_at(1, length) == found.bytes_at(99, length) <= size_bytes
        return
    assert rows == 0 or found.bytes_at(rows, length) <= size_bytes
    assert found.bytes_at(rows + 1, length) > size_bytes


def test_a_negative_coefficient_that_matters_not_covers():
    # 4 (L - 1) is 0 at L = 1, never below.
    assert Polynomial((-4, 0, 4, 0, 0, 0)).covers(Polynomial((0, 0, 0, 0, 0, 0)))
    assert not Polynomial((-5, 0, 4, 0, 0, 0)).covers(Polynomial((0, 0, 0, 0, 0, 0)))


@pytest.mark.parametrize("size_of", [lambda b, n: b * n // 3, lambda b, n: 64 * -(-b * n // 50)])
def test_what_follows_no_polynomial_is_covered_where_it_was_seen(size_of):
    samples = measured(size_of)
    found, is_exact = fit(samples)
    assert not is_exact
    assert all(found.bytes_at(s.rows, s.length) >= s.size_bytes for s in samples)


def test_few_samples_are_taken_for_the_one_term_that_they_follow():
    found, is_exact = fit(measured(lambda b, n: 96 * b * n * n, [(1, 128), (2, 128), (1, 256)]))
    assert not is_exact
    assert found.bytes_at(32, 512) == 96 * 32 * 512 * 512


def test_no_sample_is_no_size():
    assert fit([])[0].bytes_at(9, 9) == 0


def test_sums_and_multiples():
    half = Polynomial((1, 0, 0, 0, 0, 0), 2)
    assert total([half, half]) == Polynomial((1, 0, 0, 0, 0, 0))
    assert half.bytes_at(1, 1) == 1
    assert Polynomial((0, 0, 0, 64, 0, 0)).is_multiple_of(64)
    assert not Polynomial((0, 0, 0, 32, 0, 0)).is_multiple_of(64)
    assert Polynomial((0, 0, 0, 32, 0, 0)).plus(63).bytes_at(1, 1) == 95
    assert terms_of(2, 3) == (1, 2, 3, 6, 18, 9)
