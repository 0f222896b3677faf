"""What is sent: request bodies made before the run, so that making them costs it nothing."""

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from xirang.errors import InvalidSetting
from xirang.tensors.tensor import NUMPY_TYPES

JSON_HEADERS = (("Content-Type", "application/json"),)
FIRST_TOKEN, LAST_TOKEN = 101, 102
"""[CLS] and [SEP] of BERT vocabularies; the ids between are ordinary word pieces."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """Bodies for one route.

    Attributes:
        path: The route, below the server's prefix.
        bodies: Sent in turn, from the start again when all were sent.
        headers: Header fields that they need.
    """

    path: str
    bodies: tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = JSON_HEADERS


@dataclass(frozen=True, slots=True)
class Lengths:
    """A lognormal distribution of token counts, clipped to an interval.

    Attributes:
        median: Of the distribution before clipping.
        sigma: Standard deviation of the logarithm.
        length_min: Shortest, first and last token included.
        length_max: Longest.
    """

    median: float
    sigma: float
    length_min: int
    length_max: int

    @classmethod
    def parse(cls, text: str) -> "Lengths":
        """Read `lognormal:MEDIAN:SIGMA:MIN:MAX`."""
        try:
            kind, median, sigma, length_min, length_max = text.split(":")
            lengths = cls(float(median), float(sigma), int(length_min), int(length_max))
        except ValueError:
            raise _bad_lengths(text) from None
        if kind != "lognormal" or not 0 < lengths.median < 1e6 or not 0 <= lengths.sigma <= 10:
            raise _bad_lengths(text)
        if not 3 <= lengths.length_min <= lengths.length_max <= 1_000_000:
            raise _bad_lengths(text)
        return lengths

    def token_lists(self, count: int, *, seed: int) -> list[list[int]]:
        """Seeded token ids: the same list for the same seed, for the server and for a reference."""
        random = np.random.default_rng(seed)
        drawn = random.lognormal(np.log(self.median), self.sigma, count)
        lengths = np.clip(np.round(drawn), self.length_min, self.length_max).astype(int)
        return [
            [FIRST_TOKEN, *random.integers(1_000, 30_000, length - 2).tolist(), LAST_TOKEN]
            for length in lengths
        ]


def _bad_lengths(text: str) -> InvalidSetting:
    return InvalidSetting(
        f"lengths {text!r}; expected lognormal:MEDIAN:SIGMA:MIN:MAX with MIN at least 3, "
        "such as lognormal:30:0.92:3:512"
    )


@dataclass(frozen=True, slots=True)
class TensorShape:
    """One input tensor to be filled with random numbers."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "TensorShape":
        """Read `NAME:DATATYPE:SHAPE`, the shape as 1x64 or 1,64."""
        try:
            name, datatype, shape_text = text.rsplit(":", 2)
            shape = tuple(int(size) for size in shape_text.replace("x", ",").split(","))
        except ValueError:
            raise InvalidSetting(
                f"tensor {text!r}; expected NAME:DATATYPE:SHAPE, such as input:FP32:1x64"
            ) from None
        if datatype not in NUMPY_TYPES or datatype == "BYTES":
            known = [name for name in NUMPY_TYPES if name != "BYTES"]
            raise InvalidSetting(f"tensor {text!r}: expected a datatype among {', '.join(known)}")
        if not name or min(shape) < 1 or np.prod(shape, dtype=float) > 1e8:
            raise InvalidSetting(f"tensor {text!r}: expected a name and sizes of at least 1")
        return cls(name, datatype, shape)

    def draw(self, random: np.random.Generator) -> NDArray[Any]:
        """Standard normal numbers, bits, or integers below 100."""
        dtype = NUMPY_TYPES[self.datatype]
        if dtype.kind == "f":
            return random.standard_normal(self.shape).astype(dtype)
        return random.integers(0, 2 if dtype.kind == "b" else 100, self.shape).astype(dtype)

    def spec(self) -> dict[str, Any]:
        """The tensor's entry in the request, without its data."""
        return {"name": self.name, "shape": list(self.shape), "datatype": self.datatype}


def of_texts(model: str, texts: Iterable[str]) -> Payloads:
    """One embeddings request a text."""
    return _of_inputs({"model": model}, texts)


def of_tokens(model: str, token_lists: Iterable[Sequence[int]]) -> Payloads:
    """One embeddings request a list of token ids, answered in base64."""
    return _of_inputs({"model": model, "encoding_format": "base64"}, token_lists)


def _of_inputs(fields: dict[str, str], inputs: Iterable[Any]) -> Payloads:
    bodies = tuple(orjson.dumps(fields | {"input": each}) for each in inputs)
    return Payloads("/v1/embeddings", bodies)


def of_tensors(model: str, shapes: Sequence[TensorShape], count: int, *, seed: int) -> Payloads:
    """Inference requests with random tensors, in JSON both ways."""
    if any(shape.datatype == "FP16" for shape in shapes):
        raise InvalidSetting("FP16 has no JSON form in the Open Inference Protocol; use --binary")
    random = np.random.default_rng(seed)
    bodies = tuple(
        orjson.dumps({"inputs": [s.spec() | {"data": _flat(s, random)} for s in shapes]})
        for _ in range(count)
    )
    return Payloads(f"/v2/models/{model}/infer", bodies)


def _flat(shape: TensorShape, random: np.random.Generator) -> list[Any]:
    values: list[Any] = shape.draw(random).ravel().tolist()
    return values


def of_binary_tensors(
    model: str, shapes: Sequence[TensorShape], count: int, *, seed: int
) -> Payloads:
    """Inference requests with random tensors, in the binary tensor extension both ways."""
    random = np.random.default_rng(seed)
    inputs = []
    for shape in shapes:
        size_bytes = int(np.prod(shape.shape)) * NUMPY_TYPES[shape.datatype].itemsize
        inputs.append(shape.spec() | {"parameters": {"binary_data_size": size_bytes}})
    head = orjson.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}})
    bodies = tuple(
        head + b"".join(shape.draw(random).tobytes() for shape in shapes) for _ in range(count)
    )
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Inference-Header-Content-Length", str(len(head))),
    )
    return Payloads(f"/v2/models/{model}/infer", bodies, headers)


def of_body_file(path: Path) -> Payloads:
    """One raw JSON body, to be posted to the very path of the URL."""
    body = _read(path)
    try:
        json.loads(body)
    except ValueError as error:
        raise InvalidSetting(f"{path} is not JSON: {error}") from None
    return Payloads("/", (body,))


def read_texts(path: Path) -> list[str]:
    """The lines of a text file, or the key "text" of JSON lines; both also gzipped."""
    try:
        lines = [line for line in _read(path).decode().splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"{path} is not UTF-8: {error}") from None
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        lines = [_text_of(path, number, line) for number, line in enumerate(lines, 1)]
    if not lines:
        raise InvalidSetting(f"{path} holds no text")
    return lines


def _text_of(path: Path, number: int, line: str) -> str:
    try:
        text = orjson.loads(line)["text"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise InvalidSetting(f'{path}, entry {number}: expected an object with a string "text"')
    return text


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError) as error:
        raise InvalidSetting(f"{path}: {error}") from None
