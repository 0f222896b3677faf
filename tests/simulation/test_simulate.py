"""`xirang simulate` from its arguments to its bytes."""

import argparse
import json

import pytest

from xirang.lab.policies.known import ALL
from xirang.lab.simulate import add_simulate
from xirang.lab.simulate_scenarios import SCENARIOS


def run(*words):
    parser = argparse.ArgumentParser()
    add_simulate(parser.add_subparsers())
    args = parser.parse_args(["simulate", "--requests", "600", *words])
    return args.run(args)


def figures(capsys, *words):
    assert run("--json", *words) == 0
    return json.loads(capsys.readouterr().out)["points"]


def test_the_same_seed_gives_the_same_bytes(capsys):
    outputs = []
    for seed in ("4", "4", "5"):
        run("--json", "--seed", seed, "--noise", "0.1", "--outliers", "0.01")
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    points = json.loads(outputs[0])["points"]
    assert [point["load"] for point in points] == [0.3, 0.6, 0.9]
    assert all(point["requests"] == 600 for point in points)


def test_a_table_without_json(capsys):
    assert run("--load", "0.5") == 0
    output = capsys.readouterr().out
    assert "mean batch" in output
    assert "\n0.5 " in output
    assert output.count("\n") == 2


def test_a_line_for_each_policy_at_each_load(capsys):
    assert run("--load", "0.5", "0.9", "--policies", "ours,eager,window:2") == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [
        "0.5",
        "eager",
        "window:2",
        "0.9",
        "eager",
        "window:2",
    ]


def test_policies_meet_the_same_requests(capsys):
    points = figures(capsys, "--load", "0.5", "--policies", "all", "--models", "3")
    assert [point["policy"] for point in points] == list(ALL)
    assert {point["requests"] for point in points} == {600}
    assert len({point["device_ms_per_request"] for point in points}) > 5


def test_a_progress_bar_only_on_a_terminal(capsys):
    assert run("--load", "0.5") == 0
    assert capsys.readouterr().err == ""


def test_files(tmp_path, capsys):
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    words = ["--load", "0.3", "0.8", "--policies", "ours,eager"]
    assert run(*words, "--html", str(page), "--json", str(numbers)) == 0
    text = page.read_text()
    for heading in (
        "On time",
        "Mean batch",
        "Device time",
        "Latency at load 0.3",
        "Demand",
        "Window",
        "Threshold",
    ):
        assert f"<h2>{heading}</h2>" in text
    assert len(json.loads(numbers.read_text())["points"]) == 4
    assert "mean batch" in capsys.readouterr().out


def test_batching_saves_device_time(capsys):
    spent = {}
    for batching in ("optimal", "first-come", "off"):
        (point,) = figures(
            capsys, "--batching", batching, "--arrivals", "closed:64", "--budgets", "1e6"
        )
        spent[batching] = point["device_ms_per_request"]
    assert spent["optimal"] < spent["off"] < spent["first-come"]


WORDS = {
    "trace": ["--trace", "azure_llm_2023_code", "--compress", "20", "--lengths", "trace:8"],
    "trace at a load": ["--trace", "azure_llm_2023_conv", "--load", "0.5"],
    "gamma": ["--arrivals", "gamma:3", "--load", "0.5"],
    "mmpp": ["--arrivals", "mmpp", "--rate", "50"],
    "square": ["--arrivals", "square:0.5", "--rate", "50"],
    "histogram": ["--lengths", "text_corpora_wordpiece", "--rate", "50"],
    "budgets": ["--budgets", "100:1,500:3", "--priorities", "1:1,3:2", "--rate", "50"],
    "fixed shape": ["--law", "5,0.25", "--lengths", "fixed:1", "--rate", "900", "--devices", "2"],
    "models": ["--models", "4", "--devices", "2", "--rate", "50", "--policies", "buckets"],
    "closed loop of models": ["--models", "4", "--arrivals", "closed:20", "--policies", "nexus"],
    "a rate instead of a scenario's load": ["--scenario", "blip", "--rate", "900"],
    "arrivals instead of a scenario's trace": [
        *("--scenario", "code", "--arrivals", "gamma:2", "--lengths", "fixed:9", "--load", "0.5")
    ],
    "noise": ["--noise", "0.2", "--outliers", "0.02:3", "--blip", "5:4,9:2", "--rate", "50"],
    "elements": ["--elements-max", "512", "--rate", "50", "--efficiency", "1"],
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_settings_that_work(capsys, words):
    (point,) = figures(capsys, *words)
    assert point["requests"] == 600
    assert point["runs"] > 0


REFUSED = {
    "trace": (["--trace", "nosuch"], "known are azure_llm_2023_code, azure_llm_2023_conv"),
    "arrivals": (["--arrivals", "bursts"], "known are poisson, gamma:CV"),
    "gamma": (["--arrivals", "gamma"], "known are poisson, gamma:CV"),
    "clients": (["--arrivals", "closed:many"], "expected a number"),
    "lengths": (["--lengths", "short"], "text_corpora_wordpiece"),
    "lognormal": (["--lengths", "lognormal:30"], "lognormal:MEDIAN:SIGMA:MIN:MAX"),
    "trace lengths": (["--lengths", "trace"], "needs a --trace"),
    "law": (["--law", "1,-2"], "CALL,ROW,ELEMENT,SQUARE"),
    "budget": (["--budgets", "0"], "--budgets 0: expected 0.001"),
    "priority": (["--priorities", "4"], "expected 1 (high), 2 or 3"),
    "weights": (["--budgets", "5:-1"], "weights must not be negative"),
    "instances": (["--devices", "0"], "--devices 0: expected 1"),
    "efficiency": (["--efficiency", "2"], "--efficiency 2: expected 0 to 1"),
    "rate": (["--rate", "0"], "the rate 0: expected"),
    "policy": (["--policies", "ours,best"], "known are ours[:EFFICIENCY], bentoml"),
    "scenario": (["--scenario", "nosuch"], "known are texts, images, zoo"),
    "batching": (["--batching", "best"], "known are optimal, first-come, off"),
    "models": (["--models", "0"], "--models 0: expected 1"),
    "outliers": (["--outliers", "2"], "--outliers 2: expected 0 to 1"),
    "blip": (["--blip", "5"], "--blip"),
    "blip run": (["--blip", "x:3"], "RUN:FACTOR"),
    "both": (["--rate", "3", "--load", "1"], "--rate or --load, not both"),
    "trace and kind": (
        ["--trace", "azure_llm_2023_code", "--arrivals", "mmpp"],
        "its own arrivals",
    ),
    "not a number": (["--rate", "nan"], "the rate nan: expected"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_settings_are_told(capsys, words, message):
    assert run(*words) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_runs(capsys, name):
    points = figures(capsys, "--scenario", name)
    assert all(point["requests"] == 600 for point in points)


def test_a_blip_is_felt_once(capsys):
    words = ["--scenario", "images", "--load", "0.5", "--efficiency", "0"]
    (calm,), (hit,) = figures(capsys, *words), figures(capsys, *words, "--blip", "10:3")
    assert hit["latency_max_ms"] > calm["latency_max_ms"]
    assert hit["on_time"] > 0.95


def test_a_policy_with_a_parameter_is_ours_with_that_setting(capsys):
    words = ["--scenario", "images", "--load", "0.2"]
    given = figures(capsys, *words, "--policies", "ours:0,ours:1")
    for efficiency, point in zip("01", given, strict=True):
        (same,) = figures(capsys, *words, "--efficiency", efficiency)
        assert {**same, "policy": point["policy"]} == point
