"""The search for settings: what it prefers, that it ends, and that it finds what is there."""

import json
import tomllib
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from tests.lab.test_replay import POLICIES, Live, steady

from xirang.cli import main
from xirang.config import load_config
from xirang.core.policy import Policy
from xirang.lab.simulator_result import Result
from xirang.lab.tune import LADDERS, MS, Tried, is_better, search, toml_of

START = Policy()
NOTHING = Result(0, 0.0, {}, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def result(on_time, device_ms):
    return replace(NOTHING, on_time=on_time, device_ms_per_on_time=device_ms)


@pytest.mark.parametrize(
    ("one", "other", "wins"),
    [
        ((0.995, 9.0), (0.95, 1.0), True),  # the promise goes before the time
        ((0.95, 1.0), (0.995, 9.0), False),
        ((0.991, 1.0), (0.999, 2.0), True),  # both keep it: the time
        ((0.999, 1.0), (0.991, 1.0), False),
        ((0.995, 0.999), (0.995, 1.0), False),  # too little to tell from chance
        ((0.95, 9.0), (0.90, 1.0), True),  # neither keeps it: the share
        ((0.9001, 1.0), (0.9000, 9.0), False),
    ],
)
def test_what_is_better(one, other, wins):
    tried = [Tried(START, result(*figures)) for figures in (one, other)]
    assert is_better(*tried, promise=0.99) is wins


def found_by(evaluate, **options):
    options = {"promise": 0.99, "budget_ns": 10_000 * MS} | options
    return list(search(START, evaluate, **options))[-1].policy


def test_it_finds_the_bottom_of_a_valley_in_all_settings_at_once():
    best = {"efficiency": 0.75, "window_ns_max": 50 * MS, "max_batch_size": 32, "elements_max": 256}

    def evaluate(policy):
        misses = sum(
            abs(LADDERS[field].index(getattr(policy, field)) - LADDERS[field].index(value))
            for field, value in best.items()
        )
        return result(1.0, 1.0 + misses)

    policy = found_by(evaluate)
    assert {field: getattr(policy, field) for field in best} == best


def test_a_start_that_nothing_beats_is_kept():
    assert found_by(lambda policy: result(1.0, 1.0)) == START


def test_no_window_is_as_long_as_the_budget():
    policy = found_by(lambda policy: result(1.0, 1e9 - policy.window_ns_max), budget_ns=20 * MS)
    assert policy.window_ns_max < 20 * MS


@given(st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_it_tries_nothing_twice_and_ends(random):
    tried = set()

    def evaluate(policy):
        assert policy not in tried
        tried.add(policy)
        return result(random.random(), random.uniform(1, 10))

    steps = list(search(START, evaluate, promise=0.5, budget_ns=10_000 * MS))
    assert steps[0].policy == START
    for worse, better in pairwise(steps):
        assert is_better(better, worse, promise=0.5)


@pytest.mark.parametrize("model", ["m", "all-MiniLM-L6-v2", "shop.models:classify", 'a "b"'])
def test_what_it_prints_is_a_configuration(tmp_path, model):
    policy = replace(START, efficiency=0.75, window_ns_max=20 * MS, elements_max=256)
    file = tmp_path / "xirang.toml"
    file.write_text(toml_of(policy, model=model))
    assert tomllib.loads(file.read_text())["models"][model]["window_ms"] == 20
    own = load_config(file=file, environment={}).settings_of(model)
    assert (own.efficiency, own.window_ms, own.max_batch_elements) == (0.75, 20, 256)


def tune(words):
    return main(["tune", *words.split()])


@pytest.mark.slow
def test_the_command_finds_cheaper_settings_and_keeps_the_promise(capsys):
    assert tune("--scenario images --load 0.3 --requests 1500 --efficiency 0 --json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_kept"]
    assert found["tuned"]["on_time"] >= 0.99
    assert found["tuned"]["device_ms_per_on_time"] < 0.7 * found["start"]["device_ms_per_on_time"]
    assert found["tuned"]["efficiency"] > 0
    # The scenario's own window is longer than its budget: a server would refuse it.
    assert all(found[name]["window_ms"] < 50 for name in ("start", "tuned"))


@pytest.mark.slow
def test_a_recording_tunes_the_model_that_is_named(tmp_path, capsys):
    Live(tmp_path / "r").play(steady(200, apart_us=1000))
    recorded = f"--recording {tmp_path / 'r'}"
    assert tune(f"{recorded} --model pads --promise 0.9 --json {tmp_path / 'found'}") == 0
    printed = tomllib.loads("[models.pads]" + capsys.readouterr().out.partition("[models.pads]")[2])
    found = json.loads((tmp_path / "found").read_text())
    start, tuned = found["start"], found["tuned"]
    assert found["is_kept"]
    assert start["requests"] == tuned["requests"] == 200
    assert start["efficiency"] == POLICIES["pads"].efficiency
    assert start["max_batch_size"] == POLICIES["pads"].max_batch_size
    assert tuned["device_ms_per_on_time"] < start["device_ms_per_on_time"]
    assert printed["models"]["pads"] == {name: tuned[name] for name in printed["models"]["pads"]}


def test_a_recording_of_several_models_asks_which(tmp_path, capsys):
    Live(tmp_path / "r").play(steady(4))
    assert tune(f"--recording {tmp_path / 'r'}") == 2
    assert ", ".join(POLICIES) in capsys.readouterr().err


@pytest.mark.slow
def test_a_promise_that_cannot_be_kept_is_said(capsys):
    assert tune("--scenario images --load 2 --requests 600") == 1
    assert "no setting keeps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ("--promise 0", "--promise"),
        ("--promise 1.5", "--promise"),
        ("--load 0.5 0.6", "give one"),
        ("--scenario nowhere", "known are"),
        ("--policies eager", "--policies"),
        ("--recording /nowhere", "nowhere"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(capsys, words, word):
    assert tune(words) == 2
    assert word in capsys.readouterr().err


@pytest.mark.slow
def test_its_page_shows_what_was_found_and_all_that_was_tried(tmp_path):
    page = tmp_path / "page.html"
    options = ["--budgets", "200", "--load", "0.5", "--requests", "200", "--html", str(page)]
    assert main(["tune", *options]) in {0, 1}
    text = page.read_text(encoding="utf-8")
    assert "Everything that was tried" in text
    assert "max_batch_size = " in text
    assert text.index("For the configuration file") < text.index("All points")
