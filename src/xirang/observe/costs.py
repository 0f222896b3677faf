"""Who used how much: device time and padding, charged to requests by their share of a run.

A run's time is divided among its requests by their own elements, rows × length: who brings a long
text pays for it, and for his part of what a call costs however small. Padding is charged to
those who are padded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Outcome, Run

NOBODY = ""
"""The tenant of requests that came without a key."""


@dataclass(slots=True)
class Account:
    """What was used.

    Attributes:
        requests: That took part in a run.
        rows: Theirs.
        elements: Theirs, padding not included.
        padding: Elements that they were padded with.
        device_ns: Their share of the runs' time.
    """

    requests: int = 0
    rows: int = 0
    elements: int = 0
    padding: int = 0
    device_ns: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For `/v2/xirang/costs`."""
        return {
            "requests": self.requests,
            "rows": self.rows,
            "elements": self.elements,
            "padding_elements": self.padding,
            "device_seconds": self.device_ns / 1e9,
        }


def device_ns(outcome: Outcome, run: Run, end_ns: int) -> int:
    """How long a run held its instance."""
    return outcome.ran_ns if isinstance(outcome, Done) else end_ns - run.start_ns


def share_of(request: Request, run: Run) -> float:
    """A request's share of its run's device time, 0…1."""
    return request.rows * request.length / max(1, run.elements - run.padding)


class Costs:
    """The accounts of all models and of the tenants that asked them."""

    def __init__(self) -> None:
        self.accounts: dict[str, dict[str, Account]] = {}
        self._of_lanes: dict[str, dict[str, Account]] = {}

    def add_model(self, name: str, *, lanes: str | None = None) -> None:
        """Open its accounts, or charge other lanes to those that are open."""
        accounts = self.accounts.setdefault(name, {NOBODY: Account()})
        self._of_lanes[lanes or name] = accounts

    def drop_lanes(self, lanes: str) -> None:
        """Nothing will be charged to these any more; what was charged stays."""
        del self._of_lanes[lanes]

    def on_run(self, event: RunEnded, *, padding: int) -> None:
        """Charge a run with so many elements of padding."""
        run = event.run
        ran_ns = device_ns(event.outcome, run, event.end_ns)
        accounts = self._of_lanes[run.model]
        tenants = {request.tenant for request in run.requests}
        if len(tenants) == 1:
            account = _of(accounts, tenants.pop())
            account.requests += len(run.requests)
            account.rows += run.rows
            account.elements += run.elements - padding
            account.padding += padding
            account.device_ns += ran_ns
            return
        element_ns = ran_ns / max(1, run.elements - padding)
        for request in run.requests:
            account = _of(accounts, request.tenant)
            rows = request.rows
            elements = rows * request.length
            account.requests += 1
            account.rows += rows
            account.elements += elements
            account.padding += rows * run.length - elements if padding else 0
            account.device_ns += elements * element_ns

    def as_json(self) -> dict[str, Any]:
        """All accounts, and what they add up to for each model."""
        return {"models": [_model(name, of) for name, of in self.accounts.items()]}


def _of(accounts: dict[str, Account], tenant: str) -> Account:
    return accounts.get(tenant) or accounts.setdefault(tenant, Account())


def _model(name: str, accounts: Mapping[str, Account]) -> dict[str, Any]:
    tenants = [
        {"tenant": tenant} | account.as_json() for tenant, account in sorted(accounts.items())
    ]
    total = {key: sum(each[key] for each in tenants) for key in Account().as_json()}
    return {"model": name} | total | {"tenants": tenants}
