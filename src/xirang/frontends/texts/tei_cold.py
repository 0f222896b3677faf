"""GET /info, /health and /ping, as Text Embeddings Inference answers them."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xirang.errors import NotReady, XirangError
from xirang.frontends.documents import VERBS_NOT_POST, refused, told
from xirang.frontends.service import Service, TextModel
from xirang.frontends.texts.desk import ITEMS_MAX, TOKENISING_THREADS, text_of
from xirang.frontends.texts.tei import ACTS, ANY, only_one
from xirang.frontends.texts.tei_errors import error_response
from xirang.text.task import Task

PREFIX = "/tei/{model}"


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
        return refused(*error_response(NotReady("unhealthy")))

    async def info(request: Request) -> Response:
        try:
            name = request.path_params.get("model") or only_one(texts, ANY)
            return told(info_of(name, text_of(texts, name), service, version=version))
        except XirangError as error:
            return refused(*error_response(error))

    async def wrong_verb(_: Request) -> Response:
        response = told({"error": "Method Not Allowed"}, 405)
        response.headers["allow"] = "POST"
        return response

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


def info_of(name: str, text: TextModel, service: Service, *, version: str) -> dict[str, Any]:
    """What clients of that server may know about a model.

    Raises:
        UnknownModel: It has gone.
    """
    config = service.model(name).config
    limits = config.get("xirang", {})
    return {
        "model_id": name,
        "model_sha": None,
        "model_dtype": "float32",
        "model_type": _kind(text),
        "max_concurrent_requests": limits.get("depth_max"),
        "max_input_length": text.length_max,
        "max_batch_tokens": limits.get("elements_max"),
        "max_batch_requests": config.get("max_batch_size"),
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
