"""Prices are those of the cost model, and change when it does."""

import pytest
from tests.support.core import MS, learned

from xirang.core.cost import CostModel
from xirang.core.queueing import demand
from xirang.core.queueing.prices import GATHERED_CALLS, KEPT_MAX, Prices
from xirang.core.queueing.routing import cost_class


@pytest.mark.parametrize(("rows", "length"), [(1, 8), (3, 64), (32, 200)])
def test_a_price_is_what_the_cost_model_says(rows, length):
    cost = learned(2 * MS, 0.0, 1e5)
    price = Prices(cost, rows_max=32).of(rows, length)
    assert price.work_ns == rows * cost.row_ns(length)
    assert price.alone_ns == cost.predict_ns(rows=rows, length=length)
    assert price.cost_class == cost_class(price.work_ns)


def test_it_is_worked_out_once_until_the_model_has_learned():
    cost = learned(2 * MS, 0.0, 1e5)
    prices = Prices(cost, rows_max=32)
    before = prices.of(1, 64)
    assert prices.of(1, 64) is before
    cost.observe(rows=4, length=64, ran_ns=100 * MS)
    assert prices.of(1, 64).work_ns > before.work_ns
    cost.rescale(2.0)
    assert prices.of(1, 64).work_ns == cost.row_ns(64)


def test_a_cold_model_gives_nobody_up():
    assert Prices(CostModel(), rows_max=1).of(1, 500).alone_ns == 0


@pytest.mark.parametrize("budget_ms", [5, 20, 39, 41, 1000])
def test_company_is_as_good_as_the_budget_allows(budget_ms):
    cost = learned(2 * MS, 0.0, 1e5)
    price = Prices(cost, rows_max=1000).of(2, 10)
    call_ns, row_ns = cost.call_ns(), cost.row_ns(10)
    gathered_ns = min(GATHERED_CALLS * call_ns, budget_ms * MS / 2 - call_ns)
    own_ns = demand.share_ns(row_ns=row_ns, call_ns=call_ns, gathered_ns=gathered_ns)
    assert price.share_within(budget_ms * MS) == pytest.approx(2 * own_ns)


def test_sizes_without_end_take_no_memory_without_end():
    prices = Prices(learned(2 * MS, 0.0, 1e5), rows_max=1)
    for length in range(1, 3 * KEPT_MAX):
        assert prices.of(1, length).work_ns > 0.0
    assert len(prices._kept) <= KEPT_MAX
