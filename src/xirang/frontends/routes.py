"""The hot URLs: which of them there are, and the route that answers each."""

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

import httptools

from xirang.frontends.exchange import Match, Route
from xirang.frontends.infer import InferRoute
from xirang.frontends.keys import Keys
from xirang.frontends.openai import EmbeddingsRoute
from xirang.frontends.service import Service, TextModel

ROUTES_KEPT_MAX = 1024
EMBEDDINGS = b"/v1/embeddings"
_INFER = re.compile(rb"/v2/models/([^/]+)(?:/versions/([0-9]+))?/infer")


def hot_routes(service: Service, texts: Mapping[str, TextModel], keys: Keys | None = None) -> Match:
    """The `match` of `serve_protocol`.

    Routes are kept by URL, as a client repeats the same few; the bound keeps a client that
    makes up names from filling memory, and all are forgotten when it is reached.
    """
    embeddings = EmbeddingsRoute(service, texts, keys)
    kept: dict[bytes, Route] = {EMBEDDINGS: embeddings}

    def match(url: bytes) -> Route | None:
        return kept.get(url) or find(url)

    def find(url: bytes) -> Route | None:
        path = _path(url)
        if path == EMBEDDINGS:
            return embeddings
        found = _INFER.fullmatch(path)
        if found is None:
            return None
        try:
            name = unquote_to_bytes(found[1]).decode()
        except UnicodeDecodeError:
            return None
        version = None if found[2] is None else found[2].decode()
        if len(kept) >= ROUTES_KEPT_MAX:
            kept.clear()
        route = kept[url] = InferRoute(service, name, version, keys)
        return route

    return match


def _path(url: bytes) -> bytes:
    if url.startswith(b"/"):
        return url.partition(b"?")[0]
    try:
        return httptools.parse_url(url).path or b""
    except httptools.HttpParserInvalidURLError:
        return b""
