"""Real text models behind the text doors: each answer is that of the model run alone."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import pytest
from benchmarks.models import heads
from huggingface_hub import InferenceClient
from tokenizers import Tokenizer

from tests.models.inputs import MODELS
from tests.support.wire import post
from xirang.lab.server import ServerProcess

pytestmark = [pytest.mark.models, pytest.mark.e2e, pytest.mark.slow]

NAMES = ("all-MiniLM-L6-v2", "splade-tiny", "topics-MiniLM", "answers-MiniLM")
RIVER = "A river floods the fields in spring."
TEXTS = [RIVER, "No.", "how does dynamic batching reduce gpu cost", "word " * 300]


class Alone:
    """A model run by itself, one text at a time."""

    def __init__(self, name):
        self.session = onnxruntime.InferenceSession(str(MODELS / name / "model.onnx"))
        self.tokenizer = Tokenizer.from_file(str(MODELS / name / "tokenizer.json"))

    def __call__(self, *texts):
        encoding = self.tokenizer.encode(*texts)
        known = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        inputs = {each.name: np.array([known[each.name]]) for each in self.session.get_inputs()}
        return self.session.run(None, inputs)[0][0]


@pytest.fixture(scope="module")
def url():
    missing = [name for name in NAMES if not (MODELS / name / "model.onnx").exists()]
    if missing:
        reason = f"{missing} are not there: run make models"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with ServerProcess([MODELS / name for name in NAMES]) as server:
        yield server.url


def ask(url, path, **body):
    status, headers, answer = post(url, path, body)
    assert status == 200, answer
    return headers, answer


def test_vectors_and_states_are_the_models_own(url):
    alone = Alone("all-MiniLM-L6-v2")
    states = [alone(text) for text in TEXTS]
    found = ask(url, "/embed_all", inputs=TEXTS)[1]
    for state, expected in zip(found, states, strict=True):
        assert np.abs(np.array(state) - expected).max() < 1e-4
    means = np.stack([each.mean(axis=0) for each in states])
    raw = np.array(ask(url, "/embed", inputs=TEXTS, normalize=False)[1])
    assert np.abs(raw - means).max() < 1e-5
    scaled = means / np.linalg.norm(means, axis=1, keepdims=True)
    headers, vectors = ask(url, "/embed", inputs=TEXTS)
    assert np.abs(np.array(vectors) - scaled).max() < 1e-5
    assert int(headers["x-compute-tokens"]) == sum(len(each) for each in states)
    assert int(headers["x-compute-characters"]) == sum(map(len, TEXTS))
    sentences = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    assert ask(url, "/similarity", inputs=sentences)[1] == pytest.approx(
        (scaled[1:] @ scaled[0]).tolist(), abs=1e-5
    )


def test_weights_of_words_are_the_models_own(url):
    alone = Alone("splade-tiny")
    found = ask(url, "/embed_sparse", inputs=TEXTS)[1]
    for text, words in zip(TEXTS, found, strict=True):
        weights = np.zeros(30_522, np.float32)
        weights[[word["index"] for word in words]] = [word["value"] for word in words]
        assert np.array_equal(weights, alone(text))
    names = Tokenizer.from_file(str(MODELS / "splade-tiny" / "tokenizer.json"))
    heaviest = sorted(found[2], key=lambda word: -word["value"])[:3]
    assert "batch" in [names.id_to_token(word["index"]) for word in heaviest]


def test_classes_are_the_models_own_and_mostly_right(url):
    alone, examples = Alone("topics-MiniLM"), list(heads.examples(MODELS, is_for_tests=True))
    texts = [text for text, _ in examples]
    right = 0
    for start in range(0, len(texts), 32):
        batch = texts[start : start + 32]
        found = ask(url, "/predict", inputs=[[text] for text in batch], raw_scores=True)[1]
        for offset, classes in enumerate(found):
            text, number = examples[start + offset]
            scores = {each["label"]: each["score"] for each in classes}
            expected = alone(text)
            assert [scores[topic] for topic in heads.TOPICS] == pytest.approx(
                expected.tolist(), abs=1e-3
            )
            right += classes[0]["label"] == heads.TOPICS[number]
    assert right / len(texts) > 0.75, f"{right} of {len(texts)}"
    chances = ask(url, "/predict", inputs=texts[0])[1]
    assert sum(each["score"] for each in chances) == pytest.approx(1, abs=1e-5)


def test_answers_are_ranked_as_by_the_model_alone_and_better_than_by_chance(url):
    alone, pairs = Alone("answers-MiniLM"), list(heads.questions(MODELS))[:60]
    answers = [answer for _, answer in pairs]

    def rank_of(number):
        question = pairs[number][0]
        rivals = [answers[(number + 7 * step) % len(answers)] for step in range(10)]
        ranks = ask(url, "/rerank", query=question, texts=rivals, raw_scores=True)[1]
        scores = {each["index"]: each["score"] for each in ranks}
        expected = [float(alone(question, rival)[0]) for rival in rivals]
        assert [scores[index] for index in range(10)] == pytest.approx(expected, abs=1e-3)
        return sum(score >= scores[0] for score in scores.values())

    with ThreadPoolExecutor(4) as threads:
        ranks = list(threads.map(rank_of, range(len(pairs))))
    by_chance = np.mean([1 / rank for rank in range(1, 11)])
    assert np.mean([1 / rank for rank in ranks]) > by_chance + 0.3


def test_hugging_faces_own_client(url):
    client = InferenceClient(base_url=f"{url}/tei/all-MiniLM-L6-v2", api_key="none")
    vector = client.feature_extraction(RIVER)
    expected = Alone("all-MiniLM-L6-v2")(RIVER).mean(axis=0)
    assert vector.shape == (1, 384)
    assert np.abs(vector[0] - expected / np.linalg.norm(expected)).max() < 1e-5
    raw = client.feature_extraction(RIVER, normalize=False, truncate=True)
    assert np.abs(raw[0] - expected).max() < 1e-5
    others = ["A stream rises in April.", "Interest rates rose again."]
    near, far = client.sentence_similarity(RIVER, others)
    assert near > far + 0.2
    client = InferenceClient(base_url=f"{url}/tei/topics-MiniLM", api_key="none")
    # It takes the answer for a list of lists, as one of a batch; that is the likeliest class.
    best = client.text_classification("The actor won a prize for his role in that film.")
    assert best.label == "movies"
