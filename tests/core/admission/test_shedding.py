"""How much is shed, of whom, and always of the same."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from xirang.core.admission.shedding import (
    EPOCH_NS,
    FLOOR,
    PRESSURE_TARGET,
    SHED_MAX,
    STEP_NS,
    ClassDemand,
    Shedder,
    lot,
    share_of,
)

SECOND = 1_000_000_000


@pytest.mark.parametrize("load", [1.2, 1.5, 2.0, 3.0])
def test_the_controller_settles_where_what_is_left_fits(load):
    """A plant whose pressure grows with what is admitted beyond its capacity."""
    shedder, pressure = Shedder(), 0.0
    for i in range(20_000):
        admitted = load * (1.0 - shedder.share)
        pressure = max(0.0, pressure + (admitted - 1.0) * STEP_NS / SECOND * 5)
        shedder.step(now_ns=i * STEP_NS, pressure=pressure)
    assert shedder.share == pytest.approx(1 - 1 / load, abs=0.05)
    assert pressure == pytest.approx(PRESSURE_TARGET, abs=0.15)


def test_when_the_pressure_is_gone_nothing_is_shed_within_seconds():
    shedder = Shedder()
    for i in range(1000):
        shedder.step(now_ns=i * STEP_NS, pressure=2.0)
    assert shedder.share == SHED_MAX
    later_ns = 1000 * STEP_NS
    assert shedder.step(now_ns=later_ns + SECOND, pressure=0.0) < SHED_MAX
    assert shedder.step(now_ns=later_ns + 2 * SECOND, pressure=0.0) == 0.0


def test_between_steps_the_share_stays():
    shedder = Shedder()
    share = shedder.step(now_ns=STEP_NS, pressure=3.0)
    assert shedder.step(now_ns=STEP_NS + 1, pressure=0.0) == share


@given(
    shed=st.floats(0, 1),
    demand=st.dictionaries(st.integers(1, 3), st.floats(0.01, 1e9), min_size=1),
)
def test_the_lowest_class_gives_first_and_together_they_give_what_is_needed(shed, demand):
    total = sum(demand.values())
    shares = {key: share_of(key, shed=shed, demand=demand) for key in demand}
    assert all(FLOOR <= share <= 1 + 1e-9 for share in shares.values())
    given_up = sum(shares[key] * demand[key] for key in demand)
    assert given_up >= shed * total * (1 - 1e-9)
    assert given_up <= (shed + FLOOR) * total * (1 + 1e-9)
    ordered = sorted(demand)
    for higher, lower in pairwise(ordered):
        assert shares[lower] >= shares[higher] - 1e-9
        if shares[higher] > FLOOR + 1e-9:
            assert shares[lower] == pytest.approx(1.0)


def test_a_class_without_demand_gives_the_floor():
    assert share_of(1, shed=0.5, demand={3: 10.0}) == FLOOR


@given(client=st.integers(0, 2**64 - 1), epoch=st.integers(0, 1000))
def test_a_client_draws_the_same_lot_for_a_whole_epoch(client, epoch):
    first = lot(client, now_ns=epoch * EPOCH_NS)
    assert 0 <= first < 1
    assert lot(client, now_ns=epoch * EPOCH_NS + EPOCH_NS - 1) == first


def test_lots_are_spread_evenly_and_fall_anew_each_epoch():
    lots = [lot(client, now_ns=0) for client in range(10_000)]
    for tenth in range(10):
        inside = sum(tenth / 10 <= value < (tenth + 1) / 10 for value in lots)
        assert inside == pytest.approx(1000, abs=150)
    again = [lot(client, now_ns=EPOCH_NS) for client in range(10_000)]
    both = sum(a < 0.1 and b < 0.1 for a, b in zip(lots, again, strict=True))
    assert both == pytest.approx(100, abs=50)


def test_demand_fades_but_keeps_its_proportions():
    demand = ClassDemand()
    demand.on_arrival(now_ns=0, priority=1, work_ns=300.0)
    demand.on_arrival(now_ns=0, priority=3, work_ns=100.0)
    demand.on_arrival(now_ns=SECOND, priority=2, work_ns=50.0)
    work = demand.by_priority()
    assert work[1] == pytest.approx(3 * work[3])
    assert work[1] < 300.0 / 2
    assert work[2] == 50.0


def test_at_rest_nothing_is_shed_and_the_way_starts_from_there():
    shedder = Shedder()
    for i in range(1000):
        shedder.step(now_ns=i * STEP_NS, pressure=2.0)
    shedder.rest(now_ns=1000 * STEP_NS, pressure=1.0)
    assert shedder.share == 0.0
    share = shedder.step(now_ns=1001 * STEP_NS, pressure=1.0)
    assert 0.0 < share < 0.02
