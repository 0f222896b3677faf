"""The pages say what the code does: tables, links, file names, figures and examples."""

import argparse
import re
import subprocess
import sys
from functools import cache

import pytest

import xirang.errors
import xirang.frontends.errors
from tests.test_tidy import ROOT, SOURCE
from xirang.config import options_of
from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.run import Trigger
from xirang.core.scheduler import Scheduler
from xirang.frontends.extensions import EXTENSIONS
from xirang.lab.replay_command import add_replay
from xirang.lab.simulate import add_simulate
from xirang.lab.tune_command import add_tune
from xirang.observe.metrics import render
from xirang.observe.statistics import Statistics
from xirang.repository.minilm import prepare

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"\{\{FIGURE:\w+\}\}")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@cache
def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def table_rows(text):
    """Cells of every table row, without the backticks around a whole cell."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]


def anchors_of(text):
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


# ---------------------------------------------------------------------- all pages


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path):
    text = page(name_of(path))
    broken = []
    for target in LINK.findall(text):
        if target.startswith(("http://", "https://")):
            continue
        place, _, anchor = target.partition("#")
        found = (path.parent / place).resolve() if place else path
        is_there = found.exists() and (
            not anchor or anchor in anchors_of(found.read_text(encoding="utf-8"))
        )
        if not is_there:
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_figure_is_filled_in(path):
    assert not FIGURE.findall(page(name_of(path)))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_named_files_exist(path):
    """What stands in backticks and looks like a file of the repository is one."""
    folders = "benchmarks|core|docs|engine|frontends|lab|observe|backends|tensors|text|tests"
    named = re.findall(rf"`((?:src/xirang|{folders})/[\w./]+\.\w+)`", page(name_of(path)))
    missing = [each for each in named if not any((r / each).exists() for r in (ROOT, SOURCE))]
    assert not missing


# ---------------------------------------------------------------------- tables


def test_the_settings_are_those_of_the_code():
    expected = [
        [
            option.name,
            f"--{option.name.replace('_', '-')}",
            f"XIRANG_{option.name.upper()}",
            str(option.default),
            option.help,
        ]
        for option in options_of()
    ]
    rows = [row for row in table_rows(page("docs/configuration.md")) if row[1][:2] == "--"]
    assert rows == expected, "\n".join(
        "| {} | {} |".format(" | ".join(f"`{cell}`" for cell in row[:4]), row[4])
        for row in expected
    )


def test_the_metrics_are_those_of_the_code():
    statistics, scheduler = Statistics(unix_ms=lambda: 0), Scheduler(devices={"cpu": 1})
    scheduler.add_model("m", Policy(), CostModel())
    statistics.add_model("m", "1")
    rendered = render(statistics, scheduler.snapshot(now_ns=0))
    expected = dict(re.findall(r"^# TYPE (\w+) (\w+)$", rendered, re.MULTILINE))
    rows = table_rows(page("docs/metrics.md"))
    assert {row[0]: row[1] for row in rows if row[0].startswith(("xirang_", "nv_"))} == expected
    for trigger in Trigger:
        assert f"`{trigger.value}`" in page("docs/metrics.md")


def test_the_statuses_are_those_of_the_code():
    kinds = [
        kind
        for module in (xirang.errors, xirang.frontends.errors)
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, xirang.errors.XirangError)
        and kind not in (xirang.errors.XirangError, xirang.errors.InvalidSetting)
    ]
    rows = table_rows(page("docs/protocols.md"))
    assert {row[1]: row[0] for row in rows if re.fullmatch(r"\d{3}", row[0])} == {
        kind.__name__: str(kind.status) for kind in kinds
    }


def test_the_extensions_are_those_of_the_code():
    told = page("docs/protocols.md").partition("Extensions reported:")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", told) == list(EXTENSIONS)


def options_of_command(add):
    parser = argparse.ArgumentParser()
    add(parser.add_subparsers())
    (command,) = parser._subparsers._group_actions[0].choices.values()
    known = {word for action in command._actions for word in action.option_strings}
    return known - {"-h", "--help"}


def test_the_simulators_options_are_those_of_the_code():
    simulated, _, rest = page("docs/simulator.md").partition("\n## Tuning\n")
    tuned, _, replayed = rest.partition("\n## Replay\n")
    told = [set(re.findall(r"--[a-z][a-z-]*", part)) for part in (simulated, tuned, replayed)]
    known = [options_of_command(add) for add in (add_simulate, add_tune, add_replay)]
    assert told[0] == known[0]
    assert known[1] - known[0] <= told[1] <= known[1]
    assert {"--simulate"} <= told[2] <= known[2]


# ---------------------------------------------------------------------- architecture


def test_the_code_map_names_every_file():
    text = page("docs/architecture.md").partition("## Rooms")[2].partition("## Invariants")[0]
    named = []
    for section in text.split("\n### ")[1:]:
        (folder,) = re.findall(r"\A`(?:\./)?([\w/]*?)/?`", section)
        named += [
            f"{folder}/{name}".strip("/") for name in re.findall(r"^- `(.+?)`", section, re.M)
        ]
    files = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py")}
    assert sorted(named) == sorted(f for f in files if not f.endswith("__init__.py"))


def test_the_cores_surface_is_all_there():
    text = page("docs/architecture.md").partition("whole surface")[2].partition("## Rooms")[0]
    named = [row[0].partition("(")[0] for row in table_rows(text)][1:]
    public = [name for name in vars(Scheduler) if not name.startswith("_")]
    assert sorted(named) == sorted(public)


def test_the_corridor_names_what_there_is():
    text = page("docs/architecture.md").partition("## The corridor")[2].partition("## The core")[0]
    for _, files, functions, _ in (row for row in table_rows(text) if row[0].isdigit()):
        sources = [(SOURCE / name).read_text() for name in re.findall(r"[\w/]+\.py", files)]
        for function in re.findall(r"[\w.]+", functions):
            for part in function.split("."):
                assert any(re.search(rf"(def|class) {part}\b", s) for s in sources), function


# ---------------------------------------------------------------------- examples


def examples():
    return [
        pytest.param(source, id=f"{name_of(path)}-{number}")
        for path in PAGES
        for number, source in enumerate(EXAMPLE.findall(page(name_of(path))), 1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("source", examples())
def test_an_example_runs_as_it_stands(source, tmp_path):
    prepare(tmp_path / "models")
    script = tmp_path / "example.py"
    script.write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
