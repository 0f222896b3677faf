"""Why a request was answered when it was, for those who ask: by header, and in v2 by parameter.

    X-Xirang-Explain: {"model":"m","request":7,"run":3,"trigger":"window","window_ms":2.1,…}

Nothing is computed for requests that do not ask.
"""

import json

from xirang.engine.call import Answer
from xirang.frontends.exchange import Exchange
from xirang.observe.explain import explain_id

HEADER = b"x-xirang-explain"
PARAMETER = "xirang_explain"


def is_asked(exchange: Exchange) -> bool:
    """Whether a request wants the header."""
    return exchange.headers.get(HEADER, b"0") not in (b"0", b"false")


def line(answer: Answer) -> bytes:
    """The header line; empty where nothing is known of the run."""
    told = text(answer)
    return b"%b: %b\r\n" % (HEADER, told) if told else b""


def parameters(answer: Answer) -> dict[str, str]:
    """Response parameters: JSON in a string, as the protocol has no objects there."""
    told = text(answer)
    return {PARAMETER: told.decode()} if told else {}


def text(answer: Answer) -> bytes:
    """The explanation as JSON of ASCII, some hundred bytes; empty if there is none."""
    event = answer.ran.event
    found = None if event is None else explain_id(event, answer.request_id)
    if found is None:
        return b""
    return json.dumps(found.as_json(), separators=(",", ":")).encode()
