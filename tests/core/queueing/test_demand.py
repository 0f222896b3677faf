"""Demand and company, from arrivals at literal instants and from whole processes."""

import random

import pytest
from tests.support.core import MS

from xirang.core.queueing.demand import MEMORY_NS, Demand, share_ns


def test_a_first_arrival_counts_over_the_shortest_memory():
    demand = Demand()
    demand.on_arrival(now_ns=0, rows_ns=0.0, share_ns=MEMORY_NS / 16)
    assert demand.load(now_ns=0, parallelism=1) == pytest.approx(0.5)
    assert demand.load(now_ns=0, parallelism=2) == pytest.approx(0.25)


def test_load_fades_when_nothing_comes():
    demand = Demand()
    demand.on_arrival(now_ns=0, rows_ns=0.0, share_ns=1e9)
    loads = [demand.load(now_ns=i * MEMORY_NS, parallelism=1) for i in range(1, 4)]
    assert loads == sorted(loads, reverse=True)
    assert loads[2] < loads[0] / 5


def test_poisson_arrivals_give_their_load_and_rate():
    draw, demand, now_ns = random.Random(1), Demand(), 0
    loads, rates, left = [], [], []
    for i in range(20_000):
        now_ns += int(draw.expovariate(1.0) * MS)  # 1,000 a second
        while left and left[0] <= now_ns:
            demand.on_departure(now_ns=left.pop(0))
        demand.on_arrival(now_ns=now_ns, rows_ns=0.0, share_ns=0.6 * MS)
        left.append(now_ns + 3 * MS)
        if i > 5_000:
            loads.append(demand.load(now_ns=now_ns, parallelism=1))
            rates.append(demand.company() * MS)
    assert sum(loads) / len(loads) == pytest.approx(0.6, rel=0.03)
    assert sum(rates) / len(rates) == pytest.approx(1.0, rel=0.05)


def test_one_closed_loop_client_brings_no_company():
    demand = Demand()
    for i in range(1000):
        demand.on_arrival(now_ns=10 * i * MS, rows_ns=0.0, share_ns=5 * MS)
        demand.on_departure(now_ns=(10 * i + 6) * MS)
    assert demand.company() == 0.0
    assert demand.in_flight == 0


def test_two_closed_loop_clients_bring_company():
    demand = Demand()
    demand.on_arrival(now_ns=0, rows_ns=0.0, share_ns=MS)
    for i in range(1000):
        demand.on_arrival(now_ns=(10 * i + 5) * MS, rows_ns=0.0, share_ns=MS)
        demand.on_departure(now_ns=(10 * i + 10) * MS)
    assert demand.company() * MS == pytest.approx(0.1, rel=0.05)


def test_several_leave_at_once():
    demand = Demand()
    for i in range(3):
        demand.on_arrival(now_ns=i, rows_ns=0.0, share_ns=1.0)
    demand.on_departure(now_ns=5, count=3)
    assert demand.in_flight == 0
    with pytest.raises(AssertionError):
        demand.on_departure(now_ns=6)


def test_the_load_of_rows_leaves_out_the_calls():
    demand = Demand()
    demand.on_arrival(now_ns=0, rows_ns=MEMORY_NS / 32, share_ns=MEMORY_NS / 16)
    assert demand.rows_load(parallelism=1) == pytest.approx(0.25)
    assert demand.rows_load(parallelism=2) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("row_ns", "gathered_ns", "expected"),
    [(2.0, 8.0, 3.0), (2.0, 1.0, 6.0), (2.0, -5.0, 6.0), (0.0, 0.0, 4.0)],
    ids=["in company", "alone", "no time for company", "rows cost nothing"],
)
def test_a_share_is_the_row_and_its_part_of_the_call(row_ns, gathered_ns, expected):
    assert share_ns(row_ns=row_ns, call_ns=4.0, gathered_ns=gathered_ns) == expected
