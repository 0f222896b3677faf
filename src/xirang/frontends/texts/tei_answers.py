"""What the routes of Text Embeddings Inference answer: outputs as documents, and headers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

from xirang.errors import ModelFailed
from xirang.frontends.errors import JSON_TYPE
from xirang.frontends.texts.gathering import Gathering
from xirang.frontends.texts.openai import shortened
from xirang.frontends.texts.tei_requests import EmbedBody, RerankBody
from xirang.tensors.tensor import Array
from xirang.text.pooling import normalise


def answer(
    encode: Callable[[Gathering], Any], now_ns: Callable[[], int], gathering: Gathering
) -> tuple[bytes, bytes]:
    """Header lines and body of a response."""
    body = orjson.dumps(encode(gathering), option=orjson.OPT_SERIALIZE_NUMPY)
    return JSON_TYPE + headers(gathering, now_ns()), body


def headers(gathering: Gathering, now_ns: int) -> bytes:
    """How long it took and how much it was; times in whole milliseconds, for a text on average."""
    begun_ns, count = gathering.terms.arrival_ns, len(gathering.rows)
    total_ms = _ms(now_ns - begun_ns)
    characters = sum(_characters(item) for item in gathering.request.items)
    lines = {
        "x-compute-type": "cpu",
        "x-compute-time": total_ms,
        "x-compute-characters": characters,
        "x-compute-tokens": gathering.tokens,
        "x-total-time": total_ms,
        "x-tokenization-time": _ms(gathering.read_ns - begun_ns) // count,
        "x-queue-time": _ms(gathering.queue_ns) // count,
        "x-inference-time": _ms(gathering.run_ns) // count,
    }
    return "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode()


def _characters(item: Any) -> int:
    if isinstance(item, str):
        return len(item)
    return sum(map(len, item)) if isinstance(item, tuple) else 0


def _ms(span_ns: int) -> int:
    return max(0, span_ns) // 1_000_000


def vectors(body: EmbedBody, gathering: Gathering) -> list[Array]:
    """One vector a text."""
    text, found = gathering.text, []
    for row in gathering.rows:
        if gathering.output == text.output:
            vector = np.ascontiguousarray(row.reshape(-1), np.float32)
        else:
            vector = text.pooled(row, is_normalised=False)
        if body.dimensions is not None:
            vector = np.ascontiguousarray(vector[: body.dimensions])
        found.append(_scaled(vector, gathering, body) if body.normalize else vector)
    return found


def _scaled(vector: Array, gathering: Gathering, body: EmbedBody) -> Array:
    is_scaled = gathering.text.folder.is_normalised and body.dimensions is None
    return vector if is_scaled else normalise(vector.copy())


def states(gathering: Gathering) -> list[Array]:
    """One vector a token, of each text."""
    return [np.ascontiguousarray(row[0], np.float32) for row in gathering.rows]


def weights(gathering: Gathering) -> list[list[dict[str, Any]]]:
    """Of each text the words with a weight."""
    found = []
    for row in gathering.rows:
        values = row.reshape(-1)
        places = np.flatnonzero(values)
        pairs = zip(places.tolist(), values[places], strict=True)
        found.append([{"index": place, "value": value} for place, value in pairs])
    return found


def predictions(gathering: Gathering, *, is_raw: bool, is_batch: bool) -> list[Any]:
    """Of each text its classes, the likeliest first."""
    text, found = gathering.text, []
    for row in gathering.rows:
        scores = _scores(row, gathering, is_raw=is_raw)
        named = zip(scores, text.labels, strict=True)
        ordered = sorted(named, key=lambda pair: pair[0], reverse=True)
        found.append([{"score": score, "label": label} for score, label in ordered])
    return found if is_batch else found[0]


def ranks(body: RerankBody, gathering: Gathering) -> list[dict[str, Any]]:
    """The texts, the best first."""
    found: list[dict[str, Any]] = []
    for index, row in enumerate(gathering.rows):
        rank: dict[str, Any] = {"index": index}
        if body.return_text:
            rank["text"] = body.texts[index]
        score = _scores(row, gathering, is_raw=body.raw_scores)[0]
        found.append(rank | {"score": score})
    return sorted(found, key=lambda rank: rank["score"], reverse=True)


def similarities(gathering: Gathering) -> Array:
    """The cosine between the first text and each of the others."""
    scaled = normalise(np.stack([shortened(row, None) for row in gathering.rows]))
    cosines: Array = scaled[1:] @ scaled[0]
    return cosines


def _scores(row: Array, gathering: Gathering, *, is_raw: bool) -> Array:
    """A row of logits, as probabilities unless they are wanted raw."""
    logits = row.reshape(-1).astype(np.float64)
    if np.isnan(logits).any():
        raise ModelFailed("score is NaN")
    if is_raw:
        return logits.astype(np.float32)
    if len(logits) == 1 or gathering.text.folder.has_many_labels:
        scores = 0.5 + 0.5 * np.tanh(logits / 2)  # the logistic function, without overflow
    else:
        powers = np.exp(logits - logits.max())
        scores = powers / powers.sum()
    return scores.astype(np.float32)
