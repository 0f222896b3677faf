"""Which models a path or a name stands for."""

import pytest

from xirang.errors import InvalidSetting
from xirang.repository.discover import Kind, Source, discover


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder with one model of each kind, and things that are no models."""
    monkeypatch.chdir(tmp_path)
    for file in (
        "single.onnx",
        "folder/model.onnx",
        "text/model.onnx",
        "text/tokenizer.json",
        "versioned/1/model.onnx",
        "versioned/10/model.onnx",
        "versioned/9/model.onnx",
        "versioned/010/model.onnx",
        "versioned/99/notes.txt",
        "empty/readme.md",
        "notes.txt",
    ):
        path = tmp_path / "models" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "models"


def one(path):
    (source,) = discover([str(path)])
    return source


def test_a_file_is_called_by_its_stem(shelf):
    path = shelf / "single.onnx"
    assert one(path) == Source("single", Kind.ONNX, path)


def test_a_folder_is_called_by_its_name(shelf, monkeypatch):
    path = shelf / "folder"
    assert one(path) == Source("folder", Kind.ONNX, path / "model.onnx")
    monkeypatch.chdir(path)
    assert one(".").name == "folder"


def test_a_tokenizer_makes_it_a_text_model(shelf):
    assert one(shelf / "text").kind is Kind.TEXT


@pytest.mark.parametrize(
    "file", ["onnx/model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx"]
)
def test_a_text_models_file_may_lie_where_hugging_face_puts_it(file, tmp_path):
    path = tmp_path / "bert" / file
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / "bert" / "tokenizer.json").touch()
    assert one(tmp_path / "bert") == Source("bert", Kind.TEXT, path)
    (tmp_path / "bert" / "model.onnx").touch()
    assert one(tmp_path / "bert").path == tmp_path / "bert" / "model.onnx"


def test_the_highest_version_is_served(shelf):
    source = one(shelf / "versioned")
    assert (source.name, source.version) == ("versioned", "10")
    assert source.path == shelf / "versioned" / "10" / "model.onnx"


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_pytorchs_archives_are_models(suffix, tmp_path):
    alone, inside = tmp_path / f"alone{suffix}", tmp_path / "folder" / f"model{suffix}"
    inside.parent.mkdir()
    alone.touch()
    inside.touch()
    assert one(alone) == Source("alone", Kind.TORCH, alone)
    assert one(inside.parent) == Source("folder", Kind.TORCH, inside)
    (inside.parent / "model.onnx").touch()
    assert one(inside.parent).kind is Kind.ONNX
    (inside.parent / "tokenizer.json").touch()
    assert one(inside.parent).kind is Kind.TEXT


def test_a_module_of_pytorch_is_named_behind_the_library():
    assert one("torch:nets:Ranker") == Source("Ranker", Kind.TORCH_MODULE, target="nets:Ranker")
    assert one("torch:sigmoid") == Source("sigmoid", Kind.PYTHON, target="torch:sigmoid")


def test_a_folder_of_models_is_all_of_them(shelf):
    found = [(source.name, source.kind) for source in discover([str(shelf)])]
    assert found == [
        ("folder", Kind.ONNX),
        ("single", Kind.ONNX),
        ("text", Kind.TEXT),
        ("versioned", Kind.ONNX),
    ]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("module:f", "f"),
        ("package.module:Class", "Class"),
        ("module:object.method", "object_method"),
    ],
)
def test_python_objects_are_called_by_their_name(target, name):
    assert one(target) == Source(name, Kind.PYTHON, target=target)


def test_a_name_can_be_given(shelf):
    sources = discover([f"a={shelf / 'single.onnx'}", "b=module:f", f"c={shelf / 'versioned'}"])
    assert [(s.name, s.kind, s.version) for s in sources] == [
        ("a", Kind.ONNX, "1"),
        ("b", Kind.PYTHON, "1"),
        ("c", Kind.ONNX, "10"),
    ]


def test_a_path_that_exists_is_a_path_whatever_is_in_its_name(shelf):
    path = shelf / "a=b.onnx"
    path.touch()
    assert one(path).name == "a=b"
    (shelf / "looks:like").mkdir()
    (shelf / "looks:like" / "model.onnx").touch()
    assert one(shelf / "looks:like").kind is Kind.ONNX


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (
            ["nowhere"],
            "'nowhere' does not exist; expected a file of .onnx, .pt2, .pt, a folder, module:name",
        ),
        (["models/empty"], "models/empty holds no model; expected a file of .onnx"),
        (["models/notes.txt"], r"models/notes\.txt holds no model"),
        (["a=models"], "names 4 models; expected one for a name"),
        (["=models/single.onnx"], "an empty model name"),
        (["a="], "'' does not exist"),
        ([""], "'' does not exist"),
        (["models/single.onnx", "single=module:f"], r"several models are called \['single'\]"),
        (["3:f"], "'3:f' does not exist"),
    ],
    ids=str,
)
def test_what_is_no_model_is_refused_by_name(paths, pattern, shelf):
    with pytest.raises(InvalidSetting, match=pattern):
        discover(paths)


def test_no_paths_are_no_models():
    assert discover([]) == []
