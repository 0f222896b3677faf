"""The OpenAPI document's pages for texts, generate and KServe's first protocol."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from xirang.frontends.openapi.parts import ELEMENTS, Json, asked, example_of, posted
from xirang.frontends.service import ModelInfo, TextModel
from xirang.frontends.texts.desk import ITEMS_MAX
from xirang.text.task import Task

TEXT: Json = {"type": "string", "minLength": 1}
TEXTS: Json = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": ITEMS_MAX}
TEXT_OR_TEXTS: Json = {"anyOf": [TEXT, TEXTS]}
ROWS: Json = {"type": "array"}
FLAG: Json = {"type": "boolean"}

_OF_ANY = ("tokenize", "decode")
"""What every text model does: where there are several, one must be named."""

TEI_REFUSALS = {
    413: "the body or the batch is too large, or a text is too long and may not be cut",
    422: "what was wrong with the request, and what was expected",
    424: "the model failed, or is for something else",
}
TEI_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}},
}


def beside_paths(models: Sequence[ModelInfo], texts: Mapping[str, TextModel]) -> Json:
    """The paths beside infer.

    Args:
        models: All that are served.
        texts: Name to text model.
    """
    paths: Json = {"/health": {"get": _HEALTH}}
    embedders = [name for name, text in texts.items() if text.task is Task.EMBED]
    if embedders:
        paths["/v1/embeddings"] = {"post": _embeddings(embedders)}
    for name, text in texts.items():
        prefix = f"/tei/{quote(name, safe='')}"
        paths[f"{prefix}/info"] = {"get": asked(f"info {name}", f"what {name} is")}
        is_alone = [each.task for each in texts.values()].count(text.task) == 1
        for act, page in _acts(name, text).items():
            paths[f"{prefix}/{act}"] = {"post": page}
            if (is_alone and act not in _OF_ANY) or len(texts) == 1:
                paths[f"/{act}"] = {"post": page | {"operationId": act}}
    for model in models:
        own = quote(model.name, safe="")
        paths[f"/v2/models/{own}/generate"] = {"post": _generate(model)}
        if model.config.get("max_batch_size"):
            paths[f"/v1/models/{own}:predict"] = {"post": _predict(model)}
    return paths


def _embeddings(names: Sequence[str]) -> Json:
    schema = {
        "type": "object",
        "required": ["model", "input"],
        "properties": {
            "model": {"enum": list(names)},
            "input": TEXT_OR_TEXTS,
            "encoding_format": {"enum": ["float", "base64"]},
            "user": {"type": "string"},
            "truncate": FLAG,
        },
        "examples": [{"model": names[0], "input": "a river in spring"}],
    }
    answer = {"type": "object", "required": ["data", "model", "usage"]}
    return posted("embeddings", "vectors of texts, in OpenAI's form", schema, answer)


def _acts(name: str, text: TextModel) -> dict[str, Json]:
    """What a text model does, by the last part of the URL."""
    own: dict[str, tuple[str, Json, Json]] = {}
    match text.task:
        case Task.EMBED:
            own["embed"] = ("vectors", _inputs(text, normalize=FLAG), ROWS)
            if text.hidden:
                own["embed_all"] = ("a vector for each token", _inputs(text), ROWS)
            own["similarity"] = ("how near texts are", _SIMILARITY, ROWS)
        case Task.SPARSE:
            own["embed_sparse"] = ("words with a weight", _inputs(text), ROWS)
        case Task.CLASSIFY:
            own["predict"] = ("classes", _inputs(text, TEXT, raw_scores=FLAG), ROWS)
        case Task.RERANK:
            own["rerank"] = ("texts by how well they answer", _RERANK, ROWS)
    own["tokenize"] = ("tokens of texts", _object("inputs", inputs=TEXT_OR_TEXTS), ROWS)
    own["decode"] = ("texts of tokens", _object("ids", ids=_ids(text)), ROWS)
    return {
        act: posted(f"{act} {name}", words, schema, answer, error="TeiError", refusals=TEI_REFUSALS)
        for act, (words, schema, answer) in own.items()
    }


def _inputs(text: TextModel, inputs: Json = TEXT_OR_TEXTS, **more: Json) -> Json:
    prompts = list(text.folder.prompts)
    if prompts:
        more["prompt_name"] = {"enum": prompts}
    schema = _object("inputs", inputs=inputs, truncate=FLAG, truncation_direction=_WAYS, **more)
    return schema | {"examples": [{"inputs": "a river in spring"}]}


def _ids(text: TextModel) -> Json:
    number = {"type": "integer", "minimum": 0, "exclusiveMaximum": text.vocabulary_size}
    return {"type": "array", "items": number, "minItems": 1, "maxItems": ITEMS_MAX}


def _object(*required: str, **properties: Json) -> Json:
    return {"type": "object", "required": list(required), "properties": properties}


_HEALTH: Json = {
    "operationId": "health",
    "summary": "whether every model serves",
    "responses": {
        "200": {"description": "yes"},
        "503": {
            "description": "no",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TeiError"}}},
        },
    },
}
_WAYS: Json = {"enum": ["Left", "Right"]}
_SIMILARITY = _object(
    "inputs",
    inputs=_object("source_sentence", "sentences", source_sentence=TEXT, sentences=TEXTS),
)
_RERANK = _object(
    "query", "texts", query=TEXT, texts=TEXTS, raw_scores=FLAG, return_text=FLAG, truncate=FLAG
) | {"examples": [{"query": "a river", "texts": ["in spring", "a stream"]}]}


def _generate(model: ModelInfo) -> Json:
    properties = {}
    for spec in model.inputs:
        element = ELEMENTS.get(spec.datatype, {"type": "number"})
        properties[spec.name] = {"anyOf": [element, {"type": "array", "items": element}]}
    schema: Json = {
        "type": "object",
        "required": [spec.name for spec in model.inputs],
        "properties": {"id": {"type": "string"}} | properties,
        "additionalProperties": False,
    }
    example = example_of(model.inputs)
    if example is not None and all(spec.shape[1:].count(-1) <= 1 for spec in model.inputs):
        schema["examples"] = [{tensor["name"]: tensor["data"] for tensor in example}]
    answer = {"type": "object", "required": ["model_name", "model_version"]}
    return posted(f"generate {model.name}", f"run {model.name}, members as inputs", schema, answer)


def _predict(model: ModelInfo) -> Json:
    row = _object(*(spec.name for spec in model.inputs), **{s.name: {} for s in model.inputs})
    schema = _object("instances", instances={"type": "array", "items": row, "minItems": 1})
    example = example_of(model.inputs)
    if example is not None:
        rows = {tensor["name"]: _nested(tensor["data"], tensor["shape"][1:]) for tensor in example}
        schema["examples"] = [{"instances": [rows]}]
    answer = {"type": "object", "required": ["predictions"]}
    return posted(f"predict {model.name}", f"run {model.name} on instances", schema, answer)


def _nested(flat: Sequence[Any], shape: Sequence[int]) -> Any:
    """A flat list as lists in lists."""
    if not shape:
        return flat[0]
    size = len(flat) // shape[0]
    return [_nested(flat[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]
