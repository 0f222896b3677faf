"""Infer requests that are nothing but the one input's bytes, without any JSON."""

from math import prod

from xirang.errors import InvalidRequest
from xirang.frontends.service import ModelInfo
from xirang.frontends.v2.kserve import InferRequest, Wanted
from xirang.frontends.v2.tensor_forms import from_binary
from xirang.tensors.tensor import NUMPY_TYPES, Tensor


def decode_raw(body: bytes, model: ModelInfo) -> InferRequest:
    """The request in a body that is nothing but the one input's bytes; its answer is binary.

    Raises:
        InvalidRequest: The model's shape cannot be told from the number of bytes.
    """
    if len(model.inputs) != 1:
        raise InvalidRequest(
            "Raw request must only have 1 input (found 1) to be deduced but got "
            f"{len(model.inputs)} inputs in '{model.name}' model configuration"
        )
    spec = model.inputs[0]
    shape = (1, *spec.shape[1:])
    blob = memoryview(body)
    if spec.datatype == "BYTES":
        if any(axis != 1 for axis in shape):
            raise InvalidRequest(
                f"For BYTE datatype raw input '{spec.name}', the model must have input shape [1]"
            )
        tensor = Tensor("BYTES", shape, [body])
    else:
        shape = _deduced(shape, len(body), spec.datatype, spec.name)
        tensor = Tensor(spec.datatype, shape, from_binary(blob, spec.datatype, prod(shape)))
    return InferRequest("", {spec.name: tensor}, Wanted(is_binary_default=True))


def _deduced(shape: tuple[int, ...], size_bytes: int, datatype: str, name: str) -> tuple[int, ...]:
    dynamic = shape.count(-1)
    if dynamic > 1:
        raise InvalidRequest(
            f"The shape of the raw input '{name}' can not be deduced because there are more than "
            "one variable-sized dimension"
        )
    if not dynamic:
        return shape
    known = prod(axis for axis in shape if axis != -1) * NUMPY_TYPES[datatype].itemsize
    length = size_bytes // known if known else 0
    return tuple(length if axis == -1 else axis for axis in shape)
