"""The peak law: predicted before it runs, and the largest batch under a budget."""

from hypothesis import given, strategies as st

from xirang.core.memory.law import ROWS_END, Traced, law_of
from xirang.core.memory.lifetime import Lifetimes

STARTS, ENDS = (0, 1, 1, 2), (2, 3, 2, 4)
SHAPES = [(b, n) for b in (1, 2, 3) for n in (8, 16, 24)]


def sizes_of(rows, length):
    """Hidden states, attention scores, a constant, logits."""
    return (16 * rows * length, 8 * rows * length * length, 100, 4 * rows)


def traced(rows, length, ends=ENDS):
    return Traced(rows, length, Lifetimes(STARTS, ends, sizes_of(rows, length)))


def law(**options):
    return law_of([traced(*shape) for shape in SHAPES], **options)


@given(st.integers(1, 300), st.integers(1, 600))
def test_the_peak_is_that_of_the_lifetimes(rows, length):
    truth = Lifetimes(STARTS, ENDS, sizes_of(rows, length))
    assert law().peak_bytes(rows, length) == truth.bound_bytes
    assert law().regimes[0].lifetimes(rows, length) == truth


@given(st.integers(1, 600), st.integers(0, 10**8))
def test_the_largest_batch_fits_and_one_row_more_does_not(length, size_bytes):
    found = law()
    rows = found.rows_max(length, size_bytes)
    assert rows == 0 or found.peak_bytes(rows, length) <= size_bytes
    assert found.peak_bytes(rows + 1, length) > size_bytes


def test_the_peak_of_several_regimes_is_that_of_the_worst():
    longer = (4, 3, 2, 4)
    found = law_of([traced(*s) for s in SHAPES] + [traced(*s, ends=longer) for s in SHAPES])
    assert len(found.regimes) == 2
    for shape in [(1, 1), (7, 99)]:
        peaks = [Lifetimes(STARTS, ends, sizes_of(*shape)).bound_bytes for ends in (ENDS, longer)]
        assert found.peak_bytes(*shape) == max(peaks)


def test_rounding_is_counted_where_it_may_happen():
    aligned = law(alignment=64)
    for shape in [(1, 1), (3, 5), (8, 64)]:
        truth = Lifetimes(STARTS, ENDS, sizes_of(*shape)).aligned(64).bound_bytes
        assert truth <= aligned.peak_bytes(*shape) <= truth + 3 * 63


def test_a_block_that_a_run_did_not_show_is_learned_from_the_others():
    hidden = Lifetimes(STARTS, ENDS, (*sizes_of(1, 4)[:1], 0, *sizes_of(1, 4)[2:]))
    found = law_of([Traced(1, 4, hidden, frozenset({1})), *(traced(*s) for s in SHAPES)])
    assert found.is_exact
    assert found.peak_bytes(5, 50) == law().peak_bytes(5, 50)


def test_where_rows_take_nothing_any_number_fits():
    fixed = law_of([Traced(b, 1, Lifetimes((0,), (1,), (100,))) for b in (1, 2, 3)])
    assert fixed.rows_max(1, 100) == ROWS_END
    assert fixed.rows_max(1, 99) == 0
