"""GET /info, /health and /ping, as Text Embeddings Inference answers them."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xirang.errors import NotReady, UnknownModel, XirangError
from xirang.frontends.service import Service, TextModel
from xirang.frontends.tei import ACTS, ANY, only_one
from xirang.frontends.tei_errors import error_response
from xirang.frontends.texts import ITEMS_MAX, TOKENISING_THREADS
from xirang.text.task import Task

PREFIX = "/tei/{model}"
VERBS_NOT_POST = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]


def routes(service: Service, texts: Mapping[str, TextModel], *, version: str) -> list[Route]:
    """The routes.

    Args:
        service: Knows whether we are well, and how much a model takes.
        texts: Name to text model; changes while we serve.
        version: The server's.
    """

    async def health(_: Request) -> Response:
        if service.is_ready():
            return Response()
        return _refused(NotReady("unhealthy"))

    async def info(request: Request) -> Response:
        try:
            name = request.path_params.get("model") or only_one(texts, ANY)
            document = about(name, texts, service, version=version)
        except XirangError as error:
            return _refused(error)
        return Response(orjson.dumps(document), media_type="application/json")

    async def wrong_verb(_: Request) -> Response:
        body = orjson.dumps({"error": "Method Not Allowed"})
        return Response(body, 405, {"allow": "POST"}, "application/json")

    posts = [f"{prefix}/{act}" for prefix in ("", PREFIX) for act in ACTS if act]
    return [
        Route("/health", health),
        Route("/ping", health),
        Route("/info", info),
        Route(f"{PREFIX}/health", health),
        Route(f"{PREFIX}/info", info),
        # A POST on them is hot, and never comes here.
        *(Route(path, wrong_verb, methods=VERBS_NOT_POST) for path in posts),
    ]


def about(
    name: str, texts: Mapping[str, TextModel], service: Service, *, version: str
) -> dict[str, Any]:
    """What clients of that server may know about a model.

    Raises:
        UnknownModel: There is none of that name.
    """
    text = texts.get(name)
    if text is None:
        raise UnknownModel(f"The model '{name}' does not exist or takes no texts")
    limits = service.model(name).config.get("xirang", {})
    return {
        "model_id": name,
        "model_sha": None,
        "model_dtype": "float32",
        "model_type": _kind(text),
        "max_concurrent_requests": limits.get("depth_max"),
        "max_input_length": text.length_max,
        "max_batch_tokens": limits.get("elements_max"),
        "max_batch_requests": service.model(name).config.get("max_batch_size"),
        "max_client_batch_size": ITEMS_MAX,
        "auto_truncate": True,
        "tokenization_workers": TOKENISING_THREADS,
        "version": version,
        "sha": None,
        "docker_label": None,
    }


def _kind(text: TextModel) -> dict[str, Any]:
    if text.task in (Task.EMBED, Task.SPARSE):
        is_sparse = text.task is Task.SPARSE
        return {"embedding": {"pooling": "splade" if is_sparse else text.folder.pooling.value}}
    numbers = {str(number): label for number, label in enumerate(text.labels)}
    names = {label: number for number, label in enumerate(text.labels)}
    return {text.task.value: {"id2label": numbers, "label2id": names}}


def _refused(error: BaseException) -> Response:
    status, headers, body = error_response(error)
    lines = (line.partition(b": ") for line in headers.split(b"\r\n") if line)
    return Response(body, status, {name.decode(): value.decode() for name, _, value in lines})
