"""From a string to token ids: those that BERT's own tokenizer gives."""

import pytest

from xirang.errors import InvalidRequest, InvalidSetting
from xirang.repository import minilm
from xirang.tensors.tensor import to_array
from xirang.text.tokenizer import TextModel

NAMES = ("input_ids", "attention_mask", "token_type_ids")

KNOWN = {
    "hello world": [101, 7592, 2088, 102],
    "Hello, World!": [101, 7592, 1010, 2088, 999, 102],
    "This is a test.": [101, 2023, 2003, 1037, 3231, 1012, 102],
    "The quick brown fox jumps over the lazy dog.": [
        101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102,
    ],
    "": [101, 102],
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "tokenizer.json"
    minilm._write_tokenizer(path)
    return path


def text_model(path, **fields):
    return TextModel("m", path, input_names=NAMES, dimension=384, **fields)


@pytest.mark.parametrize("text", KNOWN)
def test_known_sentences_have_their_known_ids(text, path):
    assert text_model(path).encode(text) == KNOWN[text]


def test_case_and_accents_are_folded(path):
    model = text_model(path)
    assert model.encode("Café") == model.encode("cafe")


def test_unknown_signs_are_unknown(path):
    assert text_model(path).encode("\U0001f9ff")[1:-1] == [100]


def test_a_long_text_is_cut_or_refused(path):
    text = "hello " * 600
    model = text_model(path)
    ids = model.encode(text)
    assert (model.length_max, len(ids), ids[-1]) == (512, 512, 102)
    with pytest.raises(InvalidRequest, match="has 602 tokens; expected at most 512"):
        text_model(path, truncate=False).encode(text)


def test_the_inputs_are_the_ids_a_mask_and_types(path):
    inputs = text_model(path).inputs([101, 7592, 102])
    assert list(inputs) == list(NAMES)
    assert all((t.datatype, t.shape) == ("INT64", (1, 3)) for t in inputs.values())
    arrays = [to_array(tensor).tolist() for tensor in inputs.values()]
    assert arrays == [[[101, 7592, 102]], [[1, 1, 1]], [[0, 0, 0]]]


def test_the_size_of_the_vocabulary_is_known(path):
    assert text_model(path).vocabulary_size == 30_522


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidSetting, match="is not a tokenizer"):
        text_model(tmp_path / "tokenizer.json")
