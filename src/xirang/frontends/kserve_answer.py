"""Open Inference Protocol v2, infer: an answer's arrays to wire bytes, from templates."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from xirang.errors import ModelFailed
from xirang.frontends.errors import JSON_TYPE
from xirang.frontends.kserve import Wanted
from xirang.frontends.tensor_forms import to_binary, to_json
from xirang.tensors.tensor import DATATYPES

TEMPLATES_MAX = 1024

_templates: dict[tuple[str, np.dtype[Any], tuple[int, ...]], tuple[bytes, str]] = {}
"""Name, type and shape of an output to its JSON up to the elements. Bounded; emptied when full."""


def model_part(name: str, version: str) -> bytes:
    """The model's members of every answer; doors keep it for as long as the model is the same."""
    return b'"model_name":%b,"model_version":%b,"outputs":[' % (
        orjson.dumps(name),
        orjson.dumps(version),
    )


def encode(
    outputs: Mapping[str, NDArray[Any]], wanted: Wanted, *, identity: str, model: bytes
) -> tuple[bytes, bytes]:
    """Header lines and body of a response.

    Args:
        outputs: Name to array, in the order to be sent.
        wanted: Their forms.
        identity: The request's id; echoed unless empty.
        model: Of `model_part`.

    Raises:
        InvalidRequest: An output cannot be sent in the form that the client asked for.
        ModelFailed: An output's type has no datatype in the protocol.
    """
    parts = [b'{"id":%b,' % orjson.dumps(identity) if identity else b"{", model]
    blobs: list[bytes] = []
    separator = b""
    for name, array in outputs.items():
        prefix, datatype = _templates.get((name, array.dtype, array.shape)) or _template(
            name, array
        )
        if wanted.is_binary(name):
            blob = to_binary(array, datatype)
            blobs.append(blob)
            parts += separator, prefix, b'"parameters":{"binary_data_size":%d}}' % len(blob)
        else:
            parts += separator, prefix, b'"data":', to_json(array, datatype), b"}"
        separator = b","
    parts.append(b"]}")
    head = b"".join(parts)
    if not any(blobs):
        return JSON_TYPE, head
    return (
        b"content-type: application/octet-stream\r\n"
        b"inference-header-content-length: %d\r\n" % len(head)
    ), b"".join((head, *blobs))


def _template(name: str, array: NDArray[Any]) -> tuple[bytes, str]:
    datatype = "BYTES" if array.dtype.kind in "OSU" else DATATYPES.get(array.dtype)
    if datatype is None:
        raise ModelFailed(
            f"output '{name}' is a numpy {array.dtype}, which has no datatype in the protocol"
        )
    template = (
        b'{"name":%b,"datatype":"%b","shape":%b,'
        % (orjson.dumps(name), datatype.encode(), orjson.dumps(array.shape)),
        datatype,
    )
    if len(_templates) >= TEMPLATES_MAX:
        _templates.clear()
    _templates[name, array.dtype, array.shape] = template
    return template
