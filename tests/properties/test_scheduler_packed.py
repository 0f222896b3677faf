"""Runs whose rows stand end to end, leased from a pool by tokens, rows and the longest row."""

from hypothesis import given, strategies as st
from tests.support.core import MS, fixed_shape, learned, request

from xirang.core.memory.account import Claim
from xirang.core.memory.polynomial import Factor, Polynomial, Term
from xirang.core.memory.pool import PoolSettings
from xirang.core.policy import Policy
from xirang.core.run import Done
from xirang.core.scheduler import Scheduler

SLAB = 100 << 10
ROWS = (Polynomial((0, SLAB, 0, 0, 0, 0)),)
"""A slab a row."""

TOKEN = Polynomial((SLAB,), 8, (Term(factors=(Factor(0),)),))
"""A slab for eight tokens, whoever's they are."""


def packed(capacity, lengths, **claim):
    """A scheduler with requests of these lengths, whose rows stand end to end."""
    pool = PoolSettings(capacity * SLAB, slab_bytes=SLAB)
    scheduler = Scheduler(devices={"cpu": 2}, pool=pool)
    policy = Policy(efficiency=0.0, is_ragged=True, rejects_early=False)
    claim = Claim((TOKEN,), is_packed=True, **claim)
    scheduler.add_model("m", policy, learned(5e6, 1e3, 1e3), claim)
    for number, length in enumerate(lengths):
        made = request(number, length=length, budget_ms=60_000)
        scheduler.submit(made, now_ns=made.arrival_ns)
    return scheduler


def played(scheduler):
    """All of its runs, one after the other."""
    runs, now_ns = [], 0
    while found := scheduler.poll(now_ns=now_ns):
        for run in found:
            scheduler.complete(run.id, now_ns=now_ns + MS, outcome=Done(MS))
            scheduler.check_integrity()
        runs += found
        now_ns += 10 * MS
    return runs


def test_rows_end_to_end_are_leased_by_their_tokens():
    (run,) = played(packed(50, [8, 80, 16, 8]))
    assert (run.rows, run.lease_bytes) == (4, 14 * SLAB), "not four times eighty"


@given(st.lists(st.integers(1, 90), min_size=1, max_size=30), st.integers(12, 60))
def test_rows_end_to_end_stay_within_what_there_is(lengths, capacity):
    runs = played(packed(capacity, lengths))
    assert sorted(r.id for run in runs for r in run.requests) == list(range(len(lengths)))
    for run in runs:
        tokens = sum(r.length for r in run.requests)
        assert run.lease_bytes <= capacity * SLAB
        assert SLAB * tokens <= 8 * run.lease_bytes < SLAB * (tokens + 8)


def test_rows_end_to_end_are_fewer_while_others_use_the_memory():
    scheduler = packed(20, [])
    scheduler.add_model("other", Policy(efficiency=0.0), fixed_shape(5, 1), Claim(ROWS))
    for made in (
        *(request(n, model="other", budget_ms=60_000) for n in range(100, 110)),
        *(request(n, length=16, budget_ms=60_000) for n in range(8)),
    ):
        scheduler.submit(made, now_ns=0)
    taken = {run.model: run for run in scheduler.poll(now_ns=0)}
    assert len(taken) == 2
    assert sum(run.lease_bytes for run in taken.values()) <= 20 * SLAB
    rows = taken["m"].rows
    assert taken["m"].lease_bytes == 2 * rows * SLAB
    assert 1 <= rows < 8 or taken["other"].rows < 10, "one of them was cut to what is left"
