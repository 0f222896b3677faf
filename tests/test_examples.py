"""Every example runs, says what it should, and stays short."""

import subprocess
import sys
from pathlib import Path

import pytest

from xirang.lab.server import ServerProcess
from xirang.repository import minilm

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
LINES_MAX = 60
RUN_BY_A_TEST = {
    "embed.py",
    "decorator.py",
    "openai_client.py",
    "callable/server.py",
    "callable/client.py",
    "onnx/make_model.py",
    "onnx/client.py",
    "torch/make_model.py",
}


def run(example, *arguments, folder=EXAMPLES, complaint=""):
    """What the example prints; what it complains of must be known."""
    command = [sys.executable, "-W", "error::ResourceWarning", str(EXAMPLES / example), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().endswith(complaint) if complaint else not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return minilm.prepare(tmp_path_factory.mktemp("models"))


def similarities(text):
    """The first numbers of the last three lines."""
    return [float(line.split()[0]) for line in text.splitlines()[-3:]]


def test_there_is_a_test_for_every_example():
    assert {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")} == RUN_BY_A_TEST


@pytest.mark.parametrize("example", sorted(RUN_BY_A_TEST))
def test_examples_are_short_and_say_what_they_are(example):
    text = (EXAMPLES / example).read_text()
    assert len(text.splitlines()) <= LINES_MAX
    assert text.startswith('"""')


def test_the_decorator():
    first, *results = run("decorator.py", complaint="division by zero").splitlines()
    assert first.startswith("100 calls ran as ")
    assert results[0] == "1.0"
    assert results[1].startswith("ModelFailed")
    assert results[2] == "0.25"


@pytest.mark.slow
def test_the_library(home):
    same, near, far = similarities(run("embed.py", str(home)))
    assert same == 1
    assert near > far + 0.2


@pytest.mark.e2e
def test_a_callable_and_its_client(monkeypatch):
    monkeypatch.chdir(EXAMPLES / "callable")
    with ServerProcess(["server:Scorer"]) as server:
        lines = run("callable/client.py", server.url).splitlines()
    assert [line.split()[0] for line in lines] == ["5.00", "-5.00", "0.00"]


@pytest.mark.e2e
def test_an_onnx_model_and_its_client(tmp_path):
    assert run("onnx/make_model.py", "tiny.onnx", folder=tmp_path) == "wrote tiny.onnx\n"
    with ServerProcess([tmp_path / "tiny.onnx"]) as server:
        text = run("onnx/client.py", server.url.removeprefix("http://"))
    assert "[[4. 0.]\n [12. 0.]]" in text.replace("[ 4.", "[4.").replace("  ", " ")
    assert "2 rows in 1 runs" in text


@pytest.mark.e2e
@pytest.mark.slow
def test_a_pytorch_model_and_the_same_client(tmp_path):
    pytest.importorskip("torch")
    assert run("torch/make_model.py", "tiny.pt2", folder=tmp_path) == "wrote tiny.pt2\n"
    with ServerProcess([tmp_path / "tiny.pt2"]) as server:
        text = run("onnx/client.py", server.url.removeprefix("http://"))
    assert "[[4. 0.]\n [12. 0.]]" in text.replace("[ 4.", "[4.").replace("  ", " ")
    assert "2 rows in 1 runs" in text


@pytest.mark.e2e
@pytest.mark.slow
def test_openais_client(home):
    with ServerProcess([home]) as server:
        text = run("openai_client.py", server.url)
    assert text.startswith(f"{minilm.NAME}: 384 dimensions, ")
    same, near, far = similarities(text)
    assert same == pytest.approx(1)
    assert near > far + 0.2
