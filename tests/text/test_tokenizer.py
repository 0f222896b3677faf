"""From texts to tokens and back: those that BERT's own tokenizer gives, cut as was wished."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from xirang.core.signature import TensorSpec
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.repository import minilm
from xirang.tensors.tensor import to_array
from xirang.text.folder import TextFolder
from xirang.text.task import Purpose, Task
from xirang.text.tokenizer import Manner, TextModel, TextTooLong, Tokens, load_tokenizer

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


PURPOSE = Purpose(
    Task.EMBED,
    SimpleNamespace(inputs=[TensorSpec(name, "INT64", (None, None)) for name in NAMES]),
    "embedding",
    384,
)
CLS, SEP = 101, 102


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "tokenizer.json"
    minilm.write_tokenizer(path)
    return path


def text_model(path, *, length_max=0, **folder):
    folder = TextFolder(path, **folder)
    return TextModel("m", folder, PURPOSE, load_tokenizer(path), length_max=length_max)


@pytest.mark.parametrize("text", KNOWN)
def test_known_sentences_have_their_known_ids(text, path):
    assert text_model(path).encode(text) == Tokens(KNOWN[text])


def test_case_and_accents_are_folded(path):
    model = text_model(path)
    assert model.encode("Café") == model.encode("cafe")


def test_unknown_signs_are_unknown(path):
    assert text_model(path).encode("\U0001f9ff").ids[1:-1] == [100]


def test_a_long_text_is_cut_or_refused(path):
    text, model = "hello " * 600 + "world", text_model(path)
    ids = model.encode(text).ids
    assert (model.length_max, len(ids), ids[0], ids[-2:]) == (512, 512, CLS, [7592, SEP])
    ids = model.encode(text, Manner(is_cut_left=True)).ids
    assert (len(ids), ids[0], ids[-2:]) == (512, CLS, [2088, SEP])
    with pytest.raises(TextTooLong, match="has 603 tokens; expected at most 512"):
        model.encode(text, Manner(truncate=False))
    assert len(model.encode("hello " * 510, Manner(truncate=False)).ids) == 512


def test_a_text_may_have_more_tokens_than_letters(tmp_path):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.save(str(tmp_path / "tokenizer.json"))
    model = text_model(tmp_path / "tokenizer.json", length_max=6)
    assert [len(model.encode("é" * count).ids) for count in (1, 3, 4, 6, 9)] == [2, 6, 6, 6, 6]
    with pytest.raises(TextTooLong, match="has 8 tokens; expected at most 6"):
        model.encode("éééé", Manner(truncate=False))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(4, 40), st.booleans())
@settings(max_examples=60)
def test_a_pair_is_cut_where_it_is_longest(path, first, second, length_max, is_cut_left):
    model = text_model(path, length_max=length_max)
    tokens = model.encode_pair("hello " * first, "world " * second, Manner(True, is_cut_left))
    kept = [tokens.ids.count(7592), tokens.ids.count(2088)]
    assert tokens.ids == [CLS, *[7592] * kept[0], SEP, *[2088] * kept[1], SEP]
    assert tokens.types == [0] * (kept[0] + 2) + [1] * (kept[1] + 1)
    assert sum(kept) == min(first + second, length_max - 3)
    # Who was cut is not shorter than the other, but for the one token that cannot be halved.
    if kept[0] < first:
        assert kept[0] >= kept[1] - 1
    if kept[1] < second:
        assert kept[1] >= kept[0] - 1


def test_a_pair_is_what_the_library_makes_of_it(path):
    model, whole = text_model(path), load_tokenizer(path)
    expected = whole.encode("who are you", "a cat, I think")
    tokens = model.encode_pair("who are you", "a cat, I think")
    assert tokens == Tokens(expected.ids, expected.type_ids)
    short = text_model(path, length_max=8)
    with pytest.raises(TextTooLong, match="has 11 tokens; expected at most 8"):
        short.encode_pair("who are you", "a cat, I think", Manner(truncate=False))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, 512),
        ({"tokens_max": 128}, 128),
        ({"tokens_max": 1024, "positions_max": 600}, 600),
        ({"positions_max": 40}, 40),
        ({"tokens_max": 128, "length_max": 50}, 50),
        ({"tokens_max": 128, "length_max": 500}, 128),
    ],
)
def test_the_tightest_bound_on_lengths_holds(told, expected, path):
    assert text_model(path, **told).length_max == expected


def test_prompts_are_put_before_texts(path):
    prompts = {"query": "hello ", "none": ""}
    model = text_model(path, prompts=prompts, default_prompt="query")
    assert model.encode("world").ids == KNOWN["hello world"]
    assert model.encode("world", Manner(prompt_name="query")).ids == KNOWN["hello world"]
    assert model.encode("world", Manner(prompt_name="none")).ids == [CLS, 2088, SEP]
    with pytest.raises(InvalidRequest, match=r"no prompt 'passage'; .* \['query', 'none'\]"):
        model.encode("world", Manner(prompt_name="passage"))


def test_pieces_say_where_they_stand(path):
    model = text_model(path)
    pieces = model.pieces("Hello, wörld", has_specials=True)
    assert pieces[0] == {"id": CLS, "special": True, "text": "[CLS]", "start": None, "stop": None}
    assert pieces[3] == {"id": 2088, "special": False, "text": "wörld", "start": 7, "stop": 12}
    assert [each["text"] for each in model.pieces("a b", has_specials=False)] == ["a", "b"]


def test_ids_become_text_again(path):
    model = text_model(path)
    assert model.decode(KNOWN["hello world"], has_specials=False) == "hello world"
    assert model.decode(KNOWN["hello world"], has_specials=True) == "[CLS] hello world [SEP]"


def test_the_inputs_are_the_ids_a_mask_and_types(path):
    inputs = text_model(path).inputs(Tokens([101, 7592, 102]))
    assert list(inputs) == list(NAMES)
    assert all((t.datatype, t.shape) == ("INT64", (1, 3)) for t in inputs.values())
    arrays = [to_array(tensor).tolist() for tensor in inputs.values()]
    assert arrays == [[[101, 7592, 102]], [[1, 1, 1]], [[0, 0, 0]]]
    types = text_model(path).inputs(Tokens([1, 2], [0, 1]))["token_type_ids"]
    assert to_array(types).tolist() == [[0, 1]]


def test_the_size_of_the_vocabulary_is_known(path):
    assert text_model(path).vocabulary_size == 30_522


def test_classes_without_names_are_numbered(path):
    model = TextModel("m", TextFolder(path), replace(PURPOSE, width=2), load_tokenizer(path))
    assert model.labels == ("LABEL_0", "LABEL_1")


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidSetting, match="is not a tokenizer"):
        load_tokenizer(tmp_path / "tokenizer.json")
