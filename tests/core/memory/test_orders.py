"""Greedy orders: each gives a plan without a fault."""

from hypothesis import given
from tests.support.memory import lifetimes

from xirang.core.memory.lifetime import of_rows
from xirang.core.memory.orders import orders_of, place
from xirang.core.memory.skyline import Skyline
from xirang.core.memory.validate import fault_of


@given(lifetimes(size_min=1))
def test_every_order_places_every_block_without_a_fault(found):
    neighbours = Skyline(found).neighbours
    for order in orders_of(found, neighbours):
        assert sorted(order) == list(range(len(found)))
        for is_tight in (True, False):
            offsets = place(order, found, neighbours, is_tight=is_tight)
            height = max(o + s for o, s in zip(offsets, found.sizes_bytes, strict=True))
            assert fault_of(found, offsets, height) is None


def test_the_first_order_is_by_size():
    found = of_rows([(0, 1, 5), (0, 9, 7), (0, 2, 6)])
    assert list(next(orders_of(found, Skyline(found).neighbours))) == [1, 2, 0]
