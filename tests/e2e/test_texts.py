"""Text models in Hugging Face folders behind a real server: TEI's routes, KServe's, generate."""

import json
import threading

import numpy as np
import pytest
from tests.support import text_folders
from tests.support.wire import Wire, get, post
from tokenizers import Tokenizer, models, pre_tokenizers

from xirang.lab.server import ServerProcess
from xirang.repository.minilm import NAME

pytestmark = pytest.mark.e2e

QUICK = ("--learned", "off", "--warmup-s", "0")
TABLE = text_folders.table()
CLS, SEP = 101, 102
HELLO, WORLD = 7592, 2088


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One model for each task; the embedder as Hugging Face lays it out, prompts and all."""
    root = tmp_path_factory.mktemp("texts")
    text_folders.embedder(
        root / "dense",
        below="onnx",
        modules=[],
        tokens_max=16,
        config_sentence_transformers={"prompts": {"query": "hello "}},
        **{"1_Pooling__config": {"pooling_mode_cls_token": False, "pooling_mode_max_tokens": True}},
    )
    text_folders.classifier(root / "classes")
    text_folders.reranker(root / "score")
    text_folders.splade(root / "words")
    return root


@pytest.fixture(scope="module")
def url(folders):
    with ServerProcess([folders], *QUICK) as server:
        yield server.url


def ask(url, path, **body):
    status, _, answer = post(url, path, body)
    return status, answer


def largest(*ids):
    row = TABLE[[CLS, *ids, SEP]].max(axis=0)
    return pytest.approx((row / np.linalg.norm(row)).tolist(), abs=1e-5)


def test_pooling_prompts_and_lengths_are_those_of_the_folder(url):
    assert ask(url, "/embed", inputs="world") == (200, [largest(WORLD)])
    assert ask(url, "/embed", inputs=["world"], prompt_name="query") == (
        200,
        [largest(HELLO, WORLD)],
    )
    long = "hello " * 20 + "world"
    assert ask(url, "/embed", inputs=long) == (200, [largest(HELLO)])
    assert ask(url, "/embed", inputs=long, truncation_direction="Left") == (
        200,
        [largest(HELLO, WORLD)],
    )
    status, body = ask(url, "/embed", inputs=long, truncate=False)
    assert status == 413
    assert body == {
        "error": "the text has 23 tokens; expected at most 16",
        "error_type": "Validation",
    }
    status, body = ask(url, "/v1/embeddings", model="dense", input=long, truncate=False)
    assert (status, body["error"]["param"]) == (400, "input")
    assert get(url, "/info")[0] == 422
    told = get(url, "/tei/dense/info")[1]
    assert (told["max_input_length"], told["model_type"]) == (16, {"embedding": {"pooling": "max"}})


def test_a_batch_of_many_lengths_is_answered_as_each_alone(url):
    texts = ["world " * count for count in (1, 12, 3, 9, 1, 7)] + ["hello"]
    together = ask(url, "/embed", inputs=texts)[1]
    alone = [ask(url, "/embed", inputs=text)[1][0] for text in texts]
    assert np.abs(np.array(together) - np.array(alone)).max() < 1e-6


def test_classes_have_the_names_of_the_folder(url):
    status, classes = ask(url, "/predict", inputs=["hello", "world"])
    assert status == 200
    assert {each["label"] for each in classes} == {"bad", "good", "odd"}
    assert sum(each["score"] for each in classes) == pytest.approx(1)
    weights = np.random.default_rng(1).standard_normal((text_folders.DIMENSION, 3)) * 4
    logits = TABLE[[CLS, HELLO, SEP]].mean(axis=0) @ weights
    raw = ask(url, "/predict", inputs=[["hello"]], raw_scores=True)[1][0]
    assert [each["score"] for each in raw] == pytest.approx(sorted(logits, reverse=True), abs=1e-4)


def test_texts_are_ranked_by_the_words_they_share_with_the_query(url):
    texts = ["interest rates", "a cat on a mat", "the cat sat on the mat"]
    status, ranks = ask(url, "/rerank", query="a cat on a mat", texts=texts, return_text=True)
    assert status == 200
    assert ranks[0] == {"index": 1, "text": texts[1], "score": ranks[0]["score"]}
    assert ranks[-1]["text"] != texts[1]


def test_weights_of_words(url):
    weight = {"index": HELLO, "value": pytest.approx(np.log(2), abs=1e-6)}
    status, words = ask(url, "/embed_sparse", inputs="hello")
    assert status == 200
    assert weight in words[0]
    assert [word["index"] for word in words[0]] == [CLS, SEP, SEP + 1, HELLO, HELLO + 1]


def test_the_base_url_and_the_wrong_model(url):
    assert ask(url, "/tei/dense", inputs="world") == (200, [largest(WORLD)])
    assert ask(url, "/tei/score", query="a", texts=["a"])[0] == 200
    assert ask(url, "/tei/classes/embed", inputs="a")[0] == 424
    assert ask(url, "/embed_all", inputs="hello")[0] == 200
    assert ask(url, "/", inputs="hello")[0] == 422  # which of the four?
    assert ask(url, "/v1/embeddings", model="words", input="hello")[0] == 404
    assert get(url, "/health")[0] == 200


def test_tokens_and_back(url):
    tokens = ask(url, "/tei/dense/tokenize", inputs="hello world")[1][0]
    assert [each["id"] for each in tokens] == [CLS, HELLO, WORLD, SEP]
    ids = [each["id"] for each in tokens]
    assert ask(url, "/tei/dense/decode", ids=ids) == (200, ["hello world"])


# ---------------------------------------------------------------------- KServe's, and generate


def test_instances_and_columns(house):
    rows = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    expected = pytest.approx(house.alone("mlp", x=rows)["y"], abs=1e-5)
    for body in ({"instances": rows.tolist()}, {"instances": [{"x": r} for r in rows.tolist()]}):
        status, _, answer = post(house.url, "/v1/models/mlp:predict", body)
        assert status == 200
        assert np.array(answer["predictions"]) == expected
    answer = post(house.url, "/v1/models/mlp:predict", {"inputs": {"x": rows.tolist()}})[2]
    assert np.array(answer["outputs"]) == expected
    ragged = [{"ids": [n] * n, "attention_mask": [1] * n} for n in (3, 1, 3, 2)]
    answer = post(house.url, "/v1/models/masked_double:predict", {"instances": ragged})[2]
    assert [row["total"] for row in answer["predictions"]] == [[9], [1], [9], [4]]
    assert answer["predictions"][3]["doubled"] == [4, 4]
    told = get(house.url, "/v1/models/mlp")
    assert told == (200, {"name": "mlp", "ready": True})
    assert NAME in get(house.url, "/v1/models")[1]["models"]


def test_generate_and_its_stream(house):
    body = {"id": "7", "INPUT0": list(range(16)), "INPUT1": [1] * 16}
    status, _, answer = post(house.url, "/v2/models/add_sub/generate", body)
    assert (status, answer["id"], answer["model_name"]) == (200, "7", "add_sub")
    assert answer["OUTPUT0"] == [number + 1 for number in range(16)]
    status, headers, event = post(house.url, "/v2/models/add_sub/generate_stream", body)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert json.loads(event.removeprefix(b"data: ")) == answer
    status, _, answer = post(house.url, "/v2/models/shout/generate", {"input": "hello"})
    assert (status, answer["output"]) == (200, "HELLO")
    assert post(house.url, "/v2/models/add_sub/generate", {"INPUT0": "x"})[0] == 400


def test_minilm_by_both_text_doors(house):
    texts = ["This is a test.", "word " * 40]
    vectors = np.array(ask(house.url, "/embed", inputs=texts)[1])
    ids = [101, 2023, 2003, 1037, 3231, 1012, 102]
    assert np.abs(vectors[0] - house.embedding(ids)).max() < 1e-5
    data = ask(house.url, "/v1/embeddings", model=NAME, input=texts)[1]["data"]
    assert np.abs(vectors - [each["embedding"] for each in data]).max() < 1e-6


# ---------------------------------------------------------------------- replaced under load


def lay(folder, *, seed, first):
    """A model whose tokenizer numbers its words from `first` on, and whose table goes with it."""
    folder.mkdir(parents=True, exist_ok=True)
    words = {"a": first, "b": first + 1, "[UNK]": 0}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    draft = text_folders.embedder(folder / ".draft", seed=seed)
    tokenizer.save(str(draft / "tokenizer.json"))
    for name in ("tokenizer.json", "model.onnx"):
        (draft / name).replace(folder / name)
    rows = text_folders.table(seed)[[first, first + 1]]
    return rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0))


class Reader(threading.Thread):
    """Asks again and again for the vector of a text that is read on a thread."""

    def __init__(self, url):
        super().__init__()
        self.url, self.seen, self.is_over = url, [], threading.Event()

    def run(self):
        body = {"model": "text", "input": "a b " * 2000, "encoding_format": "float"}
        with Wire(self.url) as wire:
            while not self.is_over.is_set():
                status, _, answer = wire.ask("POST", "/v1/embeddings", body)
                self.seen.append((status, np.array(answer["data"][0]["embedding"])))


def test_a_text_is_never_read_for_one_model_and_run_by_its_successor(tmp_path):
    folder = tmp_path / "text" / "1"
    expected = [lay(folder, seed=0, first=10)]
    options = ("--model-control-mode", "explicit", "--load-model", "text", *QUICK)
    with ServerProcess([], "--model-repository", str(tmp_path), *options) as server:
        readers = [Reader(server.url) for _ in range(3)]
        for reader in readers:
            reader.start()
        for seed in range(1, 5):
            expected.append(lay(folder, seed=seed, first=10 + 7 * seed))
            assert post(server.url, "/v2/repository/models/text/load", b"")[0] == 200
        for reader in readers:
            reader.is_over.set()
        for reader in readers:
            reader.join()
            assert {status for status, _ in reader.seen} == {200}
            for _, vector in reader.seen:
                away = [np.abs(vector - each).max() for each in expected]
                assert min(away) < 1e-5, "a vector of no model"
        body = {"model": "text", "input": "a b", "encoding_format": "float"}
        answer = post(server.url, "/v1/embeddings", body)[2]
        assert np.abs(answer["data"][0]["embedding"] - expected[-1]).max() < 1e-5
