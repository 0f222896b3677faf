"""Callables that the servers of the gRPC tests serve: each datatype as it came, one that fails."""


def identity(datatype):
    """A model that gives back what it takes."""

    def give_back(rows):
        return rows

    give_back.inputs = {"INPUT0": (datatype, [-1])}
    give_back.outputs = {"OUTPUT0": (datatype, [-1])}
    return give_back


ident_bool = identity("BOOL")
ident_uint8 = identity("UINT8")
ident_uint16 = identity("UINT16")
ident_uint32 = identity("UINT32")
ident_uint64 = identity("UINT64")
ident_int8 = identity("INT8")
ident_int16 = identity("INT16")
ident_int32 = identity("INT32")
ident_int64 = identity("INT64")
ident_fp16 = identity("FP16")
ident_fp32 = identity("FP32")
ident_fp64 = identity("FP64")
ident_bytes = identity("BYTES")


def fails(rows):
    raise RuntimeError("model said no")


fails.inputs = ident_fp32.inputs
fails.outputs = ident_fp32.outputs
