"""`xirang simulate` from its arguments to its bytes."""

import argparse
import json

import pytest

from xirang.lab.simulate import add_simulate


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
    assert "· 0.50" in output


def test_files(tmp_path, capsys):
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    assert run("--load", "0.3", "0.8", "--html", str(page), "--json", str(numbers)) == 0
    assert "Latency distribution" in page.read_text()
    assert len(json.loads(numbers.read_text())["points"]) == 2
    assert "mean batch" in capsys.readouterr().out


def test_batching_saves_device_time(capsys):
    spent = {}
    for batching in ("optimal", "first-come", "off"):
        (point,) = figures(
            capsys, "--batching", batching, "--arrivals", "closed:64", "--budget-ms", "1e6"
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
    "budgets": ["--budget-ms", "100:1,500:3", "--priorities", "1:1,3:2", "--rate", "50"],
    "fixed shape": ["--law", "5,0.25", "--lengths", "fixed:1", "--rate", "900", "--instances", "2"],
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
    "budget": (["--budget-ms", "0"], "--budget-ms 0: expected 0.001"),
    "priority": (["--priorities", "4"], "expected 1 (high), 2 or 3"),
    "weights": (["--budget-ms", "5:-1"], "weights must not be negative"),
    "instances": (["--instances", "0"], "--instances 0: expected 1"),
    "efficiency": (["--efficiency", "2"], "--efficiency 2: expected 0 to 1"),
    "rate": (["--rate", "0"], "the rate 0: expected"),
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


def test_an_unknown_way_of_batching_lists_the_known(capsys):
    with pytest.raises(SystemExit) as stopped:
        run("--batching", "best")
    assert stopped.value.code == 2
    assert "optimal" in capsys.readouterr().err
