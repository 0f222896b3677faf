"""Infer messages made by hand, for the tests of both directions."""

import struct

import orjson

from xirang.frontends.v2.kserve_answer import model_part

MODEL = model_part("m", "3")


def tensor(datatype="FP32", shape=(1, 2), data=(1, 2), name="x", **parameters):
    found = {"name": name, "datatype": datatype, "shape": list(shape)}
    if data is not None:
        found["data"] = list(data) if isinstance(data, tuple) else data
    if parameters:
        found["parameters"] = parameters
    return found


def body(*inputs, **members):
    return orjson.dumps({"inputs": list(inputs), **members})


def binary(inputs, *blobs, **members):
    head = orjson.dumps({"inputs": inputs, **members})
    return head + b"".join(blobs), len(head)


def strings(*elements):
    return b"".join(struct.pack("<I", len(e)) + e for e in elements)


def pack(code, *values):
    return struct.pack(f"<{len(values)}{code}", *values)
