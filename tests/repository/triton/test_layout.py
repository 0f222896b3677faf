"""Folders of models: which there are, which versions are served, and nothing outside is read."""

import os

import pytest

from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import checked
from xirang.repository.triton.layout import Place, chosen, places
from xirang.repository.triton.reading import read_text


def place_at(root, name="m", *versions):
    for version in versions or ("1",):
        (root / name / version).mkdir(parents=True, exist_ok=True)
    return Place(name, root / name, root)


def test_versions_are_numbers_that_do_not_begin_with_zero(tmp_path):
    place = place_at(tmp_path, "m", "1", "10", "2", "01", "0", "x", "1.5", "configs")
    (place.folder / "7").touch()
    assert place.versions() == [1, 2, 10]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", [10]),
        ("version_policy { latest { num_versions: 2 } }", [2, 10]),
        ("version_policy { all { } }", [1, 2, 10]),
        ("version_policy { specific { versions: [ 10, 1, 5 ] } }", [1, 10]),
    ],
)
def test_a_policy_chooses_among_them(policy, expected):
    assert chosen(checked(read_text(policy), "m"), [1, 2, 10]) == expected


@pytest.mark.parametrize("policy", ["specific { versions: 7 }", "latest { num_versions: 0 }"])
def test_a_policy_that_chooses_none_is_refused(policy):
    config = checked(read_text(f"version_policy {{ {policy} }}"), "m")
    with pytest.raises(InvalidSetting, match="at least one version must be available"):
        chosen(config, [1, 2])


def test_models_of_several_repositories_are_found_and_a_name_twice_is_nobodys(tmp_path):
    for root, name in (("a", "x"), ("a", "both"), ("b", "both"), ("b", "y")):
        (tmp_path / root / name).mkdir(parents=True)
    (tmp_path / "a" / ".git").mkdir()
    (tmp_path / "a" / "file").touch()
    found = places([tmp_path / "a", tmp_path / "b"])
    assert set(found) == {"x", "y", "both"}
    assert found["both"] is None
    assert found["y"] == Place("y", tmp_path / "b" / "y", tmp_path / "b")
    with pytest.raises(InvalidSetting, match="is no folder"):
        places([tmp_path / "nowhere"])


def test_a_configuration_is_read_and_its_faults_have_a_line(tmp_path):
    place = place_at(tmp_path)
    assert place.config().max_batch_size == 0
    assert not place.has_config()
    (place.folder / "config.pbtxt").write_text("max_batch_size: 3\n")
    assert place.config().max_batch_size == 3
    (place.folder / "config.pbtxt").write_text("max_batch_size: 3\nfoo: 1\n")
    with pytest.raises(InvalidSetting, match=r'^m/config\.pbtxt: 2:1: .* no field named "foo"'):
        place.config()
    (place.folder / "config.pbtxt").write_bytes(b"\xff")
    with pytest.raises(InvalidSetting, match=r"m/config\.pbtxt"):
        place.config()
    (place.folder / "config.pbtxt").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(InvalidSetting, match="at most 1048576 bytes"):
        place.config()


def test_a_link_may_not_lead_outside(tmp_path):
    place = place_at(tmp_path / "repository")
    secret = tmp_path / "secret.pbtxt"
    secret.write_text("max_batch_size: 3")
    (place.folder / "config.pbtxt").symlink_to(secret)
    with pytest.raises(InvalidSetting, match="leads out of the model repository"):
        place.config()
    (place.folder / "1" / "model.onnx").symlink_to(secret)
    with pytest.raises(InvalidSetting, match="leads out"):
        place.inside(place.folder / "1" / "model.onnx")
    with pytest.raises(InvalidSetting, match="leads out"):
        place.inside(place.folder / ".." / ".." / "secret.pbtxt")
    (place.folder / "2").mkdir()
    (place.folder / "2" / "model.onnx").symlink_to(place.folder / "1" / "other")
    assert place.inside(place.folder / "2" / "model.onnx")


def test_stamps_tell_what_has_changed_and_leave_out_what_is_hidden(tmp_path):
    place = place_at(tmp_path, "m", "1", "2")
    (place.folder / "config.pbtxt").write_text("")
    for version in ("1", "2"):
        (place.folder / version / "model.onnx").write_bytes(b"x")
    before = place.stamps()
    assert set(before) == {"", "1", "2"}
    (place.folder / "1" / ".xirang").mkdir()
    (place.folder / "1" / ".xirang" / "kept").touch()
    assert place.stamps() == before
    (place.folder / "1" / "model.onnx").write_bytes(b"xy")
    changed = {key for key, stamp in place.stamps().items() if stamp != before[key]}
    assert changed == {"1"}
    before = place.stamps()
    os.utime(place.folder / "config.pbtxt", ns=(1, 1))
    assert {key for key, stamp in place.stamps().items() if stamp != before[key]} == {""}
