"""A model that comes with the request to load it: only where it belongs."""

from pathlib import Path

import pytest

from xirang.errors import InvalidRequest
from xirang.repository.override import override_of

CONFIG = '{"backend": "onnxruntime", "max_batch_size": 2}'


@pytest.mark.parametrize("name", ["..", "../../x", "/etc", "m"])
def test_a_models_name_cannot_lead_elsewhere(name):
    override = override_of(name, {"config": CONFIG, "file:1/model.onnx": b"abc"})
    scratch = Path(override.scratch.name).resolve()
    (file,) = [path for path in scratch.rglob("*") if path.is_file()]
    assert file == (override.place.folder / "1" / "model.onnx").resolve()
    override.scratch.cleanup()


def test_nothing_brought_is_nothing_changed():
    assert override_of("m", {}) is None


def test_a_configuration_alone_leaves_the_files():
    override = override_of("m", {"config": CONFIG})
    assert override.config.max_batch_size == 2
    assert override.config.name == "m"
    assert override.place is override.scratch is None


def test_files_get_a_folder_of_their_own():
    override = override_of("m", {"config": CONFIG, "file:1/model.onnx": b"abc"})
    assert (override.place.folder / "1" / "model.onnx").read_bytes() == b"abc"
    assert override.place.versions() == [1]
    folder = override.place.folder
    override.scratch.cleanup()
    assert not folder.exists()


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/x",
        "1/../../x",
        "",
        ".",
        "1//x",
        "1/.hidden",
        "1\\x",
        "a/" * 9 + "x",
        "1/x\0",
        "~/x",
    ],
)
def test_a_path_cannot_lead_elsewhere(path):
    with pytest.raises(InvalidRequest, match="is no path of a file in a model's folder"):
        override_of("m", {"config": CONFIG, f"file:{path}": b""})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"zzz": "1"}, "unexpected parameter 'zzz'"),
        ({"file:1/model.onnx": "text"}, "unexpected parameter"),
        ({"config": b"bytes"}, "unexpected parameter"),
        ({"file:1/model.onnx": b""}, "files come along, but no config"),
        ({"config": "{"}, "load failed for model 'm': the model configuration is wrong"),
        ({"config": '{"max_batch_size": -1}'}, "must be non-negative"),
        ({"config": '{"name": "other"}'}, "directory name must equal model name"),
    ],
)
def test_what_must_not_be_brought_is_named(parameters, message):
    with pytest.raises(InvalidRequest, match=message):
        override_of("m", parameters)
