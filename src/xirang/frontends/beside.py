"""The hot URLs outside of /v2: texts in OpenAI's and TEI's forms, and KServe's predict."""

import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from xirang.frontends.exchange import Route
from xirang.frontends.keys import Keys
from xirang.frontends.service import Service
from xirang.frontends.texts.desk import TextDesk
from xirang.frontends.texts.openai import EmbeddingsRoute
from xirang.frontends.texts.tei import ACTS, TeiRoute
from xirang.frontends.v1.predict import PredictRoute

EMBEDDINGS = b"/v1/embeddings"
_PREDICT = re.compile(rb"/v1/models/([^/]+):predict")
_TEI = re.compile(rb"/tei/([^/]+)(?:/([a-z_]+))?/?")


def routes_beside(
    desk: TextDesk, service: Service, keys: Keys | None
) -> Callable[[bytes], Route | None]:
    """From a path to the route that answers a POST on it."""
    alone: dict[bytes, Route] = {
        b"/%b" % name.encode(): TeiRoute(desk, act) for name, act in ACTS.items()
    }
    alone[EMBEDDINGS] = EmbeddingsRoute(desk)

    def find(path: bytes) -> Route | None:
        if (route := alone.get(path)) is not None:
            return route
        if (found := _PREDICT.fullmatch(path)) is not None:
            return PredictRoute(service, _name(found[1]), keys)
        if (found := _TEI.fullmatch(path)) is not None:
            act = ACTS.get((found[2] or b"").decode())
            return None if act is None else TeiRoute(desk, act, _name(found[1]))
        return None

    return find


def _name(quoted: bytes) -> str:
    return unquote_to_bytes(quoted).decode()
