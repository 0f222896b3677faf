"""How long a request that comes would wait."""

import pytest

from xirang.core.admission.forecast import WORK_CALLS, ahead_ns, residual_ns

MS = 1_000_000


@pytest.mark.parametrize(
    ("ends_ms", "parallelism", "expected_ms"),
    [([], 1, 0), ([15], 1, 5), ([15], 2, 2.5), ([15, 25], 2, 10), ([3, 15], 2, 2.5)],
    ids=["idle", "one runs", "one of two", "both", "one is late already"],
)
def test_what_runs_is_shared_among_the_instances(ends_ms, parallelism, expected_ms):
    ends_ns = [end * MS for end in ends_ms]
    found = residual_ns(ends_ns, now_ns=10 * MS, parallelism=parallelism)
    assert found == expected_ms * MS


def ahead_ms(*, work_ms, rows, share=1.0, call_ms=2, rows_max=8):
    found = ahead_ns(
        work_ns=work_ms * MS, rows=rows, share=share, call_ns=call_ms * MS, rows_max=rows_max
    )
    return found / MS


def test_nobody_ahead_costs_nothing():
    assert ahead_ms(work_ms=0, rows=0) == 0
    assert ahead_ms(work_ms=50, rows=10, share=0.0) == 0


def test_what_stands_ahead_costs_its_rows_and_its_calls():
    assert ahead_ms(work_ms=5, rows=4) == 5  # a run that who comes will share
    assert ahead_ms(work_ms=20, rows=32) == 20 + 3 * 2  # three full runs, and one to share
    assert ahead_ms(work_ms=10 * WORK_CALLS * 2, rows=4) == 10 * WORK_CALLS * 2 + 9 * 2


def test_only_the_more_urgent_part_counts():
    assert ahead_ms(work_ms=20, rows=32, share=0.5) == 10 + 2


def test_a_law_without_a_call_divides_by_nothing():
    assert ahead_ms(work_ms=20, rows=32, call_ms=0) == 20
