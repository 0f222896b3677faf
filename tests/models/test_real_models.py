"""Real models on real inputs: what xirang serves is what the model says alone."""

import asyncio

import numpy as np
import pytest

import xirang
from tests.models.catalogue import BATCH_FIXED, BATCH_SENSITIVE, MODELS_BY_NAME, RealModel

pytestmark = [pytest.mark.models, pytest.mark.slow]

BUDGET_MS = 110_000.0
"""Nothing may expire on a slow machine; the tests' own timeout is 120 s."""


@pytest.fixture(scope="module", params=MODELS_BY_NAME)
def model(request):
    found = MODELS_BY_NAME[request.param]
    found.require()
    return found


@pytest.fixture(scope="module")
def engine(model):
    return xirang.load(model.source, budget_ms=BUDGET_MS)


async def served(engine, model: RealModel, requests):
    """Every answer and the model's statistics, the requests having come all at once."""
    async with engine:
        answers = await asyncio.gather(*(engine.infer(model.name, each) for each in requests))
        return answers, engine.statistics(model.name)["model_stats"][0]


def test_the_verdict_is_right(model, engine):
    told = engine.model(model.name).config["xirang"]["verdict"]
    assert told.partition(":")[0].split()[0] == model.verdict, told


def test_shared_runs_answer_as_the_model_alone(model, engine):
    requests = list(model.requests(model.count))
    answers, statistics = asyncio.run(served(engine, model, requests))
    for request, answer in zip(requests, answers, strict=True):
        for name, expected in model.run_alone(request).items():
            assert_same(answer[name], expected, model.tolerance, name)
    if model.verdict not in (BATCH_SENSITIVE, BATCH_FIXED):
        assert statistics["execution_count"] < statistics["inference_count"], "nobody shared a run"


def assert_same(found, expected, tolerance, name):
    assert found.dtype == expected.dtype, name
    assert found.shape == expected.shape, name
    if tolerance == 0 or not np.issubdtype(expected.dtype, np.floating):
        np.testing.assert_array_equal(found, expected, err_msg=name)
    else:
        away = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=away, err_msg=name)
