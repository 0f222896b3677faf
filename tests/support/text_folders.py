"""Text models as Hugging Face lays them out: tiny, with fixed weights, and every file beside."""

import json
from pathlib import Path

import numpy as np
from benchmarks.models.graph import FLOAT, INT64, Graph

from xirang.repository.minilm import write_tokenizer

VOCABULARY, DIMENSION = 30_522, 8
TOKENS = ["batch", "tokens"]
IDS = ("input_ids", "attention_mask")


def lay(folder: Path, *, below="", tokens_max=None, **files) -> Path:
    """Put a tokenizer and JSON files into a folder; where the model's own file goes.

    Args:
        folder: Of the model.
        below: Folder in it for the model's file.
        tokens_max: Of the tokenizer.
        files: Name without its ending, `__` for a slash, to content.
    """
    (folder / below).mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder / "tokenizer.json")
    if tokens_max is not None:
        files["tokenizer_config"] = {"model_max_length": tokens_max}
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return folder / below / "model.onnx"


def embedder(folder: Path, *, below="", seed=0, **files) -> Path:
    """A row of a table for each token."""
    path = lay(folder, below=below, **files)
    graph = Graph()
    graph.node("Gather", graph.constant(table(seed)), "input_ids", result="last_hidden_state")
    hidden = ("last_hidden_state", FLOAT, [*TOKENS, DIMENSION])
    graph.save(path, _inputs(), [hidden])
    return folder


def classifier(folder: Path, labels=("bad", "good", "odd"), *, seed=0, **config) -> Path:
    """The mean of the tokens' rows times a matrix."""
    numbered = {str(number): label for number, label in enumerate(labels)}
    architectures = ["BertForSequenceClassification"]
    config = {"architectures": architectures, "id2label": numbered} | config
    path = lay(folder, config=config)
    graph = Graph()
    rows = graph.node("Gather", graph.constant(table(seed)), "input_ids")
    mean = _mean(graph, rows, "attention_mask")
    weights = np.random.default_rng(seed + 1).standard_normal((DIMENSION, len(labels))) * 4
    graph.node("MatMul", mean, graph.constant(weights), result="logits")
    graph.save(path, _inputs(), [("logits", FLOAT, ["batch", len(labels)])])
    return folder


def reranker(folder: Path, *, seed=0) -> Path:
    """How alike the means of a pair's two texts are: the more words they share, the higher."""
    path = lay(
        folder,
        config={"architectures": ["XForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
    )
    graph = Graph()
    rows = graph.node("Gather", graph.constant(table(seed)), "input_ids")
    second = graph.node("Mul", "token_type_ids", "attention_mask")
    first = graph.node("Sub", "attention_mask", second)
    product = graph.node("Mul", _mean(graph, rows, first), _mean(graph, rows, second))
    axis = graph.constant([1], np.int64)
    graph.node("ReduceSum", product, axis, result="logits", keepdims=1)
    graph.save(path, _inputs("token_type_ids"), [("logits", FLOAT, ["batch", 1])])
    return folder


def splade(folder: Path) -> Path:
    """A logit for each token and word: the word itself, and the next one half as much."""
    modules = [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.sparse_encoder.models.SpladePooling", "path": "1"},
    ]
    path = lay(folder, modules=modules)
    graph = Graph()
    depth = graph.constant([VOCABULARY], np.int64)
    on_off = graph.constant([0.0, 1.0])
    own = graph.node("OneHot", "input_ids", depth, on_off)
    following = graph.node("Add", "input_ids", graph.constant([1], np.int64))
    half = graph.node("Mul", graph.node("OneHot", following, depth, on_off), graph.constant(0.5))
    graph.node("Add", own, half, result="logits")
    graph.save(path, _inputs(), [("logits", FLOAT, [*TOKENS, VOCABULARY])])
    return folder


def table(seed=0):
    """One row for each word."""
    return np.random.default_rng(seed).standard_normal((VOCABULARY, DIMENSION)).astype(np.float32)


def _inputs(*more):
    return [(name, INT64, TOKENS) for name in (*IDS, *more)]


def _mean(graph, rows, mask):
    weights = graph.node("Cast", mask, to=FLOAT)
    wide = graph.node("Unsqueeze", weights, graph.constant([2], np.int64))
    axis = graph.constant([1], np.int64)
    total = graph.node("ReduceSum", graph.node("Mul", rows, wide), axis, keepdims=0)
    count = graph.node("ReduceSum", weights, axis, keepdims=1)
    return graph.node("Div", total, graph.node("Max", count, graph.constant(1.0)))
