"""The OpenAPI document's pages for operators: loading, shared memory, tracing and logging."""

from xirang.frontends.openapi.parts import Json, asked, body_of, responses_of
from xirang.observe.dials import LEVELS, LOG_FORMATS

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": ["string", "null"], "pattern": "^-?[0-9]+$"}
_FLAG: Json = {"type": "boolean"}


def operating_paths() -> Json:
    """The paths of all of them."""
    tracing = {
        "get": asked("traceSetting", "how requests are traced"),
        "post": _wish("setTrace", "change how requests are traced", _TRACING, answer=_OBJECT),
    }
    logged = {
        "get": asked("logSettings", "what is logged"),
        "post": _wish("setLog", "change what is logged", _LOGGING, answer=_OBJECT),
    }
    return {
        "/v2/trace/setting": tracing,
        "/v2/models/{model}/trace/setting": {
            "parameters": [_named("model")],
            "get": asked("modelTraceSetting", "how requests for a model are traced"),
            "post": _wish("setModelTrace", "change that", _TRACING, answer=_OBJECT),
        },
        "/v2/logging": logged,
        **_loading(),
        **_regions("system", "systemsharedmemory"),
        **_regions("cuda", "cudasharedmemory"),
    }


def _loading() -> Json:
    model = {"parameters": [_named("model")]}
    path = "/v2/repository/models/{model}"
    config = {"type": "object", "properties": {"parameters": {"type": "object"}}}
    load = _wish("load", "load a model, or what has changed of it; returns when it serves", config)
    unload = _wish("unload", "serve a model no more; who is in is still answered", config)
    return {f"{path}/load": {**model, "post": load}, f"{path}/unload": {**model, "post": unload}}


def _regions(kind: str, folder: str) -> Json:
    one = {"parameters": [_named("region")]}
    words = f"regions of {kind} shared memory"
    all_of_them, region = f"/v2/{folder}", f"/v2/{folder}/region/{{region}}"
    return {
        f"{all_of_them}/status": {"get": asked(f"{kind}Regions", words, kind="array")},
        f"{all_of_them}/unregister": {"post": _wish(f"{kind}Forget", f"forget all {words}")},
        f"{region}/status": {
            **one,
            "get": asked(f"{kind}Region", f"one of the {words}", kind="array"),
        },
        f"{region}/register": {
            **one,
            "post": _wish(f"{kind}Register", f"add to the {words}", _REGION),
        },
        f"{region}/unregister": {
            **one,
            "post": _wish(f"{kind}ForgetOne", f"forget one of the {words}"),
        },
    }


def _wish(
    identity: str, words: str, schema: Json | None = None, *, answer: Json | None = None
) -> Json:
    """A POST that is answered with what is now, or with nothing."""
    found: Json = {"operationId": identity, "summary": words}
    if schema is not None:
        found["requestBody"] = body_of(schema, is_required=False)
    responses = responses_of(answer or {})
    if answer is None:
        responses["200"] = {"description": "done"}
    return {**found, "responses": responses}


def _named(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


_OBJECT: Json = {"type": "object"}
_REGION: Json = {
    "type": "object",
    "required": ["key", "byte_size"],
    "properties": {
        "key": _TEXT,
        "offset": {"type": "integer", "minimum": 0},
        "byte_size": {"type": "integer", "minimum": 1},
    },
}
_TRACING: Json = {
    "type": "object",
    "properties": {
        "trace_level": {"type": ["array", "null"], "items": {"enum": list(LEVELS)}},
        "trace_rate": _NUMBER,
        "trace_count": _NUMBER,
        "log_frequency": _NUMBER,
    },
}
_LOGGING: Json = {
    "type": "object",
    "properties": {
        "log_info": _FLAG,
        "log_warning": _FLAG,
        "log_error": _FLAG,
        "log_verbose_level": {"type": "integer", "minimum": 0},
        "log_format": {"enum": list(LOG_FORMATS)},
    },
}
