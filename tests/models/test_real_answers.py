"""Real models do their work when they are served: they read, listen, recognise."""

import asyncio
import json

import numpy as np
import pytest

import xirang
from tests.models import inputs as real, reading
from tests.models.catalogue import MODELS_BY_NAME

pytestmark = [pytest.mark.models, pytest.mark.slow]

PARAGRAPH = [
    "Let us first determine markers of the coins and the",
    "background. These markers are pixels that we can label",
    "unambiguously as either object or background. Here,",
    "the markers are found at the two extreme parts of the",
    "histogram of grey values:",
]

CATS = range(281, 286)
"""Tabby, tiger cat, Persian, Siamese and Egyptian cat among the thousand classes."""


def with_models(names, work):
    """What `work` returns for an engine that serves these models."""

    async def run():
        for name in names:
            MODELS_BY_NAME[name].require()
        sources = [MODELS_BY_NAME[name].source for name in names]
        async with xirang.load(*sources, budget_ms=110_000.0) as engine:
            return await work(engine)

    return asyncio.run(run())


async def all_of(engine, name, requests):
    """The first output of each request, all asked at once."""
    answers = await asyncio.gather(*(engine.infer(name, each) for each in requests))
    first = engine.model(name).outputs[0].name
    return [answer[first] for answer in answers]


def test_the_served_pipeline_reads_a_page():
    page = real.picture("page.png")

    async def read(engine):
        (marked,) = await all_of(engine, "ocr-detection", [{"x": reading.detection_input(page)}])
        lines = reading.lines_of(marked[0, 0], page)
        steps = await all_of(engine, "ocr-recognition", [{"x": line} for line in lines])
        shown = [reading.direction_input(line) for line in lines]
        turned = [reading.direction_input(line[:, :, ::-1, ::-1]) for line in lines]
        upright = await all_of(engine, "ocr-direction", [{"x": each} for each in shown])
        upturned = await all_of(engine, "ocr-direction", [{"x": each} for each in turned])
        return steps, upright, upturned

    names = ["ocr-detection", "ocr-recognition", "ocr-direction"]
    steps, upright, upturned = with_models(names, read)
    characters = reading.recogniser_characters()
    told = [reading.spelled(each[0], characters) for each in steps]
    assert told[0] == "Region-based segmentation"
    assert told[1:6] == PARAGRAPH
    # A line is turned only if the model is sure of it: that is how the direction is used.
    assert all(each[0, 1] < 0.9 for each in upright[:6])
    assert all(each[0, 1] > 0.9 for each in upturned[:6])


def test_captchas_are_read():
    words = ["batch", "7k4me", "waker", "3d8fy", "hearts"]
    requests = [{"input1": real.written(word, seed=i)} for i, word in enumerate(words)]
    steps = with_models(["ddddocr"], lambda engine: all_of(engine, "ddddocr", requests))
    characters = reading.captcha_characters()
    assert [reading.spelled(each[:, 0], characters) for each in steps] == words


@pytest.mark.parametrize("name", ["digits-forest", "digits-logistic"])
def test_digits_are_recognised(name):
    MODELS_BY_NAME[name].require()
    pixels, labels = real.unseen_digits()
    requests = [{"x": row[None]} for row in pixels]
    told = with_models([name], lambda engine: all_of(engine, name, requests))
    assert (np.concatenate(told) == labels).mean() > 0.9


def test_a_cat_is_a_cat():
    MODELS_BY_NAME["efficientnet-lite0"].require()
    requests = [
        {"image": real.classified(real.picture(f"{each}.png"))} for each in ("chelsea", "coffee")
    ]
    cat, cup = with_models(
        ["efficientnet-lite0"], lambda engine: all_of(engine, "efficientnet-lite0", requests)
    )
    assert cat[0].argmax() in CATS
    assert cup[0].argmax() in (967, 968)  # espresso, cup


def test_speech_is_heard_and_noise_is_not():
    async def listen(engine):
        return await asyncio.gather(
            *(
                heard(engine, sound)
                for sound in (real.speech(), real.noise(2.5), 0.3 * real.speech())
            )
        )

    loud, hiss, soft = with_models(["silero-vad"], listen)
    assert np.mean(loud > 0.5) > 0.6
    assert np.mean(soft > 0.5) > 0.6
    assert np.mean(hiss > 0.5) == 0


async def heard(engine, sound):
    """The probability of speech at each step of one stream, its state handed on."""
    state, rate, told = np.zeros((2, 1, 128), np.float32), np.array(real.RATE_HZ, np.int64), []
    for step in real.sound_steps(sound):
        answer = await engine.infer("silero-vad", {"input": step, "state": state, "sr": rate})
        state = answer["stateN"]
        told.append(float(answer["output"][0, 0]))
    return np.array(told)


def test_kinds_of_files_are_recognised():
    MODELS_BY_NAME["magika"].require()
    kinds = {
        "src/xirang/app.py": "python",
        "docs/architecture.md": "markdown",
        "pyproject.toml": "toml",
        "Makefile": "makefile",
        "tests/data/page.png": "png",
        "tests/data/speech.wav": "wav",
    }
    requests = [{"bytes": real.file_features((real.ROOT / name).read_bytes())} for name in kinds]
    told = with_models(["magika"], lambda engine: all_of(engine, "magika", requests))
    labels = json.loads((real.MODELS / "magika" / "labels.json").read_text())["target_labels_space"]
    assert [labels[each[0].argmax()] for each in told] == list(kinds.values())


def test_a_sparse_vector_knows_what_a_question_is_about():
    MODELS_BY_NAME["splade-tiny"].require()
    MODELS_BY_NAME["all-MiniLM-L6-v2"].require()
    encoded = real.tokenizer().encode("how does dynamic batching reduce gpu cost")
    ids = np.array([encoded.ids], np.int64)
    request = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    (weights,) = with_models(
        ["splade-tiny"], lambda engine: all_of(engine, "splade-tiny", [request])
    )
    best = {real.tokenizer().id_to_token(int(each)) for each in weights[0].argsort()[-6:]}
    assert {"batch", "dynamic", "cost", "reducing", "price"} <= best
