"""Small graphs that are wrong to batch or to pad, each for another reason."""

from pathlib import Path

import numpy as np

from benchmarks.models.graph import FLOAT, INT64, Graph

VOCABULARY, WIDTH, STATE, TAGS = 64, 32, 32, 6
TOKENS = ("ids", INT64, ["batch", "length"])
FEATURES = ("x", FLOAT, ["batch", WIDTH])
SAME = [("y", FLOAT, ["batch", WIDTH])]


def build_bilstm(_root: Path, home: Path) -> None:
    """A tagger that reads both ways and has no mask: padding runs into the backward half."""
    random, graph = np.random.default_rng(5), Graph()
    weights = (
        graph.constant(random.normal(0, 0.5, shape))
        for shape in ((2, 4 * STATE, WIDTH), (2, 4 * STATE, STATE), (2, 8 * STATE))
    )
    steps = graph.node("Transpose", _embedded(graph, random), perm=[1, 0, 2])
    read = graph.node("LSTM", steps, *weights, hidden_size=STATE, direction="bidirectional")
    # [length, 2, batch, state] to [batch, length, 2 · state]
    rows = graph.node("Transpose", read, perm=[2, 0, 1, 3])
    flat = graph.node("Reshape", rows, graph.constant([0, 0, 2 * STATE], np.int64))
    head = graph.constant(random.normal(0, 0.5, (2 * STATE, TAGS)))
    graph.node("MatMul", flat, head, result="tags")
    graph.save(home / "model.onnx", [TOKENS], [("tags", FLOAT, ["batch", "length", TAGS])])


def build_mean_without_mask(_root: Path, home: Path) -> None:
    """Padding counts as tokens."""
    graph = Graph()
    embedded = _embedded(graph, np.random.default_rng(6))
    graph.node("ReduceMean", embedded, graph.constant([1], np.int64), result="y", keepdims=0)
    graph.save(home / "model.onnx", [TOKENS], SAME)


def build_batch_norm_in_training(_root: Path, home: Path) -> None:
    """Every row is measured by the mean and the spread of all rows."""
    graph = Graph()
    rows = graph.constant([0], np.int64)
    centred = graph.node("Sub", "x", graph.node("ReduceMean", "x", rows))
    variance = graph.node("ReduceMean", graph.node("Mul", centred, centred), rows)
    spread = graph.node("Sqrt", graph.node("Add", variance, graph.constant(1e-5)))
    graph.node("Div", centred, spread, result="y")
    graph.save(home / "model.onnx", [FEATURES], SAME)


def build_softmax_over_batch(_root: Path, home: Path) -> None:
    """Rows share one sum of one."""
    graph = Graph()
    graph.node("Softmax", "x", axis=0, result="y")
    graph.save(home / "model.onnx", [FEATURES], SAME)


def build_scale_over_all(_root: Path, home: Path) -> None:
    """The largest value of all rows sets the scale of each."""
    graph = Graph()
    largest = graph.node("ReduceMax", graph.node("Abs", "x"), keepdims=1)
    graph.node("Div", "x", graph.node("Max", largest, graph.constant(1e-9)), result="y")
    graph.save(home / "model.onnx", [FEATURES], SAME)


def _embedded(graph: Graph, random: np.random.Generator) -> str:
    table = graph.constant(random.normal(0, 1, (VOCABULARY, WIDTH)))
    return graph.node("Gather", table, "ids")
