"""Bodies are made before the run, from seeds and files, in the forms the protocols name."""

import gzip
import json

import numpy as np
import pytest

from xirang.errors import InvalidSetting
from xirang.lab.load import payloads
from xirang.lab.load.payloads import Lengths, TensorShape


def test_token_lists_are_seeded_clipped_and_framed():
    lengths = Lengths.parse("lognormal:30:0.92:3:512")
    lists = lengths.token_lists(2000, seed=5)
    assert lists == lengths.token_lists(2000, seed=5)
    sizes = np.array([len(tokens) for tokens in lists])
    assert sizes.min() >= 3
    assert sizes.max() <= 512
    assert np.median(sizes) == pytest.approx(30, rel=0.1)
    assert all(tokens[0] == 101 and tokens[-1] == 102 for tokens in lists)
    assert all(1000 <= token < 30000 for tokens in lists for token in tokens[1:-1])


@pytest.mark.parametrize(
    "text", ["", "normal:1:1:3:4", "lognormal:30:1:3", "lognormal:0:1:3:9", "lognormal:9:1:9:3"]
)
def test_bad_lengths_are_refused_with_the_form(text):
    with pytest.raises(InvalidSetting, match="lognormal:MEDIAN:SIGMA:MIN:MAX"):
        Lengths.parse(text)


def test_embedding_bodies_name_model_and_input():
    texts = payloads.of_texts("mini", ["héllo"])
    assert texts.path == "/v1/embeddings"
    assert json.loads(texts.bodies[0]) == {"model": "mini", "input": "héllo"}
    tokens = payloads.of_tokens("mini", [[101, 5, 102]])
    assert json.loads(tokens.bodies[0]) == {
        "model": "mini",
        "encoding_format": "base64",
        "input": [101, 5, 102],
    }


def test_json_tensors_are_flat_and_seeded():
    shapes = [TensorShape.parse("a:FP32:2x3"), TensorShape.parse("mask:BOOL:2")]
    made = payloads.of_tensors("m", shapes, 3, seed=1)
    assert made == payloads.of_tensors("m", shapes, 3, seed=1)
    assert made.path == "/v2/models/m/infer"
    first, mask = json.loads(made.bodies[0])["inputs"]
    assert (first["name"], first["shape"], first["datatype"]) == ("a", [2, 3], "FP32")
    assert len(first["data"]) == 6
    assert all(isinstance(value, bool) for value in mask["data"])


def test_binary_tensors_carry_head_length_and_raw_bytes():
    shapes = [TensorShape.parse("a:FP32:1,4"), TensorShape.parse("b:INT64:1,2")]
    made = payloads.of_binary_tensors("m", shapes, 2, seed=1)
    head_size = int(dict(made.headers)["Inference-Header-Content-Length"])
    for body in made.bodies:
        head = json.loads(body[:head_size])
        sizes = [entry["parameters"]["binary_data_size"] for entry in head["inputs"]]
        assert sizes == [16, 16]
        assert head["parameters"] == {"binary_data_output": True}
        assert len(body) == head_size + 32
        assert np.isfinite(np.frombuffer(body, "<f4", 4, head_size)).all()


@pytest.mark.parametrize("text", ["a", "a:FP32", "a:FP99:1", "a:BYTES:1", "a:FP32:0", ":FP32:1"])
def test_bad_tensors_are_refused(text):
    with pytest.raises(InvalidSetting, match="expected"):
        TensorShape.parse(text)


def test_half_precision_needs_the_binary_form():
    half = [TensorShape.parse("a:FP16:4")]
    with pytest.raises(InvalidSetting, match="--binary"):
        payloads.of_tensors("m", half, 1, seed=0)
    assert payloads.of_binary_tensors("m", half, 1, seed=0).bodies


def test_texts_come_from_lines_and_from_json_lines(tmp_path):
    plain = tmp_path / "texts.txt"
    plain.write_text("one\n\n two \n")
    assert payloads.read_texts(plain) == ["one", " two "]
    lines = tmp_path / "texts.jsonl.gz"
    lines.write_bytes(gzip.compress(b'{"text": "one", "n": 1}\n{"text": "two"}\n'))
    assert payloads.read_texts(lines) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.txt", b"\n", "no text"),
        ("a.txt", b"\xff", "UTF-8"),
        ("a.jsonl", b'{"text": 3}', "entry 1"),
        ("a.jsonl", b'{"text": "x"}\nnothing', "entry 2"),
        ("a.txt.gz", b"plain", "a.txt.gz"),
    ],
)
def test_bad_text_files_are_named(tmp_path, name, content, complaint):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidSetting, match=complaint):
        payloads.read_texts(path)


def test_a_body_file_must_be_json(tmp_path):
    path = tmp_path / "body.json"
    path.write_text('{"a": 1}')
    assert payloads.of_body_file(path).bodies == (b'{"a": 1}',)
    path.write_text("{")
    with pytest.raises(InvalidSetting, match="not JSON"):
        payloads.of_body_file(path)
