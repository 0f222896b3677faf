"""The hot URLs: which of them there are, and the route that answers each."""

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

import httptools

from xirang.frontends.beside import routes_beside
from xirang.frontends.exchange import Match, Route
from xirang.frontends.extensions import Extensions
from xirang.frontends.keys import Keys
from xirang.frontends.restricted import guarded
from xirang.frontends.service import Service, TextModel
from xirang.frontends.texts.desk import TextDesk
from xirang.frontends.v2.generate import GenerateRoute
from xirang.frontends.v2.infer import InferRoute

ROUTES_KEPT_MAX = 1024
_INFER = re.compile(rb"/v2/models/([^/]+)(?:/versions/([0-9]+))?/(infer|generate(_stream)?)")


def hot_routes(
    service: Service,
    texts: Mapping[str, TextModel],
    keys: Keys | None = None,
    extensions: Extensions | None = None,
) -> Match:
    """The `match` of `serve_protocol`.

    Routes are kept by URL, as a client repeats the same few; the bound keeps a client that
    makes up names from filling memory, and all are forgotten when it is reached.
    """
    extensions = extensions or Extensions()
    beside = routes_beside(TextDesk(service, texts, keys), service, keys)
    kept: dict[bytes, Route] = {}

    def match(url: bytes) -> Route | None:
        return kept.get(url) or find(url)

    def find(url: bytes) -> Route | None:
        try:
            route = make(_path(url))
        except UnicodeDecodeError:
            return None
        if route is not None:
            if len(kept) >= ROUTES_KEPT_MAX:
                kept.clear()
            kept[url] = route
        return route

    def make(path: bytes) -> Route | None:
        found = _INFER.fullmatch(path)
        if found is None:
            return beside(path)
        name = unquote_to_bytes(found[1]).decode()
        version = None if found[2] is None else found[2].decode()
        if found[3] == b"infer":
            return InferRoute(service, name, version, keys, extensions)
        is_stream = found[4] is not None
        return GenerateRoute(service, name, version, keys, extensions, is_stream=is_stream)

    return guarded(match, extensions.http_checks.get("inference"))


def _path(url: bytes) -> bytes:
    if url.startswith(b"/"):
        return url.partition(b"?")[0]
    try:
        return httptools.parse_url(url).path or b""
    except httptools.HttpParserInvalidURLError:
        return b""
