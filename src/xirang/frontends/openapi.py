"""What the doors understand, as an OpenAPI 3.1 document made from the served models.

Each model has an infer path of its own, with the names, datatypes and sizes that it takes and an
example that it answers, so that tools which read such documents can call it without more ado.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any
from urllib.parse import quote

from xirang.frontends.service import ModelInfo, TensorSpec, TextModel

Json = dict[str, Any]

NUMBERS_MAX = 64
"""A model of larger examples is shown without one."""

_REFUSALS = {
    400: "what was wrong with the request, and what was expected",
    401: "an API key is needed, and this is none",
    403: "the API key does not allow this",
    404: "no such model or version",
    405: "another method was expected",
    408: "the rest of the request did not come in time",
    413: "the body is too large",
    429: "the queue is full; `Retry-After` says when to come back",
    431: "the head is too large",
    500: "the model failed",
    501: "a Content-Encoding that is not read here",
    503: "the server is loading or draining, or holds too many bytes of requests",
    504: "the latency budget is spent",
}
_BUDGET = {
    "name": "X-Request-Timeout-Ms",
    "in": "header",
    "description": "latency budget of this request, in milliseconds",
    "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1_000_000_000},
}


def document(models: Sequence[ModelInfo], texts: Mapping[str, TextModel], *, version: str) -> Json:
    """The OpenAPI document of a server.

    Args:
        models: All that are served.
        texts: Name to text model.
        version: The server's.
    """
    paths: Json = {**_server_paths(), **_model_paths()}
    for model in models:
        paths[f"/v2/models/{quote(model.name, safe='')}/infer"] = {"post": _infer(model)}
    if texts:
        paths["/v1/embeddings"] = {"post": _embeddings(list(texts))}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "xirang",
            "version": version,
            "description": "Open Inference Protocol v2 and OpenAI's embeddings.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR, "InferResponse": _INFER_RESPONSE}},
    }


def _server_paths() -> Json:
    return {
        "/v2": {"get": _asks("serverMetadata", "name, version and extensions")},
        "/v2/health/live": {"get": _empty("serverLive", "whether the process works")},
        "/v2/health/ready": {"get": _empty("serverReady", "whether every model serves")},
        "/v2/models/stats": {"get": _asks("statistics", "statistics of all models")},
        "/v2/xirang/costs": {"get": _asks("costs", "device time and padding by model and tenant")},
        "/v2/repository/index": {
            "post": {
                **_asks("index", "the models and their state", kind="array"),
                "requestBody": _body(
                    {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                    is_required=False,
                ),
            }
        },
        "/v1/models": {"get": _asks("textModels", "the models that make embeddings")},
        "/metrics": {"get": _text("metrics", "Prometheus text")},
    }


def _model_paths() -> Json:
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    paths: Json = {}
    for path, identity, text in (
        ("", "modelMetadata", "versions, inputs and outputs of a model"),
        ("/config", "modelConfig", "configuration of a model, and what was found out about it"),
        ("/stats", "modelStatistics", "statistics of a model"),
    ):
        paths[f"/v2/models/{{model}}{path}"] = {"parameters": [model], "get": _asks(identity, text)}
    paths["/v2/models/{model}/ready"] = {
        "parameters": [model],
        "get": _empty("modelReady", "whether a model serves"),
    }
    return paths


def _infer(model: ModelInfo) -> Json:
    tensors = [_tensor(spec) for spec in model.inputs]
    schema: Json = {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "parameters": _PARAMETERS,
            "inputs": {
                "type": "array",
                "prefixItems": tensors,
                "items": False,
                "minItems": len(tensors),
            },
            "outputs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"enum": [spec.name for spec in model.outputs]}},
                },
            },
        },
    }
    example = _example(model.inputs)
    if example is not None:
        schema["examples"] = [{"inputs": example}]
    return {
        "operationId": f"infer {model.name}",
        "summary": f"run {model.name} ({model.platform})",
        "parameters": [_BUDGET],
        "requestBody": _body(schema),
        "responses": _responses({"$ref": "#/components/schemas/InferResponse"}),
    }


def _tensor(spec: TensorSpec) -> Json:
    sizes = [{"type": "integer", "minimum": 1} if n < 0 else {"const": n} for n in spec.shape]
    count = prod(spec.shape) if all(n >= 0 for n in spec.shape) else None
    data: Json = {"type": "array", "items": _ELEMENTS.get(spec.datatype, {"type": "number"})}
    if count is not None:
        data |= {"minItems": count, "maxItems": count}
    return {
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "properties": {
            "name": {"const": spec.name},
            "datatype": {"const": spec.datatype},
            "shape": {
                "type": "array",
                "prefixItems": sizes,
                "items": False,
                "minItems": len(sizes),
            },
            "data": data,
        },
    }


def _example(specs: Sequence[TensorSpec]) -> list[Json] | None:
    """One row of ones, four where a size may vary: what most models take."""
    tensors = []
    for spec in specs:
        shape = [1 if axis == 0 else 4 for axis in range(len(spec.shape))]
        shape = [known if size < 0 else size for size, known in zip(spec.shape, shape, strict=True)]
        if prod(shape) > NUMBERS_MAX or spec.datatype == "FP16":
            return None
        element: Any = {"BYTES": "text", "BOOL": True}.get(spec.datatype, 1)
        tensors.append(
            {
                "name": spec.name,
                "shape": shape,
                "datatype": spec.datatype,
                "data": [element] * prod(shape),
            }
        )
    return tensors


def _embeddings(names: Sequence[str]) -> Json:
    schema = {
        "type": "object",
        "required": ["model", "input"],
        "properties": {
            "model": {"enum": list(names)},
            "input": {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                ]
            },
            "encoding_format": {"enum": ["float", "base64"]},
        },
        "examples": [{"model": names[0], "input": "a river in spring"}],
    }
    return {
        "operationId": "embeddings",
        "summary": "vectors of texts, in OpenAI's form",
        "parameters": [_BUDGET],
        "requestBody": _body(schema),
        "responses": _responses({"type": "object", "required": ["data", "model", "usage"]}),
    }


def _asks(identity: str, text: str, *, kind: str = "object") -> Json:
    return {"operationId": identity, "summary": text, "responses": _responses({"type": kind})}


def _empty(identity: str, text: str) -> Json:
    responses = {"200": {"description": "yes"}, "400": {"description": "no"}}
    return {"operationId": identity, "summary": text, "responses": responses}


def _text(identity: str, text: str) -> Json:
    content = {"text/plain": {"schema": {"type": "string"}}}
    response = {"description": text, "content": content}
    return {"operationId": identity, "summary": text, "responses": {"200": response}}


def _body(schema: Json, *, is_required: bool = True) -> Json:
    return {"required": is_required, "content": {"application/json": {"schema": schema}}}


def _responses(schema: Json) -> Json:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    refusals = {
        str(status): {"description": text, "content": error} for status, text in _REFUSALS.items()
    }
    answer = {"description": "the answer", "content": {"application/json": {"schema": schema}}}
    return {"200": answer, **refusals}


_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "description": "a sentence; on /v1 OpenAI's object with the sentence in `message`",
            "type": ["string", "object"],
        }
    },
}
_INFER_RESPONSE: Json = {
    "type": "object",
    "required": ["model_name", "model_version", "outputs"],
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "datatype", "shape"],
                "properties": {
                    "name": {"type": "string"},
                    "datatype": {"type": "string"},
                    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                    "data": {"type": "array"},
                },
            },
        },
    },
}
_PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "timeout": {"type": "integer", "minimum": 0, "description": "latency budget, µs"},
        "priority": {"type": "integer", "minimum": 0, "description": "1 is the highest"},
    },
    "additionalProperties": {"type": ["string", "number", "boolean"]},
    "propertyNames": {"not": {"pattern": "^triton_"}},
}
_ELEMENTS: Mapping[str, Json] = {
    "BOOL": {"type": "boolean"},
    "BYTES": {"type": "string"},
    **{
        f"{sign}INT{bits}": {
            "type": "integer",
            "minimum": 0 if sign else -(2 ** (bits - 1)),
            "maximum": 2 ** (bits if sign else bits - 1) - 1,
        }
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    },
}
