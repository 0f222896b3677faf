"""What is charged adds up to what was used, and goes to whom it belongs."""

import pytest
from tests.support.asking import ask, finish_all
from tests.support.puppets import PuppetHouse

from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Failed, Run, Trigger
from xirang.observe.costs import Costs, share_of

MS = 1_000_000


def request(id, *, tenant="", rows=1, length=1):
    return Request(id, "m", 0, 1000 * MS, rows=rows, length=length, tenant=tenant)


def ended(*requests, length=8, ran_ms=12, outcome=None):
    rows = sum(each.rows for each in requests)
    run = Run(1, "m", 0, requests, rows, length, Trigger.WINDOW, 10 * MS, 0, 0, 0)
    return RunEnded(run, outcome or Done(ran_ms * MS), 40 * MS)


def charged(*events):
    costs = Costs()
    costs.add_model("m")
    for event in events:
        costs.on_run(event, padding=event.run.padding)
    (model,) = costs.as_json()["models"]
    return model, {each["tenant"]: each for each in model["tenants"]}


def test_time_is_divided_by_the_elements_that_each_brought():
    model, tenants = charged(
        ended(request(1, tenant="a", length=2), request(2, tenant="b", rows=2, length=5))
    )
    assert tenants["a"]["device_seconds"] == pytest.approx(0.002)
    assert tenants["b"]["device_seconds"] == pytest.approx(0.010)
    assert model["device_seconds"] == pytest.approx(0.012)
    assert (tenants["a"]["padding_elements"], tenants["b"]["padding_elements"]) == (6, 6)
    assert (model["rows"], model["requests"], model["elements"]) == (3, 2, 12)


def test_one_tenants_run_is_charged_as_the_same_requests_would_be_one_by_one():
    alone = ended(request(1, tenant="a", length=2), request(2, tenant="a", length=7))
    mixed = ended(
        request(1, tenant="a", length=2),
        request(2, tenant="a", length=7),
        request(3, tenant="b", length=8),
    )
    _, one = charged(alone)
    _, two = charged(mixed)
    for key in ("requests", "rows", "elements", "padding_elements"):
        assert one["a"][key] == two["a"][key]


def test_a_run_without_padding_charges_none():
    event = ended(request(1, tenant="a", length=2), request(2, tenant="b", length=8))
    model, tenants = charged(event._replace(run=event.run._replace(is_ragged=True)))
    assert model["padding_elements"] == 0
    assert tenants["a"]["device_seconds"] == pytest.approx(0.0024)


def test_a_run_that_failed_is_charged_by_the_time_it_held_the_instance():
    model, _ = charged(ended(request(1), outcome=Failed((1,))))
    assert model["device_seconds"] == pytest.approx(0.030)


def test_lanes_under_another_name_are_charged_to_the_model():
    costs = Costs()
    costs.add_model("n", lanes="m")
    event = ended(request(1))
    costs.on_run(event, padding=0)
    costs.drop_lanes("m")
    assert costs.accounts["n"][""].requests == 1


def test_a_request_is_charged_to_the_tenant_whose_key_it_came_with():
    house = PuppetHouse.with_masked_double()
    ask(house, [1], tenant="a"), ask(house, [2], tenant="a"), ask(house, [3])
    finish_all(house)
    (model,) = house.engine.costs()["models"]
    charged = {each["tenant"]: each["requests"] for each in model["tenants"]}
    assert charged == {"": 1, "a": 2}
    assert 'xirang_device_seconds_total{model="m",tenant="a"}' in house.engine.metrics_text()


def test_shares_of_a_run_add_up_to_one():
    requests = [request(id, rows=id, length=1 + id % 4) for id in range(1, 7)]
    run = ended(*requests).run
    assert sum(share_of(each, run) for each in requests) == pytest.approx(1.0)
