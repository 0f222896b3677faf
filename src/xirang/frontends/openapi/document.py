"""What the doors understand, as an OpenAPI 3.1 document made from the served models.

Each model has an infer path of its own, with the names, datatypes and sizes that it takes and an
example that it answers, so that tools which read such documents can call it without more ado.
"""

from collections.abc import Mapping, Sequence
from math import prod
from urllib.parse import quote

from xirang.frontends.openapi.beside import TEI_ERROR, beside_paths
from xirang.frontends.openapi.operating import operating_paths
from xirang.frontends.openapi.parts import (
    BUDGET,
    ELEMENTS,
    ERROR,
    Json,
    asked,
    body_of,
    example_of,
    plain_text,
    responses_of,
)
from xirang.frontends.service import ModelInfo, TensorSpec, TextModel


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
    paths |= operating_paths() | beside_paths(models, texts)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "xirang",
            "version": version,
            "description": "Open Inference Protocol v2, and the forms of OpenAI, TEI and KServe.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR, "TeiError": TEI_ERROR, "InferResponse": _INFER_RESPONSE}
        },
    }


def _server_paths() -> Json:
    return {
        "/v2": {"get": asked("serverMetadata", "name, version and extensions")},
        "/v2/health/live": {"get": asked("serverLive", "whether the process works")},
        "/v2/health/ready": {"get": asked("serverReady", "whether every model serves")},
        "/v2/models/stats": {"get": asked("statistics", "statistics of all models")},
        "/v2/xirang/costs": {"get": asked("costs", "device time and padding by model and tenant")},
        "/v2/xirang/memory": {"get": asked("memory", "the memory pool by model")},
        "/v2/repository/index": {
            "post": {
                **asked("index", "the models and their state", kind="array"),
                "requestBody": body_of(
                    {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                    is_required=False,
                ),
            }
        },
        "/v1/models": {"get": asked("textModels", "the models that make embeddings")},
        "/metrics": {"get": plain_text("metrics", "Prometheus text")},
    }


def _model_paths() -> Json:
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    paths: Json = {}
    for path, identity, text in (
        ("", "modelMetadata", "versions, inputs and outputs of a model"),
        ("/config", "modelConfig", "configuration of a model, and what was found out about it"),
        ("/stats", "modelStatistics", "statistics of a model"),
    ):
        paths[f"/v2/models/{{model}}{path}"] = {"parameters": [model], "get": asked(identity, text)}
    paths["/v2/models/{model}/ready"] = {
        "parameters": [model],
        "get": asked("modelReady", "whether a model serves"),
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
    example = example_of(model.inputs)
    if example is not None:
        schema["examples"] = [{"inputs": example}]
    return {
        "operationId": f"infer {model.name}",
        "summary": f"run {model.name} ({model.platform})",
        "parameters": [BUDGET],
        "requestBody": body_of(schema),
        "responses": responses_of({"$ref": "#/components/schemas/InferResponse"}),
    }


def _tensor(spec: TensorSpec) -> Json:
    sizes = [{"type": "integer", "minimum": 1} if n < 0 else {"const": n} for n in spec.shape]
    count = prod(spec.shape) if all(n >= 0 for n in spec.shape) else None
    data: Json = {"type": "array", "items": ELEMENTS.get(spec.datatype, {"type": "number"})}
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
