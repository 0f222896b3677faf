"""What a text model is for, by its folder and its outputs."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.support import text_folders
from tests.support.text_folders import DIMENSION, VOCABULARY

from xirang.backends.onnx import OnnxExecutable
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.text.folder import Pooling, TextFolder, read_folder
from xirang.text.task import Task, purpose_of


def found(folder, below=""):
    model = folder / below / "model.onnx"
    return purpose_of(OnnxExecutable(model), read_folder(model), VOCABULARY)


def with_outputs(*outputs):
    specs = tuple(TensorSpec(name, "FP32", dims) for name, dims in outputs)
    mask = TensorSpec("attention_mask", "INT64", (None, None))
    return SimpleNamespace(
        inputs=(mask,), outputs=specs, platform="", is_reentrant=True, keeps_inputs=False
    )


def test_hidden_states_are_pooled_as_the_folder_says(tmp_path):
    config = {"1_Pooling__config": {"pooling_mode_cls_token": True}}
    purpose = found(text_folders.embedder(tmp_path, modules=[], **config))
    assert (purpose.task, purpose.output, purpose.width) == (Task.EMBED, "embedding", DIMENSION)
    assert purpose.hidden == "last_hidden_state"
    ids = np.array([[7, 8, 9]])
    outputs = purpose.executable.run(
        {"input_ids": ids, "attention_mask": np.ones_like(ids)}, ["embedding"]
    )
    row = text_folders.table()[7]
    assert np.abs(outputs["embedding"][0] - row / np.linalg.norm(row)).max() < 1e-6


def test_classes_and_a_score(tmp_path):
    purpose = found(text_folders.classifier(tmp_path / "c"))
    assert (purpose.task, purpose.output, purpose.width) == (Task.CLASSIFY, "logits", 3)
    purpose = found(text_folders.reranker(tmp_path / "r"))
    assert (purpose.task, purpose.output, purpose.width) == (Task.RERANK, "logits", 1)


def test_logits_of_the_vocabulary_become_weights_of_words(tmp_path):
    purpose = found(text_folders.splade(tmp_path))
    assert (purpose.task, purpose.width) == (Task.SPARSE, VOCABULARY)
    ids = np.array([[7, 9]])
    outputs = purpose.executable.run(
        {"input_ids": ids, "attention_mask": np.array([[1, 0]])}, [purpose.output]
    )
    weights = outputs[purpose.output][0]
    assert np.flatnonzero(weights).tolist() == [7, 8]
    assert weights[[7, 8]].tolist() == pytest.approx([np.log(2), np.log(1.5)])


def test_weights_of_words_that_are_pooled_already():
    executable = with_outputs(("sparse", (None, VOCABULARY)), ("mean_hidden", (None, 8)))
    purpose = purpose_of(executable, TextFolder(None), VOCABULARY)
    assert (purpose.task, purpose.output) == (Task.SPARSE, "sparse")
    assert purpose.executable is executable


def test_a_vector_that_is_pooled_already():
    executable = with_outputs(
        ("token_embeddings", (None, None, 8)), ("sentence_embedding", (None, 8))
    )
    purpose = purpose_of(executable, TextFolder(None, pooling=Pooling.CLS), VOCABULARY)
    assert (purpose.task, purpose.output, purpose.width) == (Task.EMBED, "sentence_embedding", 8)
    assert (purpose.executable, purpose.hidden) == (executable, "token_embeddings")


@pytest.mark.parametrize(
    ("outputs", "labels", "words"),
    [
        ([("y", (None, None, 8))], (), "needs an output"),
        ([("y", (None, 3))], ("a", "b"), "has 3 classes, but config.json names 2"),
        ([("y", (None, None))], (), "has -1 classes, but config.json names 0"),
    ],
)
def test_classes_that_do_not_fit_are_refused(outputs, labels, words):
    folder = TextFolder(None, is_classifier=True, labels=labels)
    with pytest.raises(InvalidSetting, match=words):
        purpose_of(with_outputs(*outputs), folder, VOCABULARY)


def test_open_classes_are_as_many_as_have_names():
    folder = TextFolder(None, is_classifier=True, labels=("a", "b"))
    assert purpose_of(with_outputs(("y", (None, None))), folder, VOCABULARY).width == 2


def test_a_model_that_is_none_of_these_is_refused():
    with pytest.raises(InvalidSetting, match="a text model needs an attention mask and an output"):
        purpose_of(with_outputs(("y", (None, 8))), TextFolder(None), VOCABULARY)
