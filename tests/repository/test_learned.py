"""What was learned is found again for the same file, and never trusted blindly."""

import logging

import pytest

from xirang.repository.learned import Learned, digest_of

VALUE = {"can_pad": True, "ratios": [0.1, 1 / 3]}


@pytest.fixture
def model(tmp_path):
    file = tmp_path / "m.onnx"
    file.write_bytes(b"weights")
    return file


def test_what_was_written_is_read_at_the_next_start(model):
    assert Learned.of(model).write("cost", VALUE)
    assert Learned.of(model).read("cost") == VALUE
    assert Learned.of(model).read("verdict") is None
    (file,) = (model.parent / ".xirang").iterdir()
    assert file == Learned.of(model).path("cost")


def test_it_goes_with_the_bytes_and_not_with_the_name(model, tmp_path):
    Learned.of(model, where=str(tmp_path / "kept")).write("cost", VALUE)
    moved = model.rename(tmp_path / "other.onnx")
    assert Learned.of(moved, where=str(tmp_path / "kept")).read("cost") == VALUE
    moved.write_bytes(b"other weights")
    assert Learned.of(moved, where=str(tmp_path / "kept")).read("cost") is None


def test_weights_in_a_file_beside_the_model_count(model):
    before = digest_of(model)
    model.with_name("m.onnx.data").write_bytes(b"more weights")
    assert digest_of(model) != before


def test_it_can_be_turned_off(model):
    learned = Learned.of(model, where="off")
    assert not learned.write("cost", VALUE)
    assert learned.read("cost") is None
    assert not (model.parent / ".xirang").exists()
    assert Learned.of(None).read("cost") is None


FOREIGN = {
    "torn": lambda text: text[:-5],
    "empty": lambda text: b"",
    "not JSON": lambda text: b"\xff\x00",
    "another JSON": lambda text: b'{"format": 1}',
    "a later format": lambda text: text.replace(b'"format":1', b'"format":2'),
    "of another model": lambda text: text.replace(b'"digest":"', b'"digest":"0'),
    "too large": lambda text: text[:-1] + b" " * (1 << 20) + b"}",
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_a_damaged_or_foreign_file_is_ignored_with_a_warning(model, change, caplog):
    learned = Learned.of(model)
    learned.write("cost", VALUE)
    learned.path("cost").write_bytes(change(learned.path("cost").read_bytes()))
    assert learned.read("cost") is None
    assert "is ignored" in caplog.text


def test_where_nothing_can_be_written_nothing_is_kept_and_said_once(model, caplog):
    caplog.set_level(logging.INFO)
    (model.parent / ".xirang").write_bytes(b"a file in the way")
    learned = Learned.of(model)
    assert not learned.write("cost", VALUE)
    assert not learned.write("cost", VALUE)
    assert caplog.text.count("nothing learned about models is kept") == 1
