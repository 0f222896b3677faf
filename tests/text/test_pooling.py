"""One vector a text, against a loop that anyone can read."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.support import models

from xirang.backends.onnx import OnnxExecutable
from xirang.errors import InvalidSetting
from xirang.text.folder import Pooling
from xirang.text.pooling import PooledExecutable, normalise, pool

RULES = {
    Pooling.MEAN: lambda kept: np.mean(kept, axis=0),
    Pooling.CLS: lambda kept: kept[0],
    Pooling.LAST: lambda kept: kept[-1],
    Pooling.MAX: lambda kept: np.max(kept, axis=0),
    Pooling.SPLADE: lambda kept: np.max(np.log(1 + np.maximum(kept, 0)), axis=0),
}


def naive(hidden, mask, pooling):
    vectors = []
    for states, row in zip(hidden, mask, strict=True):
        kept = [state for state, is_token in zip(states, row, strict=True) if is_token]
        vectors.append(RULES[pooling](kept) if kept else np.zeros(hidden.shape[2]))
    return np.array(vectors)


@given(
    st.sampled_from(Pooling),
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
)
def test_each_rule_is_what_it_says_over_the_tokens_of_the_mask(
    pooling, rows, tokens, dimension, seed
):
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((rows, tokens, dimension)).astype(np.float32)
    mask = rng.integers(0, 2, (rows, tokens))
    pooled = pool(hidden, mask, pooling)
    assert pooled.dtype == np.float32
    assert np.abs(pooled - naive(hidden, mask, pooling)).max() < 1e-5


def test_vectors_are_scaled_to_one():
    vectors = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.abs(normalise(vectors.copy()) - expected).max() < 1e-6
    assert normalise(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]


def test_padding_changes_nothing():
    rng = np.random.default_rng(1)
    hidden = rng.standard_normal((2, 4, 3)).astype(np.float32)
    padded = np.concatenate([hidden, rng.standard_normal((2, 5, 3)).astype(np.float32)], axis=1)
    mask = np.ones((2, 4), np.int64)
    padded_mask = np.concatenate([mask, np.zeros((2, 5), np.int64)], axis=1)
    assert np.abs(pool(hidden, mask) - pool(padded, padded_mask)).max() < 1e-6


def test_an_empty_mask_gives_a_zero_and_no_nan():
    assert pool(np.ones((1, 2, 3), np.float32), np.zeros((1, 2), np.int64)).tolist() == [[0, 0, 0]]


@pytest.fixture
def pooled(tmp_path):
    return PooledExecutable(OnnxExecutable(models.hidden_states(tmp_path / "m.onnx")))


def test_the_embedding_is_one_more_output(pooled):
    assert [spec.name for spec in pooled.outputs] == ["embedding", "last_hidden_state"]
    assert (pooled.outputs[0].shape, pooled.dimension) == ((-1, 8), 8)
    ids = np.array([[5, 6, 7]])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    both = pooled.run(inputs, ["last_hidden_state", "embedding"])
    assert list(both) == ["last_hidden_state", "embedding"]
    expected = normalise(pool(both["last_hidden_state"], np.ones_like(ids)))
    assert both["embedding"].tolist() == expected.tolist()
    assert list(pooled.run(inputs, ["embedding"])) == ["embedding"]
    assert list(pooled.run(inputs, ["last_hidden_state"])) == ["last_hidden_state"]


def test_a_model_without_hidden_states_is_refused(tmp_path):
    with pytest.raises(InvalidSetting, match="needs an attention mask and an output"):
        PooledExecutable(OnnxExecutable(models.mlp(tmp_path / "m.onnx")))


@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=9),
    st.integers(0, 2**32 - 1),
    st.sampled_from(Pooling),
)
@settings(max_examples=60)
def test_company_changes_no_bit_of_an_embedding(lengths, seed, pooling):
    rng = np.random.default_rng(seed)
    rows = [rng.standard_normal((1, length, 384)).astype(np.float32) for length in lengths]
    longest = max(lengths) + 3
    hidden = rng.standard_normal((len(rows), longest, 384)).astype(np.float32)
    mask = np.zeros((len(rows), longest), np.int64)
    for index, row in enumerate(rows):
        hidden[index, : row.shape[1]] = row[0]
        mask[index, : row.shape[1]] = 1
    together = pool(hidden, mask, pooling)
    for index, row in enumerate(rows):
        alone = pool(row, np.ones(row.shape[:2], np.int64), pooling)
        np.testing.assert_array_equal(together[index], alone[0])
