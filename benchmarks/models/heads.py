"""A classifier and a cross-encoder, which no package holds ready: MiniLM with a head on top.

The encoder is the real one, with all its weights. The classifier's head is a regression on its
pooled vectors, learned here from conversations about eleven topics. The cross-encoder reads a
question and an answer together, attention and all; its head is fixed: the cosine of the two halves,
times ten.
"""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ENCODER = "all-MiniLM-L6-v2"
HIDDEN, DIMENSION = "last_hidden_state", 384
TOPICS = (
    "coding", "emotion", "food", "greetings", "literature", "money", "movies", "politics",
    "psychology", "science", "sports",
)  # fmt: skip
LEARNED, CHARACTERS_MAX = 30, 400
"""Of each topic at most so many conversations are learned from; the rest are for tests."""
SCALE = 10.0


def build_topics(root: Path, home: Path) -> None:
    """Learn the head, and put it behind the encoder."""
    from sklearn.linear_model import LogisticRegression

    texts, labels = zip(*examples(root, is_for_tests=False), strict=True)
    vectors = _Encoder(root).vectors(texts)
    learned = LogisticRegression(C=30.0, max_iter=2000).fit(vectors, labels)
    graph = _Behind(root)
    mean = graph.normal(graph.mean("attention_mask"))
    product = graph.node("MatMul", mean, graph.constant(learned.coef_.T))
    graph.node("Add", product, graph.constant(learned.intercept_), result="logits")
    graph.save(home / "model.onnx", len(TOPICS))
    _describe(root, home, {str(number): topic for number, topic in enumerate(TOPICS)})


def build_answers(root: Path, home: Path) -> None:
    """Put the cosine of two texts that are read together behind the encoder."""
    graph = _Behind(root)
    second = graph.node("Mul", "token_type_ids", "attention_mask")
    first = graph.node("Sub", "attention_mask", second)
    halves = [graph.normal(graph.mean(mask)) for mask in (first, second)]
    axis = graph.constant([1], np.int64)
    cosine = graph.node("ReduceSum", graph.node("Mul", *halves), axis, keepdims=1)
    graph.node("Mul", cosine, graph.constant(SCALE), result="logits")
    graph.save(home / "model.onnx", 1)
    _describe(root, home, {"0": "LABEL_0"})


def examples(root: Path, *, is_for_tests: bool) -> Iterator[tuple[str, int]]:
    """Conversations and the number of their topic."""
    for number, topic in enumerate(TOPICS):
        found = list(_conversations(root / "sources" / "conversations" / f"{topic}.yml"))
        kept = [" ".join(each)[:CHARACTERS_MAX] for each in found if each]
        half = min(LEARNED, len(kept) * 3 // 4)
        for text in kept[half : half + LEARNED] if is_for_tests else kept[:half]:
            yield text, number


def questions(root: Path) -> Iterator[tuple[str, str]]:
    """What was asked, and what was answered, in a quiz."""
    for lines in _conversations(root / "sources" / "conversations" / "trivia.yml"):
        if len(lines) > 1:
            yield lines[0], lines[1]


def _conversations(path: Path) -> Iterator[list[str]]:
    """The corpus is a list of lists of lines; of a line that is folded the beginning will do."""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        found = re.match(r"(- )?\s*- (.*\S)", line)
        if found is None:
            continue
        if found[1] and lines:
            yield lines
            lines = []
        if (found[1] or lines) and found[2][0] not in "|>":  # a block follows: code, mostly
            lines.append(found[2].strip("'\""))
    if lines:
        yield lines


class _Encoder:
    """MiniLM, run text by text."""

    def __init__(self, root: Path) -> None:
        import onnxruntime as ort
        from tokenizers import Tokenizer

        self._session = ort.InferenceSession(str(root / ENCODER / "model.onnx"))
        self._tokenizer = Tokenizer.from_file(str(root / ENCODER / "tokenizer.json"))

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """One vector of length one a text."""
        means = np.stack([self._states(text).mean(axis=0) for text in texts])
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def _states(self, text: str) -> np.ndarray:
        ids = np.array([self._tokenizer.encode(text).ids])
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        inputs["token_type_ids"] = np.zeros_like(ids)
        return self._session.run([HIDDEN], inputs)[0][0]


class _Behind:
    """Nodes behind the encoder's own; its states are no output any more."""

    def __init__(self, root: Path) -> None:
        self._model = onnx.load(root / ENCODER / "model.onnx")
        self._count = 0

    def constant(self, values, dtype=np.float32) -> str:
        """Values that come along."""
        self._count += 1
        array = numpy_helper.from_array(np.asarray(values, dtype), f"head_{self._count}")
        self._model.graph.initializer.append(array)
        return array.name

    def node(self, kind: str, *inputs: str, result: str = "", **attributes) -> str:
        """One more node; its result's name."""
        self._count += 1
        name = result or f"head_{self._count}"
        self._model.graph.node.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def mean(self, mask: str) -> str:
        """Of the states of the tokens of a mask."""
        weights = self.node("Cast", mask, to=TensorProto.FLOAT)
        wide = self.node("Unsqueeze", weights, self.constant([2], np.int64))
        axis = self.constant([1], np.int64)
        total = self.node("ReduceSum", self.node("Mul", HIDDEN, wide), axis, keepdims=0)
        count = self.node("ReduceSum", weights, axis, keepdims=1)
        return self.node("Div", total, self.node("Max", count, self.constant(1.0)))

    def normal(self, vector: str) -> str:
        """Scaled to length one."""
        axis = self.constant([1], np.int64)
        length = self.node("Sqrt", self.node("ReduceSum", self.node("Mul", vector, vector), axis))
        return self.node("Div", vector, self.node("Max", length, self.constant(1e-12)))

    def save(self, path: Path, classes: int) -> None:
        """Check and write the model."""
        graph = self._model.graph
        del graph.output[:]
        graph.output.append(
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])
        )
        onnx.checker.check_model(self._model)
        onnx.save(self._model, path)


def _describe(root: Path, home: Path, labels: dict[str, str]) -> None:
    """What makes the folder one of Hugging Face's."""
    shutil.copy(root / ENCODER / "tokenizer.json", home)
    config = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "max_position_embeddings": 512,
        "id2label": labels,
    }
    (home / "config.json").write_text(json.dumps(config, indent=1))
