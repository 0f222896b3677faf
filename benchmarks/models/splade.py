"""SPLADE-tiny as ONNX, from its weights: two layers of BERT and a head over the vocabulary.

Formal, Piwowarski and Clinchant, "SPLADE", SIGIR 2021: a text becomes one weight for each word,
the largest log(1 + relu(logit)) over its tokens. The logits are [batch, tokens, 30522]: a small
model whose values in between are very large.
"""

import json
from math import sqrt
from pathlib import Path

import numpy as np

from benchmarks.models.graph import FLOAT, INT64, Graph
from xirang.repository.minilm import write_tokenizer

LAYERS, HEADS, HIDDEN, VOCABULARY = 2, 2, 128, 30522
EPSILON = 1e-12
BLOCKED = 1e9
"""Taken from the score of a masked token: its weight becomes exactly 0 in float32."""


def build(root: Path, home: Path) -> None:
    """Write the model, and the tokenizer of BERT, whose vocabulary it has."""
    _Bert(read_safetensors(root / "sources" / "splade-tiny.safetensors")).write(home / "model.onnx")
    write_tokenizer(home / "tokenizer.json")


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Float32 tensors: a length, a JSON header, then the bytes."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = memoryview(data)[8 + size :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
        for name, entry in header.items()
    }


class _Bert:
    """The graph in the making, with the weights under the names of the file."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self._weights = weights
        self._graph = Graph()
        self._node, self._constant = self._graph.node, self._graph.constant
        self._words = self._constant(weights["bert.embeddings.word_embeddings.weight"])

    def write(self, path: Path) -> None:
        """The whole network."""
        node, constant = self._node, self._constant
        mask = node("Cast", "attention_mask", to=FLOAT)
        absent = node("Sub", constant(1.0), node("Unsqueeze", mask, constant([1, 2], np.int64)))
        bias = node("Mul", absent, constant(-BLOCKED))
        hidden = self._embeddings()
        for number in range(LAYERS):
            hidden = self._layer(f"bert.encoder.layer.{number}.", hidden, bias)
        logits = self._head(hidden)
        weight = node("Log", node("Add", node("Relu", logits), constant(1.0)))
        masked = node("Mul", weight, node("Unsqueeze", mask, constant([2], np.int64)))
        node("ReduceMax", masked, constant([1], np.int64), result="sparse", keepdims=0)
        tokens = ["batch", "sequence"]
        self._graph.save(
            path,
            [("input_ids", INT64, tokens), ("attention_mask", INT64, tokens)],
            [("sparse", FLOAT, ["batch", VOCABULARY])],
        )

    def _embeddings(self) -> str:
        node, constant = self._node, self._constant
        places = constant(self._weights["bert.embeddings.position_embeddings.weight"])
        kinds = self._weights["bert.embeddings.token_type_embeddings.weight"]
        length = node("Shape", "input_ids", start=1, end=2)
        place = node("Slice", places, constant([0], np.int64), length, constant([0], np.int64))
        words = node("Gather", self._words, "input_ids")
        summed = node("Add", node("Add", words, place), constant(kinds[0]))
        return self._norm("bert.embeddings.", summed)

    def _layer(self, name: str, hidden: str, bias: str) -> str:
        node, constant = self._node, self._constant
        query, key, value = (
            self._split(self._dense(f"{name}attention.self.{part}.", hidden))
            for part in ("query", "key", "value")
        )
        scores = node("MatMul", query, node("Transpose", key, perm=[0, 1, 3, 2]))
        scaled = node("Div", scores, constant(sqrt(HIDDEN / HEADS)))
        attended = node("MatMul", node("Softmax", node("Add", scaled, bias), axis=-1), value)
        joined = node("Transpose", attended, perm=[0, 2, 1, 3])
        flat = node("Reshape", joined, constant([0, 0, HIDDEN], np.int64))
        mixed = self._dense(f"{name}attention.output.dense.", flat)
        hidden = self._norm(f"{name}attention.output.", node("Add", mixed, hidden))
        wide = node("Gelu", self._dense(f"{name}intermediate.dense.", hidden))
        return self._norm(
            f"{name}output.", node("Add", self._dense(f"{name}output.dense.", wide), hidden)
        )

    def _head(self, hidden: str) -> str:
        name = "cls.predictions."
        turned = self._node("Gelu", self._dense(f"{name}transform.dense.", hidden))
        words = self._node("Transpose", self._words, perm=[1, 0])  # the embeddings serve twice
        logits = self._node("MatMul", self._norm(f"{name}transform.", turned), words)
        return self._node("Add", logits, self._constant(self._weights[f"{name}bias"]))

    def _split(self, value: str) -> str:
        shape = self._constant([0, 0, HEADS, HIDDEN // HEADS], np.int64)
        return self._node("Transpose", self._node("Reshape", value, shape), perm=[0, 2, 1, 3])

    def _dense(self, name: str, value: str) -> str:
        product = self._node("MatMul", value, self._constant(self._weights[f"{name}weight"].T))
        return self._node("Add", product, self._constant(self._weights[f"{name}bias"]))

    def _norm(self, name: str, value: str) -> str:
        scale = self._constant(self._weights[f"{name}LayerNorm.gamma"])
        shift = self._constant(self._weights[f"{name}LayerNorm.beta"])
        return self._node("LayerNormalization", value, scale, shift, axis=-1, epsilon=EPSILON)
