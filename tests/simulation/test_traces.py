"""Trace files: what is read from them, and what is said of bad ones."""

import gzip

import pytest

from xirang.errors import InvalidSetting
from xirang.lab.traces import bundled, load_histogram, load_trace


def test_a_plain_and_a_packed_file_are_the_same(tmp_path):
    text = "t_ms,length\n30,7\n10,5\n20,6\n"
    plain, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        trace = load_trace(str(path))
        assert trace.times_ms == (0.0, 10.0, 20.0)
        assert trace.lengths == (5, 6, 7)


def test_lengths_may_be_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t_ms\n1\n2\n")
    assert load_trace(str(path)).lengths == ()


BAD = {
    "no column": ("at\n1\n2\n", "needs a column t_ms"),
    "no number": ("t_ms\n1\nx\n", "not a trace of numbers"),
    "one instant": ("t_ms\n1\n1\n", "at least two different instants"),
    "empty": ("", "at least two different instants"),
    "no text": (b"\xff\xfe\x00", "not a CSV file"),
    "broken gzip": (b"\x1f\x8b\x08broken", "not a CSV file"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_bad_traces_are_refused(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidSetting, match=message):
        load_trace(str(path))


def test_an_unknown_name_lists_the_known():
    with pytest.raises(InvalidSetting, match="azure_llm_2023_code, azure_llm_2023_conv"):
        load_trace("azure")


def test_the_bundled_histogram():
    (name,) = bundled("lengths")
    lengths, counts = load_histogram(name)
    assert (min(lengths), max(lengths), sum(counts)) == (2, 512, 157_775)


@pytest.mark.parametrize("text", ["length\n3\n", "length,count\n", "length,count\n0,4\n"])
def test_bad_histograms_are_refused(tmp_path, text):
    path = tmp_path / "h.csv"
    path.write_text(text)
    with pytest.raises(InvalidSetting, match="length"):
        load_histogram(str(path))
