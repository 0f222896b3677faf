"""What a Hugging Face folder says, file by file."""

import pytest
from tests.support import text_folders

from xirang.errors import InvalidSetting
from xirang.text.folder import Pooling, folder_of, read_folder

NORMALIZE = {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}
TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}
POOLING = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}


@pytest.fixture
def read(tmp_path):
    def read(**files):
        return read_folder(text_folders.lay(tmp_path, **files))

    return read


def test_a_bare_folder_is_pooled_by_the_mean_and_scaled(read):
    folder = read()
    assert (folder.pooling, folder.is_normalised) == (Pooling.MEAN, True)
    assert (folder.tokens_max, folder.positions_max) == (None, None)
    assert (folder.prompts, folder.labels, folder.dimensions) == ({}, (), ())
    assert not folder.is_classifier


@pytest.mark.parametrize(
    ("mode", "pooling"),
    [
        ("mean_tokens", Pooling.MEAN),
        ("cls_token", Pooling.CLS),
        ("lasttoken", Pooling.LAST),
        ("max_tokens", Pooling.MAX),
    ],
)
def test_the_pooling_is_that_of_its_file(read, mode, pooling):
    modes = {"pooling_mode_mean_tokens": False, f"pooling_mode_{mode}": True}
    config = {"word_embedding_dimension": 8, **modes}
    folder = read(modules=[TRANSFORMER, POOLING], **{"1_Pooling__config": config})
    assert (folder.pooling, folder.is_normalised) == (pooling, False)
    folder = read(modules=[TRANSFORMER, POOLING, NORMALIZE])
    assert (folder.pooling, folder.is_normalised) == (pooling, True)


@pytest.mark.parametrize("modes", [("weightedmean_tokens",), ("mean_tokens", "cls_token")])
def test_another_pooling_is_refused(read, modes):
    config = {f"pooling_mode_{mode}": True for mode in modes}
    with pytest.raises(InvalidSetting, match="expected one of"):
        read(**{"1_Pooling__config": config})


def test_lengths_come_from_the_transformer_then_the_tokenizer_then_the_positions(read):
    config = {"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}
    folder = read(tokens_max=10**30, config=config)
    assert (folder.tokens_max, folder.positions_max) == (None, 512)
    folder = read(tokens_max=384, config=config | {"model_type": "bert"})
    assert (folder.tokens_max, folder.positions_max) == (384, 514)
    assert read(tokens_max=384, sentence_bert_config={"max_seq_length": 256}).tokens_max == 256


def test_prompts_and_the_one_for_who_asks_for_none(read):
    folder = read(config_sentence_transformers={"prompts": {"query": "query: ", "p": ""}})
    assert (folder.prompts["query"], folder.default_prompt) == ("query: ", "")
    told = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    assert read(config_sentence_transformers=told).default_prompt == "query"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"prompts": {"query": 3}}, "are no texts by name"),
        ({"prompts": ["query"]}, "are no texts by name"),
        ({"prompts": {}, "default_prompt_name": "query"}, "default prompt 'query', but only"),
    ],
)
def test_wrong_prompts_are_refused(read, told, words):
    with pytest.raises(InvalidSetting, match=words):
        read(config_sentence_transformers=told)


def test_prompts_that_are_left_out_of_the_pooling_are_refused(read):
    files = {"1_Pooling__config": {"pooling_mode_mean_tokens": True, "include_prompt": False}}
    read(**files)
    with pytest.raises(InvalidSetting, match="leaves its prompts out of the pooling"):
        read(config_sentence_transformers={"prompts": {"query": "query: "}}, **files)


def test_labels_stand_in_the_order_of_their_numbers(read):
    labels = {str(number): f"label {number}" for number in reversed(range(12))}
    folder = read(config={"architectures": ["BertForSequenceClassification"], "id2label": labels})
    assert folder.is_classifier
    assert folder.labels == tuple(f"label {number}" for number in range(12))
    assert read(config={"problem_type": "multi_label_classification"}).has_many_labels


@pytest.mark.parametrize("labels", [{"a": "x"}, {"1": "x"}, ["x"]])
def test_labels_without_numbers_are_refused(read, labels):
    with pytest.raises(InvalidSetting, match="labels"):
        read(config={"id2label": labels})


def test_dimensions_that_a_model_was_trained_for(read):
    assert read(config={"matryoshka_dimensions": [4, 6]}).dimensions == (4, 6)
    assert read(config={"is_matryoshka": False}).dimensions is None


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_a_file_that_is_no_object_is_refused(tmp_path, text):
    model = text_folders.lay(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InvalidSetting, match=r"config\.json"):
        read_folder(model)


@pytest.mark.parametrize("modules", [{}, 3, [3], [{"type": "x"}]])
def test_modules_that_are_no_list_of_steps_are_refused(read, modules):
    if modules == {}:
        assert read(modules=modules).is_normalised  # no step at all
        return
    with pytest.raises(InvalidSetting, match="no list of modules"):
        read(modules=modules)


def test_the_files_stand_above_the_folder_of_the_onnx_files(tmp_path):
    model = text_folders.lay(tmp_path, below="onnx", tokens_max=99)
    assert folder_of(model) == tmp_path
    assert read_folder(model).tokens_max == 99
    assert folder_of(tmp_path / "1" / "model.onnx") == tmp_path / "1"
