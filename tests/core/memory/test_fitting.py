"""Sizes that were measured at tiny shapes, and the polynomial behind them."""

import pytest
from hypothesis import given, settings, strategies as st

from xirang.core.memory.fitting import Fits, Measured, fit
from xirang.core.memory.polynomial import PLAIN, Factor, Polynomial, Term, made

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


@pytest.mark.parametrize("size_of", [lambda b, n: b * n // 3, lambda b, n: 64 * -(-b * n // 50)])
def test_what_follows_no_polynomial_is_covered_where_it_was_seen(size_of):
    samples = measured(size_of)
    found, is_exact = fit(samples)
    assert not is_exact
    assert all(found.bytes_at(s.rows, s.length) >= s.size_bytes for s in samples)


def test_few_samples_are_taken_for_the_one_term_that_they_follow():
    found, _ = fit(measured(lambda b, n: 96 * b * n * n, [(1, 128), (2, 128), (1, 256)]))
    assert found.bytes_at(32, 512) == 96 * 32 * 512 * 512


def test_no_sample_is_no_size():
    assert fit([])[0].bytes_at(9, 9) == 0


# ------------------------------------------------------------------ strides, and several lengths

WIDTHS = (12, 13, 14, 15, 17, 20, 24, 48, 84)


def star(axes):
    """Shapes around one, along each axis, and a few across."""
    base, around = (WIDTHS[0],) * axes, (WIDTHS[6], WIDTHS[5], WIDTHS[7], WIDTHS[4])
    shapes = {(rows, base) for rows in (1, 2, 3)}
    for axis in range(axes):
        shapes |= {(1, (*base[:axis], n, *base[axis + 1 :])) for n in WIDTHS}
    for first in range(axes):
        for n in around:
            across = [*base]
            across[first] = n
            shapes.add((2, tuple(across)))
            for second in range(first + 1, axes):
                for m in around:
                    across = [*base]
                    across[first], across[second] = n, m
                    shapes |= {(rows, tuple(across)) for rows in (1, 2)}
    return sorted(shapes)


@st.composite
def factors(draw, axis):
    stride = draw(st.sampled_from([1, 1, 2, 3, 4, 8]))
    return Factor(axis, draw(st.sampled_from([0, stride - 1, stride // 2])), stride)


@st.composite
def truths(draw, axes):
    """As kernels have it: each length in one stride, in a few powers."""
    along = [draw(factors(axis)) for axis in range(axes)]
    powers = [draw(st.sampled_from([(0,), (1,), (1,), (1,), (2,), (0, 1)])) for _ in along]
    found = {}
    for has_rows in draw(st.sampled_from([(True,), (True,), (False,), (False, True)])):
        chosen = [()]
        for factor, own in zip(along, powers, strict=True):
            chosen = [(*parts, *[factor] * power) for parts in chosen for power in own]
        for parts in chosen:
            found[Term(has_rows, tuple(sorted(parts)))] = draw(st.integers(1, 5000))
    return made(found)


@settings(deadline=None, max_examples=60)
@given(truths(2), st.integers(1, 500), st.tuples(*[st.integers(12, 999)] * 2))
def test_two_lengths_that_go_in_strides_are_told_from_a_few_tiny_runs(truth, rows, lengths):
    found, is_exact = fit(measured(truth.bytes_at, star(2)))
    assert is_exact
    # What the samples do not tell apart is rounded up: a step of one at most.
    expected = truth.bytes_at(rows, lengths)
    assert found.bytes_at(rows, lengths) >= expected
    assert found.bytes_at(rows, (480, 960)) == truth.bytes_at(rows, (480, 960))


@settings(deadline=None, max_examples=20)
@given(truths(3))
def test_three_lengths(truth):
    found, is_exact = fit(measured(truth.bytes_at, star(3)))
    assert is_exact
    assert found.bytes_at(7, (480, 240, 960)) == truth.bytes_at(7, (480, 240, 960))


def test_rounding_up_is_told_from_rounding_down():
    for shift in range(8):
        truth = made({Term(has_rows=True, factors=(Factor(0, shift, 8),)): 64})
        shapes = [(b, n) for b in (1, 2, 3) for n in (*range(16, 25), 39, 77)]
        found, is_exact = fit(measured(truth.bytes_at, shapes))
        assert is_exact
        assert [found.bytes_at(2, n) for n in range(8, 99)] == [
            truth.bytes_at(2, n) for n in range(8, 99)
        ]


def test_lengths_that_never_move_are_no_part_of_it():
    found, is_exact = fit(measured(lambda b, _: 40 * b, [(b, (48, 320)) for b in (1, 2, 3)]))
    assert is_exact
    assert found.bytes_at(9, (1, 1)) == 360


def test_what_several_lengths_follow_inexactly_is_covered_where_it_was_seen():
    samples = measured(lambda b, n: b * n[0] * n[1] // 7 + 1, star(2))
    found, is_exact = fit(samples)
    assert not is_exact
    assert all(found.bytes_at(s.rows, s.length) >= s.size_bytes for s in samples)


def test_multiples_are_found_once():
    fits = Fits()
    one = fits(measured(lambda b, n: 4 * b * n))
    assert fits(measured(lambda b, n: 12 * b * n))[0].bytes_at(5, 7) == 3 * one[0].bytes_at(5, 7)
    assert len(fits._known) == 1
    assert one[0].terms == PLAIN
