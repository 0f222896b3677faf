"""Which operators of an ONNX graph are known to mix rows or positions.

They are hints beside the verdict, which comes from running. The file is walked as protocol buffers,
of which a few fields of onnx.proto3 are needed; weights are skipped unread.
"""

import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

MIXES_ROWS = {
    "DynamicQuantizeLinear": "one scale for the whole run",
    "DynamicQuantizeMatMul": "one scale for the whole run",
    "DynamicQuantizeLSTM": "one scale for the whole run",
    "MatMulInteger": "follows a scale for the whole run",
    "ConvInteger": "follows a scale for the whole run",
}
MIXES_POSITIONS = {
    "LSTM": "runs through padding without sequence_lens",
    "GRU": "runs through padding without sequence_lens",
    "RNN": "runs through padding without sequence_lens",
}
SEQUENCE_LENS = 4
"""Place of that input among a recurrent operator's."""

_GRAPH, _NODE, _INPUT, _OPERATOR, _ATTRIBUTE = 7, 1, 1, 4, 5
_NAME, _NUMBER, _SUBGRAPH, _SUBGRAPHS = 1, 3, 6, 11
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5

_View = memoryview | mmap.mmap


def suspects(file: Path) -> tuple[str, ...]:
    """Each suspicious operator with its count and why, as `LSTM x 2: runs through …`."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            found = Counter(
                each
                for number, begin, end in _fields(data, 0, len(data))
                if number == _GRAPH
                for each in _suspicious(data, begin, end)
            )
        except (IndexError, ValueError):  # no ONNX file after all: no hint
            return ()
    return tuple(f"{name} x {count}: {why}" for (name, why), count in sorted(found.items()))


def _suspicious(data: _View, begin: int, end: int) -> Iterator[tuple[str, str]]:
    """Of one graph and the graphs within it."""
    for number, node_begin, node_end in _fields(data, begin, end):
        if number == _NODE:
            yield from _of_node(data, node_begin, node_end)


def _of_node(data: _View, begin: int, end: int) -> Iterator[tuple[str, str]]:
    operator, inputs, is_training = "", [], False
    for number, at, till in _fields(data, begin, end):
        if number == _OPERATOR:
            operator = _text(data, at, till)
        elif number == _INPUT:
            inputs.append(_text(data, at, till))
        elif number == _ATTRIBUTE:
            parts = list(_fields(data, at, till))
            is_training = is_training or _is_training(data, parts)
            for inner, graph, graph_end in parts:
                if inner in (_SUBGRAPH, _SUBGRAPHS):
                    yield from _suspicious(data, graph, graph_end)
    if operator in MIXES_ROWS:
        yield operator, MIXES_ROWS[operator]
    elif operator in MIXES_POSITIONS and not any(inputs[SEQUENCE_LENS : SEQUENCE_LENS + 1]):
        yield operator, MIXES_POSITIONS[operator]
    elif operator == "BatchNormalization" and is_training:
        yield operator, "in training mode takes its mean over the run"


def _is_training(data: _View, attribute: Sequence[tuple[int, int, int]]) -> bool:
    """Whether this is training_mode=1."""
    names = [_text(data, at, till) for number, at, till in attribute if number == _NAME]
    return names == ["training_mode"] and any(n == _NUMBER and value for n, value, _ in attribute)


def _fields(data: _View, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number and bounds of each field; for a number its value and 0."""
    at = begin
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value, 0
        elif kind == _BYTES:
            size, at = _varint(data, at)
            yield key >> 3, at, at + size
            at += size
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"no such kind of field: {kind}")


def _varint(data: _View, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _text(data: _View, begin: int, end: int) -> str:
    return bytes(data[begin:end]).decode(errors="replace")
