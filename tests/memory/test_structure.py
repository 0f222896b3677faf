"""A plan made at one shape holds at every other."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.native import library, needs_native

from xirang.core.memory.law import Regime
from xirang.core.memory.planner import plan
from xirang.core.memory.polynomial import Factor, Polynomial, Term, made
from xirang.core.memory.validate import fault_of
from xirang.memory.structure import ALIGNMENT, Structure

pytestmark = needs_native

coefficients = st.tuples(*[st.sampled_from([0, 0, 1, 3, 64, 1000])] * 6)
polynomials = st.builds(Polynomial, coefficients, st.sampled_from([1, 1, 1, 2, 3]))


@st.composite
def regimes(draw):
    count = draw(st.integers(1, 12))
    starts = tuple(draw(st.integers(0, 20)) for _ in range(count))
    ends = tuple(start + draw(st.integers(1, 10)) for start in starts)
    return Regime(starts, ends, tuple(draw(polynomials) for _ in range(count)))


shapes = st.tuples(st.integers(1, 64), st.integers(1, 512))


@settings(deadline=None)
@given(regimes(), shapes, st.lists(shapes, min_size=1, max_size=5))
def test_no_two_that_live_together_overlap_at_any_shape(regime, planned_at, others):
    structure = Structure(library(), regime, *planned_at)
    for rows, length in [planned_at, *others]:
        offsets, sizes = structure.offsets(rows, length)
        lifetimes = regime.lifetimes(rows, length).aligned(ALIGNMENT)
        assert sizes.tolist() == list(lifetimes.sizes_bytes)
        height = structure.height_bytes(rows, length)
        assert fault_of(lifetimes, offsets.tolist(), height) is None
        assert height >= lifetimes.bound_bytes
        assert all(offset % ALIGNMENT == 0 for offset in offsets.tolist())


@settings(deadline=None)
@given(regimes(), shapes)
def test_at_its_own_shape_it_is_no_higher_than_the_plan(regime, shape):
    lifetimes = regime.lifetimes(*shape).aligned(ALIGNMENT)
    structure = Structure(library(), regime, *shape, steps_max=10_000)
    assert structure.height_bytes(*shape) <= plan(lifetimes, steps_max=10_000).height_bytes


factors = st.builds(Factor, st.integers(0, 1), st.integers(0, 3), st.sampled_from([1, 1, 2, 4]))
terms = st.builds(Term, st.booleans(), st.lists(factors, max_size=3).map(sorted).map(tuple))
of_two = st.dictionaries(terms, st.sampled_from([1, 64, 1000]), max_size=3).map(made)
pairs = st.tuples(st.integers(1, 64), st.tuples(st.integers(1, 300), st.integers(1, 300)))


@st.composite
def regimes_of_two(draw):
    plain = draw(regimes())
    return Regime(plain.starts, plain.ends, tuple(draw(of_two) for _ in plain.slots))


@settings(deadline=None)
@given(regimes_of_two(), pairs, st.lists(pairs, min_size=1, max_size=5))
def test_nor_at_any_shape_of_two_lengths(regime, planned_at, others):
    structure = Structure(library(), regime, *planned_at, steps_max=10_000)
    for rows, lengths in [planned_at, *others, planned_at]:
        offsets, sizes = structure.offsets(rows, lengths)
        lifetimes = regime.lifetimes(rows, lengths).aligned(ALIGNMENT)
        assert sizes.tolist() == list(lifetimes.sizes_bytes)
        height = structure.height_bytes(rows, lengths)
        assert fault_of(lifetimes, offsets.tolist(), height) is None


@pytest.mark.parametrize("lengths", [(1 << 20, 1 << 20), (1 << 40, 3), (1 << 62, 1 << 62)])
def test_nor_do_sizes_of_two_lengths_wrap(lengths):
    square = Term(has_rows=True, factors=(Factor(0), Factor(0), Factor(1), Factor(1)))
    slots = (made({square: 1 << 20}), made({Term(): 64}))
    structure = Structure(library(), Regime((0, 0), (1, 1), slots), 1, (1, 1))
    assert structure.height_bytes(1, (2, 3)) == 36 * (1 << 20) + 64
    assert structure.height_bytes(1 << 20, lengths) >= 1 << 40


@pytest.mark.parametrize("shape", [(1 << 20, 1 << 20), (1 << 40, 1 << 20), (1 << 62, 1 << 62)])
def test_sizes_that_pass_64_bits_stay_huge_and_never_wrap(shape):
    slots = (Polynomial((1, 1 << 40, 0, 0, 0, 0)), Polynomial((0, 0, 0, 0, 1 << 40, 0)))
    structure = Structure(library(), Regime((0, 0), (1, 1), slots), 1, 1)
    assert structure.height_bytes(*shape) >= 1 << 40


def test_a_run_that_allocates_nothing_has_a_plan_too():
    assert Structure(library(), Regime((), (), ()), 1, 1).height_bytes(5, 5) == 0
