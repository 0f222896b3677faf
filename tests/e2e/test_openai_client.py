"""OpenAI's own client against a real server."""

import numpy as np
import openai
import pytest

from xirang.repository.minilm import NAME

pytestmark = pytest.mark.e2e

IDS = [101, 2023, 2003, 1037, 3231, 1012, 102]
TEXT = "This is a test."


@pytest.fixture
def client(house):
    with openai.OpenAI(base_url=house.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


def vectors(response):
    assert [entry.index for entry in response.data] == list(range(len(response.data)))
    return np.array([entry.embedding for entry in response.data])


def test_a_text_becomes_the_models_own_vector(house, client):
    response = client.embeddings.create(model=NAME, input=TEXT)
    assert np.abs(vectors(response)[0] - house.embedding(IDS)).max() <= 1e-5
    assert (response.model, response.object) == (NAME, "list")
    assert response.usage.prompt_tokens == response.usage.total_tokens == len(IDS)


def test_token_ids_are_the_same_as_their_text(client):
    by_text = vectors(client.embeddings.create(model=NAME, input=TEXT))
    by_ids = vectors(client.embeddings.create(model=NAME, input=IDS))
    both = vectors(client.embeddings.create(model=NAME, input=[IDS, IDS[:3]]))
    assert np.abs(by_text - by_ids).max() <= 1e-6
    assert np.abs(by_text[0] - both[0]).max() <= 1e-5
    assert both.shape == (2, 384)


def test_a_list_of_texts_of_many_lengths_comes_back_in_order(client):
    texts = ["word " * count for count in (1, 40, 3, 200, 2, 600)]
    response = client.embeddings.create(model=NAME, input=texts)
    together = vectors(response)
    alone = [vectors(client.embeddings.create(model=NAME, input=text))[0] for text in texts]
    assert np.abs(together - np.array(alone)).max() <= 1e-5
    assert response.usage.prompt_tokens == sum(
        min(count, 510) + 2 for count in (1, 40, 3, 200, 2, 600)
    )


def test_floats_are_the_same_as_base64(client):
    base64 = vectors(client.embeddings.create(model=NAME, input=TEXT))
    floats = vectors(client.embeddings.create(model=NAME, input=TEXT, encoding_format="float"))
    assert np.abs(base64 - floats).max() <= 1e-6


def test_fewer_dimensions_are_cut_and_scaled(client):
    full = vectors(client.embeddings.create(model=NAME, input=TEXT))[0]
    short = vectors(client.embeddings.create(model=NAME, input=TEXT, dimensions=64))[0]
    assert np.abs(short - full[:64] / np.linalg.norm(full[:64])).max() <= 1e-5
    with pytest.raises(openai.BadRequestError, match="'dimensions' is 385"):
        client.embeddings.create(model=NAME, input=TEXT, dimensions=385)


def test_a_similar_pair_scores_above_an_unrelated_one(client):
    texts = ["A cat sits on the mat.", "A kitten rests on a rug.", "Interest rates rose again."]
    one, near, far = vectors(client.embeddings.create(model=NAME, input=texts))
    assert one @ near > one @ far + 0.2


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).owned_by == "xirang"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


def test_unknown_models_and_wrong_inputs_are_told_in_openais_form(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.embeddings.create(model="none", input=TEXT)
    assert caught.value.body["code"] == "model_not_found"
    for wrong in ("", [], [""], [10**6], [[101], []]):
        with pytest.raises(openai.BadRequestError) as caught:
            client.embeddings.create(model=NAME, input=wrong)
        assert caught.value.body["param"] == "input"
        assert caught.value.body["type"] == "invalid_request_error"


def test_a_text_that_is_too_long_may_be_refused(client):
    with pytest.raises(openai.BadRequestError, match="has 602 tokens; expected at most 512"):
        client.embeddings.create(model=NAME, input="word " * 600, extra_body={"truncate": False})
