"""The house rules that no linter knows, kept by a test."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "xirang"
SOURCE_FILES = sorted(SOURCE.rglob("*.py"))
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
OTHER_FILES = sorted(
    path for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
)
ALL_FILES = [*SOURCE_FILES, *TEST_FILES, *OTHER_FILES]

FILE_LINES_MAX = 500
SHELL_LINES_MAX = 300
SHELLS = ("frontends/wire/http.py", "engine/driver.py")
FUNCTION_LINES_MAX = 70

LEFTOVERS = re.compile(
    r"\b(TO" "DO|FIX" "ME|X" "XX|HA" "CK)\b|NotImplemented" "Error|<" "<<<<<<|>" ">>>>>>"
)
"""Marks that say a thing is not done; written in pieces, so that this file has none."""

CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
CLOCK_FILES = ("engine/clock.py",)
WAITS = {"sleep"}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def calls_of(tree, module, names):
    """Lines that use one of the names of a module, however it was imported."""
    aliases, imported = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {a.asname or a.name for a in node.names if a.name == module}
        elif isinstance(node, ast.ImportFrom) and node.module == module:
            imported |= {a.asname or a.name for a in node.names if a.name in names}
    return [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in imported)
        or (
            isinstance(node, ast.Attribute)
            and node.attr in names
            and isinstance(node.value, ast.Name)
            and node.value.id in aliases
        )
    ]


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_a_file_says_what_it_is_for_and_stays_readable(path):
    text = path.read_text(encoding="utf-8")
    if path.name == "__init__.py" and not text.strip():
        return
    tree = tree_of(path)
    assert ast.get_docstring(tree), "a file opens with one sentence that says what it is for"
    assert text.count("\n") <= FILE_LINES_MAX
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_nothing_is_left_over(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"{i}: {line.strip()}" for i, line in enumerate(lines, 1) if LEFTOVERS.search(line)]
    assert not found


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_stays_thin(name):
    path = SOURCE / name
    assert path.read_text(encoding="utf-8").count("\n") <= SHELL_LINES_MAX


def test_each_file_of_the_core_has_its_test():
    values = {"request.py", "policy.py", "run.py", "event.py", "snapshot.py"}  # nothing to test
    core = [p.relative_to(SOURCE / "core") for p in (SOURCE / "core").rglob("[!_]*.py")]
    tests = ROOT / "tests" / "core"
    untested = [
        str(path)
        for path in core
        if str(path) not in values and not (tests / path.with_name(f"test_{path.name}")).exists()
    ]
    assert not untested
    known = {str(path.with_name(f"test_{path.name}")) for path in core}
    strays = [p for p in tests.rglob("test_*.py") if str(p.relative_to(tests)) not in known]
    assert not strays, "a test of a core file that is gone"


@pytest.mark.parametrize(
    "path", [p for p in SOURCE_FILES if "lab" not in p.relative_to(SOURCE).parts], ids=name_of
)
def test_only_the_clock_reads_a_clock(path):
    if path.relative_to(SOURCE).as_posix() in CLOCK_FILES:
        return
    tree = tree_of(path)
    assert not calls_of(tree, "time", CLOCKS | WAITS)
    assert not calls_of(tree, "datetime", {"datetime"})


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_no_test_sleeps(path):
    tree = tree_of(path)
    slept = calls_of(tree, "time", WAITS)
    # A turn of the event loop, sleep(0), is no waiting.
    slept += [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "asyncio.sleep"
        and ast.unparse(node.args[0]) != "0"
    ]
    if name_of(path).startswith(("tests/e2e/", "tests/support/server")):
        return  # a real server is waited for by asking its port
    assert not slept
