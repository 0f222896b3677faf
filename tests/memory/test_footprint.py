"""What a model's runs take, as the scheduler is told it."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.memory.test_room import SIZES, footprint_of, usual
from tests.support.native import library, needs_native

from xirang.core.memory.law import ROWS_END, Traced
from xirang.core.memory.lifetime import Allocate, Free, of_traffic
from xirang.core.memory.polynomial import Polynomial
from xirang.memory import footprint as module
from xirang.memory.footprint import NativeFootprint

pytestmark = needs_native


@pytest.mark.parametrize("length", [1, 4, 9, 64, 500])
@pytest.mark.parametrize("size_bytes", [0, 63, 1000, 65_536, 10_000_000])
def test_the_largest_batch_is_that_of_trying_them_all(length, size_bytes):
    found = footprint_of()
    rows = 0
    while found.peak_bytes(rows + 1, length) <= size_bytes:
        rows += 1
    assert found.rows_max(length, size_bytes) == rows
    assert found.rows_max(length, size_bytes) == rows, "and again from the table"


@given(st.integers(1, 300), st.integers(1, 600))
@settings(deadline=None)
def test_its_polynomials_lie_above_what_runs_take(rows, length):
    found = footprint_of()
    assert max(one.bytes_at(rows, length) for one in found.peaks) >= found.peak_bytes(rows, length)


def test_where_rows_take_nothing_any_number_goes():
    samples = [Traced(*size, of_traffic([Allocate(100), Free(0)])) for size in SIZES]
    found = NativeFootprint(library(), samples, [], (4,))
    assert found.rows_max(7, 128) == ROWS_END
    assert found.rows_max(7, 127) == 0


def test_several_ways_to_run_take_what_the_greatest_takes():
    samples = [Traced(*size, of_traffic(usual(*size))) for size in SIZES]
    other = [Traced(*size, of_traffic([Allocate(1 << 20)])) for size in SIZES[:3]]
    found = NativeFootprint(library(), [*samples, *other], [], (4, 64))
    assert found.peak_bytes(1, 1) == 1 << 20
    assert found.peak_bytes(8, 64) == footprint_of().peak_bytes(8, 64) - 4 * 8 * 64


def test_where_no_single_plan_is_good_for_all_lengths_there_are_several():
    """Small lengths are ruled by what grows with L, large ones by what grows with L²."""

    def script(rows, length):
        line, square = 4096 * rows * length, 64 * rows * length * length
        return [
            *(Allocate(size) for size in (line, square, line // 2)),
            Free(0),
            *(Allocate(size) for size in (square // 2, line)),
            Free(1),
            *(Allocate(size) for size in (square // 4, line // 4)),
            *(Free(block) for block in (2, 3, 4, 5, 6)),
        ]

    found = footprint_of(script)
    for length in (4, 64):
        bound = found.law.regimes[0].lifetimes(8, length).bound_bytes
        assert found.peak_bytes(8, length) <= 1.01 * bound


def test_tables_stay_small(monkeypatch):
    monkeypatch.setattr(module, "CACHED_MAX", 50)
    found = footprint_of()
    for number in range(1, 300):
        found.rows_max(number, 10_000 * number)
        found.peak_bytes(number, number)
    assert max(len(found._peaks), len(found._rows), len(found._bests)) <= 50


def test_a_model_without_inputs_that_count_has_a_footprint():
    samples = [Traced(1, 1, of_traffic(usual(1, 1)))]
    found = NativeFootprint(library(), samples, [Polynomial((0,) * 6)], (1,))
    assert found.peak_bytes(1, 1) > 0
