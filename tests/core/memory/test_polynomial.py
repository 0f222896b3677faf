"""Polynomials in rows and lengths: sums, products, and which is nowhere smaller."""

from fractions import Fraction

import msgspec
from hypothesis import given, strategies as st

from xirang.core.memory.polynomial import NOTHING, Factor, Polynomial, Term, made, total, upper

SHAPES = [(rows, length) for rows in (1, 2, 3) for length in (16, 32, 48, 64)]
coefficients = st.tuples(*[st.integers(0, 500)] * 6)

factors = st.builds(Factor, st.integers(0, 1), st.integers(0, 3), st.integers(1, 4))
terms = st.builds(Term, st.booleans(), st.lists(factors, max_size=2).map(sorted).map(tuple))
of_two = st.dictionaries(terms, st.integers(-20, 500), max_size=5).map(made)
pairs = st.tuples(st.integers(1, 99), st.integers(1, 99))


@given(coefficients, coefficients)
def test_what_covers_is_nowhere_smaller(one, other):
    first, second = Polynomial(one), Polynomial(other, 2)
    if first.covers(second):
        shapes = [*SHAPES, (1, 1), (1, 2), (2, 1), (500, 1), (1, 500)]
        assert all(first.bytes_at(b, n) >= second.bytes_at(b, n) for b, n in shapes)


@given(of_two, of_two, st.integers(1, 50), pairs)
def test_what_covers_is_nowhere_smaller_whatever_the_strides(one, other, rows, lengths):
    assert one.covers(one)
    both = total([one, other])
    if both.covers(other):
        assert both.bytes_at(rows, lengths) >= other.bytes_at(rows, lengths)


@given(st.lists(of_two, max_size=4), st.integers(1, 50), pairs)
def test_a_sum_has_the_sum_of_their_sizes(parts, rows, lengths):
    def value(one):
        fixed, each, denominator = one.line_at(lengths)
        return Fraction(fixed + each * rows, denominator)

    assert value(total(parts)) == sum(map(value, parts))
    assert value(total(parts).times(Fraction(3, 7))) == sum(map(value, parts)) * Fraction(3, 7)


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


def test_strides_round_up_or_down():
    down, up = (Term(factors=(Factor(1, shift, 4),)) for shift in (0, 3))
    assert [made({down: 1}).bytes_at(1, (0, n)) for n in (3, 4, 5)] == [0, 1, 1]
    assert [made({up: 1}).bytes_at(1, (0, n)) for n in (3, 4, 5)] == [1, 1, 2]
    # It is 1 at least, where rounding down may leave nothing.
    assert made({up: 3}).covers(made({Term(): 3}))
    assert not made({down: 3}).covers(made({Term(): 3}))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 9), st.integers(1, 3)), min_size=1))
def test_lines_that_others_cover_say_nothing(lines):
    kept = upper(lines)
    for rows in (0, 1, 2, 50):
        values = [max(Fraction(a + b * rows, d) for a, b, d in some) for some in (lines, kept)]
        assert values[0] == values[1]


def test_a_polynomial_goes_through_a_recording():
    found = made({Term(has_rows=True, factors=(Factor(1, 3, 4), Factor(1, 3, 4))): Fraction(7, 2)})
    found.bytes_at(1, (1, 1))
    told = msgspec.json.encode(found)
    assert msgspec.json.decode(told, type=Polynomial) == found
    # As earlier recordings have them: of rows and one length.
    assert msgspec.json.decode(
        b'{"numerators": [0, 5, 0, 0, 0, 0]}', type=Polynomial
    ) == Polynomial((0, 5, 0, 0, 0, 0))


def test_sums_and_multiples():
    half = Polynomial((1, 0, 0, 0, 0, 0), 2)
    assert total([half, half]) == Polynomial((1, 0, 0, 0, 0, 0))
    assert total([]) == NOTHING
    assert half.bytes_at(1, 1) == 1
    assert Polynomial((0, 0, 0, 64, 0, 0)).is_multiple_of(64)
    assert not Polynomial((0, 0, 0, 32, 0, 0)).is_multiple_of(64)
    assert Polynomial((0, 0, 0, 32, 0, 0)).plus(63).bytes_at(1, 1) == 95
    assert Polynomial((1, 10, 100, 1000, 10_000, 100_000)).bytes_at(2, 3) == 1086321
