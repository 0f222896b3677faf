"""Requests of any shape, many at once: the right answer, or a 4xx that says why."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from math import prod

import numpy as np
import pytest
import requests
from hypothesis import HealthCheck, given, settings, strategies as st

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TOGETHER = 8
ROWS_MAX, LENGTH_MAX = 5, 12
TYPES = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64}


@dataclass
class Draft:
    """A request to be, and whether somebody spoiled it.

    Attributes:
        inputs: Name to datatype, shape and flat data.
    """

    model: str
    inputs: dict
    is_spoiled: bool = False
    outputs: list = field(default_factory=list)

    def document(self):
        inputs = [
            {"name": name, "datatype": datatype, "shape": shape, "data": data}
            for name, (datatype, shape, data) in self.inputs.items()
        ]
        return {"inputs": inputs}

    def arrays(self):
        arrays = {
            name: np.array(data, TYPES[datatype]).reshape(shape)
            for name, (datatype, shape, data) in self.inputs.items()
        }
        if "ids" in arrays:
            arrays.setdefault("attention_mask", np.ones_like(arrays["ids"]))
        return arrays


@st.composite
def drafts(draw):
    model = draw(st.sampled_from(["mlp", "add_sub", "masked_double"]))
    rows = draw(st.integers(1, ROWS_MAX))
    numbers = st.integers(-50, 50)

    def tensor(datatype, shape, elements=numbers):
        seed = draw(st.lists(elements, min_size=1, max_size=7))
        return datatype, list(shape), (seed * prod(shape))[: prod(shape)]

    if model == "mlp":
        inputs = {"x": tensor("FP32", (rows, 64))}
    elif model == "add_sub":
        inputs = {name: tensor("INT32", (rows, 16)) for name in ("INPUT0", "INPUT1")}
    else:
        shape = (rows, draw(st.integers(1, LENGTH_MAX)))
        inputs = {
            "ids": tensor("INT64", shape),
            "attention_mask": tensor("INT64", shape, st.integers(0, 1)),
        }
    draft = Draft(model, inputs)
    if draw(st.booleans()):
        draw(st.sampled_from(SPOILERS))(draft, draw)
        draft.is_spoiled = True
    elif model == "masked_double" and draw(st.booleans()):
        del draft.inputs["attention_mask"]  # who leaves it out means that all is real
    return draft


def _any_input(draft, draw):
    return draw(st.sampled_from(sorted(draft.inputs)))


def spoil_rank(draft, draw):
    name = _any_input(draft, draw)
    datatype, shape, data = draft.inputs[name]
    draft.inputs[name] = (datatype, draw(st.sampled_from([[1, *shape], shape[:1], []])), data)


def spoil_size(draft, draw):
    name = _any_input(draft, draw)
    datatype, shape, data = draft.inputs[name]
    axis = draw(st.integers(0, len(shape) - 1))
    wrong = draw(st.sampled_from([0, -1, shape[axis] + 1, 2**40, 2**63, 1.5, "4", None, True, []]))
    shape = [wrong if i == axis else size for i, size in enumerate(shape)]
    draft.inputs[name] = (datatype, shape, data)


def spoil_count(draft, draw):
    name = _any_input(draft, draw)
    datatype, shape, data = draft.inputs[name]
    draft.inputs[name] = (datatype, shape, draw(st.sampled_from([data[:-1], [*data, 1], [], [[]]])))


def spoil_element(draft, draw):
    name = _any_input(draft, draw)
    datatype, shape, data = draft.inputs[name]
    too_large = 1e300 if datatype == "FP32" else 2**70
    wrong = draw(st.sampled_from(["1", None, True, {}, [1, 1], too_large, "NaN"]))
    draft.inputs[name] = (datatype, shape, [*data[:-1], wrong])


def spoil_datatype(draft, draw):
    name = _any_input(draft, draw)
    _, shape, data = draft.inputs[name]
    wrong = draw(st.sampled_from(["BOOL", "UINT8", "FP64", "BYTES", "FP16", "float", "", 7]))
    draft.inputs[name] = (wrong, shape, data)


def spoil_names(draft, draw):
    name = _any_input(draft, draw)
    tensor = draft.inputs[name]
    if name != "attention_mask" and draw(st.booleans()):
        del draft.inputs[name]
    else:
        unknown = st.text(max_size=5).filter(lambda text: text not in draft.inputs)
        draft.inputs[draw(unknown)] = tensor


def spoil_agreement(draft, draw):
    """A well-formed tensor of other rows or another length than its companion, or than it must."""
    name = _any_input(draft, draw)
    datatype, shape, _ = draft.inputs[name]
    axis = draw(st.integers(0, 1)) if len(draft.inputs) > 1 else 1
    shape = [size + (i == axis) for i, size in enumerate(shape)]
    draft.inputs[name] = (datatype, shape, [1] * prod(shape))


SPOILERS = [
    spoil_rank,
    spoil_size,
    spoil_count,
    spoil_element,
    spoil_datatype,
    spoil_names,
    spoil_agreement,
]


@pytest.fixture(scope="module")
def ask(house, record_testsuite_property):
    session = requests.Session()
    adapter = requests.adapters.HTTPAdapter(pool_maxsize=TOGETHER)
    session.mount("http://", adapter)

    asked = count()

    def ask(draft):
        next(asked)
        url = f"{house.url}/v2/models/{draft.model}/infer"
        return session.post(url, json=draft.document(), timeout=30)

    with ThreadPoolExecutor(TOGETHER) as pool, session:
        yield lambda drafts: list(pool.map(ask, drafts))
    record_testsuite_property("requests", next(asked))


@given(drafts=st.lists(drafts(), min_size=2, max_size=TOGETHER))
@settings(max_examples=max(150, settings().max_examples), suppress_health_check=list(HealthCheck))
def test_any_shape_gets_the_right_answer_or_a_reason(house, ask, drafts):
    for draft, response in zip(drafts, ask(drafts), strict=True):
        answer = response.json()
        if draft.is_spoiled:
            assert 400 <= response.status_code < 500, (draft, answer)
            assert len(answer["error"]) > 10
            continue
        assert response.status_code == 200, (draft, answer)
        alone = house.alone(draft.model, **draft.arrays())
        assert {output["name"] for output in answer["outputs"]} == set(alone)
        for output in answer["outputs"]:
            expected = alone[output["name"]]
            got = np.array(output["data"], expected.dtype).reshape(output["shape"])
            np.testing.assert_array_equal(got, expected)
    assert requests.get(f"{house.url}/v2/health/ready", timeout=10).status_code == 200
