"""Between numpy and the wire's datatypes, nothing is lost."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as numpy_st

from xirang.tensors.tensor import DATATYPES, NUMPY_TYPES, Tensor, of_array, to_array

NUMBERS = [name for name in NUMPY_TYPES if name != "BYTES"]


@pytest.mark.parametrize("datatype", NUMBERS)
@given(data=st.data())
def test_arrays_survive_the_way_there_and_back(datatype, data):
    dtype = NUMPY_TYPES[datatype]
    array = data.draw(numpy_st.arrays(dtype, numpy_st.array_shapes(min_dims=0, min_side=0)))
    tensor = of_array(array)
    assert (tensor.datatype, tensor.shape) == (datatype, array.shape)
    assert len(tensor.data) == array.nbytes
    back = to_array(tensor)
    assert back.dtype == dtype
    assert back.tobytes() == array.tobytes()


@given(st.lists(st.binary(max_size=9), min_size=0, max_size=6))
def test_words_survive_the_way_there_and_back(words):
    array = np.empty(len(words), object)
    array[:] = words
    tensor = of_array(array.reshape(1, -1))
    assert (tensor.datatype, tensor.shape, tensor.data) == ("BYTES", (1, len(words)), words)
    assert to_array(tensor).tolist() == [words]


@pytest.mark.parametrize(
    "array", [np.array(["a", "ß"]), np.array([b"a", "ß".encode()]), np.array(["a", "ß"], object)]
)
def test_text_of_any_kind_becomes_utf8_bytes(array):
    assert of_array(array).data == [b"a", "ß".encode()]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=">i4").reshape(3, 4),
        np.arange(12, dtype=np.float64).reshape(4, 3).T,
        np.arange(24, dtype=np.int16)[::2],
        np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        np.array(7, np.longlong),
    ],
    ids=["big-endian", "transposed", "strided", "fortran", "long long"],
)
def test_the_bytes_are_little_endian_and_row_major_whatever_the_array_was(array):
    tensor = of_array(array)
    expected = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    assert bytes(tensor.data) == expected.tobytes()
    assert to_array(tensor).tolist() == array.tolist()


def test_an_array_that_is_right_already_is_not_copied():
    array = np.arange(6, dtype=np.float32)
    assert np.shares_memory(to_array(of_array(array)), array)


@pytest.mark.parametrize("dtype", ["complex64", "M8[s]", "longdouble"])
def test_types_without_a_datatype_are_refused(dtype):
    with pytest.raises(TypeError, match=r"expected one of .*'FP32'"):
        of_array(np.zeros(2, dtype))


def test_the_two_tables_are_one():
    assert {DATATYPES[dtype]: dtype for dtype in DATATYPES} == NUMPY_TYPES


def test_bytes_are_viewed_and_not_copied():
    data = bytes(range(16))
    array = to_array(Tensor("UINT8", (2, 8), data))
    assert array.tolist() == [list(range(8)), list(range(8, 16))]
    assert not array.flags.writeable
