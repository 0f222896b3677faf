"""What is in deploy/ speaks of series that there are."""

import json
import re

import pytest
import yaml
from prometheus_client import parser
from tests.support.puppets import PuppetHouse
from tests.test_tidy import ROOT

FOLDER = ROOT / "deploy"
NAME = re.compile(r"\b((?:xirang|nv)_\w+)")
SELECTED = re.compile(r"\b((?:xirang|nv)_\w+)\{([^}]*)\}")


@pytest.fixture(scope="module")
def known():
    """Every name that a query may use, with the labels that its samples have."""
    house = PuppetHouse.with_masked_double()
    text = house.engine.metrics_text()
    found = {}
    for family in parser.text_string_to_metric_families(text):
        suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
        total = "_total" if f"\n# TYPE {family.name}_total " in text else ""
        for suffix in suffixes:
            labels = {label for sample in family.samples for label in sample.labels}
            found[family.name + total + suffix] = labels | {"instance"}
    found["xirang_memory_bytes"] = {"model", "kind", "instance"}  # there with a pool
    found["xirang_memory_pool_bytes"] = {"kind", "instance"}
    for name in ("depth", "oldest_seconds", "wait_seconds"):  # there while somebody waits
        found[f"xirang_lane_{name}"] = {"model", "priority", "cost_class"}
    return found


def board():
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def rules():
    document = yaml.safe_load((FOLDER / "prometheus-alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def queries():
    found = [target["expr"] for panel in board()["panels"] for target in panel["targets"]]
    return found + [rule["expr"] for rule in rules()]


@pytest.mark.parametrize("query", queries())
def test_a_query_asks_for_what_there_is(known, query):
    names = [name for name in NAME.findall(query) if not name.startswith("xirang_missed")]
    assert names or "model:xirang_missed" in query
    for name in names:
        assert name in known
    for name, selection in SELECTED.findall(query):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selection):
            assert label in known[name], f"{name} has no label {label}"
    assert query.count("(") == query.count(")")


def test_a_rule_reads_records_that_another_rule_makes():
    made = {rule["record"] for rule in rules() if "record" in rule}
    used = set(re.findall(r"model:\w+:\w+", " ".join(rule["expr"] for rule in rules())))
    assert used == made


def test_an_alert_says_what_is_wrong_and_how_urgent_it_is():
    alerts = [rule for rule in rules() if "alert" in rule]
    assert {rule["alert"] for rule in alerts} >= {"XirangBudgetBurnsFast", "XirangStalled"}
    for rule in alerts:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert re.search(r"{{ \$labels.(model|instance) }}", rule["annotations"]["summary"])
        assert rule["for"]


def test_panels_stand_side_by_side_and_have_a_unit():
    places = set()
    for panel in board()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert (place["x"], place["y"]) not in places
        places.add((place["x"], place["y"]))
        assert panel["fieldConfig"]["defaults"]["unit"]
    assert len({panel["id"] for panel in board()["panels"]}) == len(board()["panels"])
