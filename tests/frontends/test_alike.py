"""A request that is read by its likeness to another means what it would have meant without it."""

import json

import orjson
import pytest
from hypothesis import given, settings, strategies as st
from tests.frontends.messages import body, tensor

from xirang.errors import InvalidRequest
from xirang.frontends.v2 import kserve
from xirang.frontends.v2.alike import KEPT_MAX, TEXT_BYTES_MAX, Alikes


@pytest.fixture(autouse=True)
def alikes(monkeypatch):
    fresh = Alikes()
    monkeypatch.setattr(kserve, "_alikes", fresh)
    return fresh


@pytest.fixture
def parsed(monkeypatch):
    """What was read as a whole."""
    texts = []
    parse = kserve._parse
    monkeypatch.setattr(kserve, "_parse", lambda text: texts.append(text) or parse(text))
    return texts


def understood(text):
    try:
        return kserve.decode(text)
    except InvalidRequest as error:
        return str(error)


PLAIN = body(tensor(shape=(1, 2), data=(1.5, 2)))


def test_other_numbers_are_read_and_the_rest_is_not(parsed):
    assert understood(PLAIN).inputs["x"].data == understood(PLAIN).inputs["x"].data
    other = understood(PLAIN.replace(b"1.5", b"-7.25e0"))
    assert other == understood(body(tensor(shape=(1, 2), data=(-7.25, 2))))
    assert len(parsed) == 1


@pytest.mark.parametrize(
    "elements",
    [
        *(b"[1,2,3]", b"[1]", b"[]", b"[1,true]", b'[1,"2"]', b"[1,null]", b"[1,[2]]", b"[[1],2]"),
        *(b"[1,NaN]", b"[1,Infinity]", b"[1,2", b"1,2]", b"[1,2]]", b"[1,2],[3]", b"", b"{}", b"7"),
        *(
            b'[1,2],"data":[3,4]',
            b'[1,2]}],"id":"x","outputs":[{"name":"y"',
            b"[1,1e99]",
            b"[1 ,2]",
        ),
        *(b"[[1,2]]", b"[[1],[2]]", b" [1,2] ", b"[0x1,2]", b"[1,2,]", b"[01,2]", b"[1e2,-0.0]"),
    ],
)
def test_whatever_stands_for_the_elements_is_read_as_ever(elements, alikes):
    changed = PLAIN.replace(b"[1.5,2]", elements)
    expected = understood(changed)
    understood(PLAIN)
    assert len(alikes._kept) == 1 or understood(changed) == expected
    alikes._kept.clear()
    understood(PLAIN)
    assert understood(changed) == expected


numbers = st.one_of(
    st.integers(-(2**33), 2**33), st.floats(width=32), st.booleans(), st.text(max_size=3)
)


@st.composite
def documents(draw):
    datatype = draw(st.sampled_from(["FP32", "INT8", "BYTES", "BOOL", "FP16", "x"]))
    elements = draw(st.lists(numbers, max_size=3))
    made = {"name": draw(st.sampled_from(["x", 'a"data":[1]'])), "datatype": datatype}
    members = [
        ("shape", [1, draw(st.sampled_from([len(elements), 2]))]),
        ("data", draw(st.sampled_from([elements, [elements], [[e] for e in elements]]))),
    ]
    if draw(st.booleans()):
        members.reverse()
    made |= dict(members)
    inputs = [made] * draw(st.sampled_from([1, 1, 1, 2]))
    document = {"inputs": inputs}
    document |= draw(
        st.sampled_from(
            [
                {},
                {"id": "1"},
                {"parameters": {"timeout": 5}},
                {"outputs": [{"name": "y", "parameters": {"binary_data": True}}]},
                {"parameters": {"own": 1}},
                {"data": [3]},
            ]
        )
    )
    if draw(st.booleans()):
        document = dict(reversed(document.items()))
    return json.dumps(
        document, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    ).encode()


@settings(max_examples=300, deadline=None)
@given(st.lists(documents(), min_size=2, max_size=6))
def test_with_and_without_memory_the_same_is_understood(texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kserve, "_alikes", Alikes())
        remembered = [understood(text) for text in texts + texts]
        patch.setattr(kserve, "_read_again", lambda _text: None)
        read = [understood(text) for text in texts + texts]
    assert remembered == read


def test_a_request_with_a_name_of_its_own_is_not_kept(alikes):
    understood(body(tensor(), id="7"))
    understood(body(tensor(), parameters={"own": 1}))
    assert not alikes._kept


def test_nothing_large_is_kept(alikes):
    understood(body(tensor(shape=(1, 100_000), data=[0] * 100_000)))
    understood(body(tensor(name="x" * TEXT_BYTES_MAX)))
    assert not alikes._kept
    understood(body(tensor(shape=(1, 9_000), data=[0] * 9_000)))
    (known,) = alikes._kept.items()
    assert len(orjson.dumps(str(known))) < 1000


def test_what_is_kept_is_bounded(alikes):
    for number in range(KEPT_MAX + 1):
        understood(body(tensor(name=f"x{number}")))
    assert len(alikes._kept) == 1


def test_a_list_that_is_no_tensors_is_not_taken_for_one(alikes):
    for text in (
        b'{"data":[1],"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"data":0,"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"inputs":[{"data":[9],"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}',
    ):
        assert understood(text).inputs["x"].shape == (1,)
    assert not alikes._kept
