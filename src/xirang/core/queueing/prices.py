"""What requests of one size cost: worked out once, and again when the cost model has learned."""

from typing import NamedTuple

from xirang.core.cost import CostModel
from xirang.core.queueing import demand
from xirang.core.queueing.routing import cost_class

KEPT_MAX = 1024
"""Sizes come again and again; a bound, in case they do not."""

GATHERED_CALLS = 9.0
"""A run gathers until its call is a tenth of it."""


class Price(NamedTuple):
    """Of a request of so many rows of one length.

    Attributes:
        rows: How many.
        row_ns: What one of them costs.
        work_ns: What all of them cost.
        call_ns: What a run costs before its first row.
        alone_ns: What a run of its own takes; 0 as long as the cost model is cold, since nobody
            is given up by a prediction that is worth nothing.
        cost_class: Of its lane.
        gathered_ns: Rows' time of the largest run, as far as budgets allow.
        share_ns: Device time in the company of such a run.
        ample_ns: From this budget on they do.
    """

    rows: int
    row_ns: float
    work_ns: float
    call_ns: float
    alone_ns: int
    cost_class: int
    gathered_ns: float
    share_ns: float
    ample_ns: float

    def share_within(self, budget_ns: int) -> float:
        """Device time in good company, where everybody has such a budget."""
        if budget_ns >= self.ample_ns:
            return self.share_ns
        gathered_ns = min(self.gathered_ns, budget_ns / 2 - self.call_ns)
        return self.rows * demand.share_ns(
            row_ns=self.row_ns, call_ns=self.call_ns, gathered_ns=gathered_ns
        )


class Prices:
    """One model's."""

    __slots__ = ("_cost", "_kept", "_revision", "_rows_max")

    def __init__(self, cost: CostModel, *, rows_max: int) -> None:
        """Nothing is known yet.

        Args:
            cost: The model's.
            rows_max: Most rows of a run.
        """
        self._cost = cost
        self._rows_max = rows_max
        self._kept: dict[tuple[int, int], Price] = {}
        self._revision = cost.revision

    def of(self, rows: int, length: int) -> Price:
        """The price of a request of this size."""
        if self._revision != self._cost.revision:
            self._revision = self._cost.revision
            self._kept.clear()
        return self._kept.get((rows, length)) or self._found(rows, length)

    def _found(self, rows: int, length: int) -> Price:
        cost = self._cost
        call_ns, row_ns = cost.call_ns(), cost.row_ns(length)
        work_ns = rows * row_ns
        gathered_ns = min(self._rows_max * row_ns, GATHERED_CALLS * call_ns)
        own_ns = demand.share_ns(row_ns=row_ns, call_ns=call_ns, gathered_ns=gathered_ns)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        price = self._kept[rows, length] = Price(
            rows,
            row_ns,
            work_ns,
            call_ns,
            0 if cost.is_cold else round(call_ns + work_ns),
            cost_class(work_ns),
            gathered_ns,
            rows * own_ns,
            2.0 * (gathered_ns + call_ns),
        )
        return price
