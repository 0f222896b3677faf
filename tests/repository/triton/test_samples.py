"""Warm-up samples are run as they are written down, and a wrong one is named."""

import numpy as np
import pytest

from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import checked
from xirang.repository.triton.reading import read_text
from xirang.repository.triton.samples import run_samples

HEAD = "max_batch_size: 4 output { name: 'y' data_type: TYPE_FP32 dims: 2 } "
HEAD += "input { name: 'x' data_type: TYPE_FP32 dims: 2 } "


class Taker:
    def __init__(self):
        self.taken = []

    def run(self, inputs, wanted):
        assert wanted == ["y"]
        self.taken.append(inputs["x"])
        return {}


def run(sample, folder):
    taker = Taker()
    run_samples(
        checked(read_text(HEAD + f"model_warmup {{ name: 'w' {sample} }}"), "m"), taker, folder
    )
    return taker.taken


def x(data, datatype="TYPE_FP32", dims="2"):
    return f"inputs {{ key: 'x' value {{ data_type: {datatype} dims: {dims} {data} }} }}"


def test_zeros_random_values_and_files(tmp_path):
    (zeros,) = run("batch_size: 3 " + x("zero_data: true"), tmp_path)
    assert np.array_equal(zeros, np.zeros((3, 2), np.float32))
    first, second = run("count: 2 " + x("random_data: true"), tmp_path)
    assert first.shape == second.shape == (1, 2)
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup" / "raw").write_bytes(np.array([1, 2, 3, 4], np.float32).tobytes())
    (read,) = run("batch_size: 2 " + x("input_data_file: 'raw'"), tmp_path)
    assert read.tolist() == [[1, 2], [3, 4]]
    (words,) = run(x("zero_data: true", "TYPE_STRING"), tmp_path)
    assert words.tolist() == [[b"", b""]]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ("batch_size: 8 " + x(""), "batch size 8 for 'm', max allowed is 4"),
        ("", "expected 1 inputs but got 0 inputs for model 'm'"),
        (x("", dims="-1"), "expected sizes of at least 1"),
        (x("", datatype="TYPE_INVALID"), "must specify 'data_type'"),
        (x("input_data_file: 'nosuch'"), "cannot read warmup/nosuch"),
        (x("input_data_file: '../../secret'"), "is not in the model's folder"),
        (x("input_data_file: 'short'"), "warmup/short has 3 bytes; expected 8"),
    ],
)
def test_a_wrong_sample_is_named(tmp_path, sample, message):
    folder = tmp_path / "m"
    (folder / "warmup").mkdir(parents=True)
    (folder / "warmup" / "short").write_bytes(b"abc")
    (tmp_path / "secret").write_bytes(b"12345678")
    with pytest.raises(InvalidSetting, match="failed to run warmup sample 'w'") as raised:
        run(sample, folder)
    assert message in str(raised.value)
