"""KServe's first protocol: instances or columns in, predictions or outputs out."""

import base64

import numpy as np
import orjson
import pytest
from tests.frontends.puppets import (
    PuppetModel,
    PuppetService,
    answer_of,
    connect,
    echo_model,
    post,
    responses,
    spec,
)

from xirang.errors import ModelFailed, TooBusy
from xirang.frontends.routes import hot_routes
from xirang.tensors.tensor import to_array

PAIR = PuppetModel(
    "pair",
    (spec("a", "FP32", None, None), spec("b", "INT64", None, 1)),
    (spec("a", "FP32", None, None), spec("b", "INT64", None, 1)),
)
WORDS = PuppetModel("words", (spec("w", "BYTES", None, 1),), (spec("w", "BYTES", None, 1),))
SINGLE = PuppetModel("single", (spec("x", "FP32", 1, None),), (spec("x", "FP32", 1, None),))


@pytest.fixture
def service():
    return PuppetService(echo_model(), echo_model("a/b"), PAIR, WORDS, SINGLE)


@pytest.fixture
def door(service):
    protocol, line, _ = connect(hot_routes(service, {}))

    def ask(document, model="echo", *headers, answer=None):
        body = document if isinstance(document, bytes) else orjson.dumps(document)
        protocol.data_received(post(f"/v1/models/{model}:predict", body, *headers))
        ask.calls = list(service.calls)
        while service.calls:
            service.answer(answer)
        (response,) = responses(line.take())
        return response.status, orjson.loads(response.body)

    return ask


def sent(call):
    return {name: to_array(tensor).tolist() for name, tensor in call.inputs.items()}


def test_instances_of_one_shape_are_one_request(door):
    assert door({"instances": [[1, 2], [3, 4]]}) == (200, {"predictions": [[1, 2], [3, 4]]})
    assert [sent(call) for call in door.calls] == [{"x": [[1, 2], [3, 4]]}]


def test_instances_of_other_shapes_are_others_and_keep_their_places(door):
    rows = [[1], [2, 3], [4], [5, 6]]
    assert door({"instances": rows}) == (200, {"predictions": rows})
    assert [sent(call)["x"] for call in door.calls] == [[[1], [4]], [[2, 3], [5, 6]]]


def test_instances_of_several_inputs_are_objects(door):
    rows = [{"a": [1, 2], "b": [3]}, {"b": [6], "a": [4, 5]}]
    assert door({"instances": rows}, "pair") == (200, {"predictions": rows})
    assert sent(door.calls[0]) == {"a": [[1, 2], [4, 5]], "b": [[3], [6]]}


def test_instances_by_the_name_of_the_only_input(door):
    assert door({"instances": [{"x": [1]}]}) == (200, {"predictions": [[1]]})


def test_columns(door):
    columns = {"a": [[1, 2]], "b": [[3]]}
    assert door({"inputs": columns}, "pair") == (200, {"outputs": columns})
    assert door({"inputs": [[1], [2]]}) == (200, {"outputs": [[1], [2]]})
    assert door({"inputs": {"x": [[1], [2]]}}) == (200, {"outputs": [[1], [2]]})


def test_words_and_bytes(door):
    word = {"b64": base64.b64encode(b"abc").decode()}
    assert door({"instances": [["hé"], [word]]}, "words") == (
        200,
        {"predictions": [["hé"], ["abc"]]},
    )
    assert door({"instances": [word]}, "words")[1] == {"predictions": ["abc"]}


def test_a_model_that_takes_one_row_gets_one_at_a_time(door):
    rows = [[1, 2], [3, 4]]
    assert door({"instances": rows}, "single") == (200, {"predictions": rows})
    assert [sent(call)["x"] for call in door.calls] == [[[1, 2]], [[3, 4]]]


def test_names_are_decoded_and_headers_count(door):
    assert door({"instances": [[1]]}, "a%2Fb", "X-Request-Timeout-Ms: 20")[0] == 200
    assert door.calls[0].budget_ns == 20_000_000


REFUSED = {
    "no JSON": (b"{", "failed to parse"),
    "no object": (b"[]", "must be an object with 'instances' or 'inputs'"),
    "neither": ({}, "expected one of 'instances' and 'inputs'"),
    "both": ({"instances": [], "inputs": []}, "and not both"),
    "no instances": ({"instances": []}, "must be a list of 1 to"),
    "no list": ({"instances": {"x": 1}}, "must be a list of 1 to"),
    "unknown": ({"instances": [{"y": [1]}]}, "unknown input the string 'y'; expected some of"),
    "text": ({"instances": [["a"]]}, "input 'x': 'data' of FP32 holds the string 'a'"),
    "uneven": ({"instances": [[[1], [2, 3]]]}, "'data' has 3 elements, but 'shape' asks for 2"),
    "null": ({"inputs": None}, "'data' of FP32 holds null"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_what_was_wrong(door, name):
    document, words = REFUSED[name]
    status, body = door(document)
    assert status == 400
    assert words in body["error"]
    assert not door.calls


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        ([3], "holds the number 3; expected a string or"),
        ([{"b64": "!"}], "'b64' is not base64"),
        ([["a", "b"], ["c"]], "holds 3 elements; expected 4"),
    ],
)
def test_what_is_no_word_is_refused(door, instance, words):
    status, body = door({"instances": [instance]}, "words")
    assert (status, words in body["error"]) == (400, True)


def test_several_inputs_need_names(door):
    assert "expected an object with ['a', 'b']" in door({"instances": [[1]]}, "pair")[1]["error"]


def test_unknown_model(door):
    assert door({"instances": [[1]]}, "none")[0] == 404


@pytest.mark.parametrize(("error", "status"), [(ModelFailed("no"), 500), (TooBusy("full"), 429)])
def test_the_first_error_answers_and_takes_the_others_back(door, service, error, status):
    assert door({"instances": [[1], [2, 3]]}, answer=error) == (status, {"error": str(error)})
    assert all(ticket.is_cancelled for ticket in service.tickets)


def test_a_refusal_in_the_middle_takes_the_others_back(door, service):
    submit = service.submit

    def refuse_the_second(call):
        if service.tickets:
            raise TooBusy("full")
        return submit(call)

    service.submit = refuse_the_second
    assert door({"instances": [[1], [2, 3], [4, 5, 6]]})[0] == 429
    assert [ticket.is_cancelled for ticket in service.tickets] == [True]


def test_an_output_without_a_row_for_each_instance_is_said(door):
    total = answer_of({"sum": np.ones((1, 1), np.float32)})
    status, body = door({"instances": [[1], [2]]}, answer=total)
    assert (status, "ask with 'inputs'" in body["error"]) == (400, True)
    assert door({"inputs": [[1], [2]]}, answer=total) == (200, {"outputs": [[1]]})


def test_who_goes_away_takes_the_calls_along(service):
    protocol, _, _ = connect(hot_routes(service, {}))
    protocol.data_received(post("/v1/models/echo:predict", b'{"instances":[[1],[2,3]]}'))
    protocol.connection_lost(None)
    assert [ticket.is_cancelled for ticket in service.tickets] == [True, True]
