"""Open Inference Protocol v2, infer: an answer's arrays to wire bytes, from templates."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from xirang.errors import ModelFailed
from xirang.frontends.errors import JSON_TYPE
from xirang.frontends.v2.kserve import Wanted
from xirang.frontends.v2.tensor_forms import to_binary, to_json
from xirang.tensors.tensor import DATATYPES

TEMPLATES_MAX = 1024

_templates: "dict[tuple[str, np.dtype[Any], tuple[int, ...]], _Template]" = {}
"""Of each output by name, type and shape. Bounded; emptied when full."""


class _Template(msgspec.Struct, frozen=True):
    """What is known of an output's JSON before its elements are.

    Attributes:
        datatype: Of the protocol.
        opening: Its JSON up to the elements.
        binary: All its JSON when the elements go as binary; None when their size varies.
    """

    datatype: str
    opening: bytes
    binary: bytes | None


def model_part(name: str, version: str) -> bytes:
    """The model's members of every answer; doors keep it for as long as the model is the same."""
    return b'"model_name":%b,"model_version":%b,"outputs":[' % (
        orjson.dumps(name),
        orjson.dumps(version),
    )


def encode(
    outputs: Mapping[str, NDArray[Any]],
    wanted: Wanted,
    *,
    identity: str,
    model: bytes,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[bytes, bytes]:
    """Header lines and body of a response.

    Args:
        outputs: Name to array, in the order to be sent.
        wanted: Their forms.
        identity: The request's id; echoed unless empty.
        model: Of `model_part`.
        parameters: Of the response; none by default.

    Raises:
        InvalidRequest: An output cannot be sent in the form that the client asked for.
        ModelFailed: An output's type has no datatype in the protocol.
    """
    pieces: list[bytes] = []
    blobs: list[bytes] = []
    is_all, some = wanted.names is None and wanted.is_binary_default, wanted.binary
    placed = () if wanted.special is None else wanted.special.places
    for name, array in outputs.items():
        template = _templates.get((name, array.dtype, array.shape)) or _template(name, array)
        if name in placed:  # the client finds its elements in shared memory
            pieces.append(template.opening[:-1] + b"}")
        elif is_all or name in some:
            if template.binary is not None:
                blobs.append(array.tobytes())
                pieces.append(template.binary)
                continue
            blob = to_binary(array, template.datatype)
            blobs.append(blob)
            pieces.append(_binary(template.opening, len(blob)))
        else:
            pieces.append(b'%b"data":%b}' % (template.opening, to_json(array, template.datatype)))
    head = b"%b%b%b]%b}" % (
        b'{"id":%b,' % orjson.dumps(identity) if identity else b"{",
        model,
        b",".join(pieces),
        b',"parameters":%b' % orjson.dumps(parameters) if parameters else b"",
    )
    if not any(blobs):
        return JSON_TYPE, head
    return (
        b"content-type: application/octet-stream\r\n"
        b"inference-header-content-length: %d\r\n" % len(head)
    ), b"".join((head, *blobs))


def _binary(opening: bytes, size_bytes: int) -> bytes:
    return b'%b"parameters":{"binary_data_size":%d}}' % (opening, size_bytes)


def datatype_of(name: str, array: NDArray[Any]) -> str:
    """The protocol's datatype of an output.

    Raises:
        ModelFailed: There is none for its type.
    """
    datatype = "BYTES" if array.dtype.kind in "OSU" else DATATYPES.get(array.dtype)
    if datatype is None:
        raise ModelFailed(
            f"output '{name}' is a numpy {array.dtype}, which has no datatype in the protocol"
        )
    return datatype


def _template(name: str, array: NDArray[Any]) -> _Template:
    datatype = datatype_of(name, array)
    opening = b'{"name":%b,"datatype":"%b","shape":%b,' % (
        orjson.dumps(name),
        datatype.encode(),
        orjson.dumps(array.shape),
    )
    binary = None if datatype == "BYTES" else _binary(opening, array.nbytes)
    template = _Template(datatype, opening, binary)
    if len(_templates) >= TEMPLATES_MAX:
        _templates.clear()
    _templates[name, array.dtype, array.shape] = template
    return template
