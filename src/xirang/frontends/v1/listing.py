"""GET /v1/models: the list that OpenAI's clients ask for and the one that KServe's do, in one."""

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xirang.errors import NotReady, UnknownModel
from xirang.frontends.documents import VERBS_NOT_POST, refused, told
from xirang.frontends.service import Service, TextModel
from xirang.frontends.texts import openai


def routes(service: Service, texts: Mapping[str, TextModel]) -> list[Route]:
    """The routes.

    Args:
        service: Knows all models; KServe's clients ask for any.
        texts: Those that OpenAI's clients can use.
    """

    async def models(_: Request) -> Response:
        cards = [openai.model_card(name) for name in texts]
        return told({"object": "list", "data": cards, "models": list(service.model_names())})

    async def model(request: Request) -> Response:
        name = request.path_params["model"]
        try:
            is_ready = service.model(name).is_ready
        except UnknownModel:
            return _refused(UnknownModel(f"The model '{name}' does not exist"))
        except NotReady:
            is_ready = False
        if not is_ready:
            return _refused(NotReady(f"Model with name {name} is not ready."))
        card = openai.model_card(name) if name in texts else {}
        return told(card | {"name": name, "ready": True})

    async def wrong_verb(_: Request) -> Response:
        raise HTTPException(405, headers={"allow": "POST"})

    return [
        Route("/v1/models", models),
        # A POST on these two is hot, and never comes here.
        Route("/v1/models/{model:path}:predict", wrong_verb, methods=VERBS_NOT_POST),
        Route("/v1/embeddings", wrong_verb, methods=VERBS_NOT_POST),
        Route("/v1/models/{model:path}", model),
    ]


def _refused(error: BaseException) -> Response:
    return refused(*openai.error_response(error))
