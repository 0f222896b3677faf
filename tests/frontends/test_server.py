"""A real server on loopback, with real clients: uvicorn, uvloop, tritonclient, openai."""

import contextlib
import socket
import threading

import numpy as np
import openai
import pytest
import tritonclient.http as triton
import uvicorn
from tests.frontends.puppets import PuppetService, PuppetText, echo_model, embed, get, post
from tritonclient.utils import InferenceServerException

from xirang.errors import Expired, InvalidRequest, NotReady, TooBusy
from xirang.frontends.cold import cold_app
from xirang.frontends.routes import hot_routes
from xirang.frontends.wire.http import serve_protocol

pytestmark = pytest.mark.e2e


class PromptService(PuppetService):
    """Answers at once; texts by their embedding."""

    def answer(self, result=None):
        super().answer(embed(self.calls[0]) if "input_ids" in self.calls[0].inputs else result)


@pytest.fixture(scope="module")
def service():
    return PromptService(
        echo_model(), echo_model("texts", "BYTES"), echo_model("org/text"), is_prompt=True
    )


@pytest.fixture(scope="module")
def port(service):
    """A server that answers for as long as the module's tests run."""
    with serving(service) as port:
        yield port


@contextlib.contextmanager
def serving(service):
    texts = {"org/text": PuppetText()}
    config = uvicorn.Config(
        cold_app(service, texts),
        http=serve_protocol(hot_routes(service, texts), body_bytes_max=1 << 20),
        loop="uvloop",
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(timeout=20)
    assert not thread.is_alive()


@pytest.fixture
def client(port):
    with contextlib.closing(triton.InferenceServerClient(f"127.0.0.1:{port}")) as found:
        yield found


def infer_input(values, datatype, *, is_binary):
    found = triton.InferInput("x", values.shape, datatype)
    found.set_data_from_numpy(values, binary_data=is_binary)
    return found


@pytest.mark.parametrize("is_binary_in", [True, False])
@pytest.mark.parametrize("is_binary_out", [True, False])
@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("model", ["echo", "texts"])
def test_tritonclient(client, is_binary_in, is_binary_out, coding, model):
    if model == "echo":
        values = np.array([[0.1, -2, 3e30]], np.float32)
    else:
        values = np.array([["héllo".encode(), b"", b"x" * 70]], np.object_)
    datatype = "FP32" if model == "echo" else "BYTES"
    result = client.infer(
        model,
        [infer_input(values, datatype, is_binary=is_binary_in)],
        outputs=[triton.InferRequestedOutput("x", binary_data=is_binary_out)],
        request_id="7",
        timeout=5_000_000,
        priority=1,
        request_compression_algorithm=coding,
        response_compression_algorithm=coding,
    )
    found = result.as_numpy("x")
    if not is_binary_out and model == "texts":
        found = np.array([[each.encode() for each in row] for row in found.tolist()], np.object_)
    np.testing.assert_array_equal(found, values)
    assert result.get_response()["id"] == "7"


def test_tritonclient_reads_everything_else(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo", "1")
    assert not client.is_model_ready("nope")
    assert client.get_server_metadata()["name"] == "xirang"
    assert client.get_model_metadata("echo")["inputs"][0]["datatype"] == "FP32"
    assert client.get_model_config("echo") == {}
    assert client.get_inference_statistics("echo")["model_stats"][0]["name"] == "echo"
    assert client.get_model_repository_index()[0]["name"] == "echo"


def test_tritonclient_gets_errors_with_their_text(client):
    values = infer_input(np.zeros((1, 1), np.float32), "FP32", is_binary=True)
    with pytest.raises(InferenceServerException, match="unknown model: 'nope' is not found"):
        client.infer("nope", [values])
    with pytest.raises(InferenceServerException, match="already exists"):
        client.infer("echo", [values, values])


def client_of(port, **options):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", **options)


def test_openai_client(port):
    with client_of(port) as client:
        found = client.embeddings.create(model="org/text", input=["ab", "c"])
        assert [item.embedding for item in found.data] == [[195.0, 0, 3, 4], [99.0, 0, 3, 4]]
        assert found.usage.prompt_tokens == 3
        found = client.embeddings.create(
            model="org/text", input="a" * 6000, encoding_format="float", dimensions=2
        )
        assert found.data[0].embedding == [1.0, 0.0]
        assert client.models.list().data[0].id == "org/text"
        with pytest.raises(openai.NotFoundError) as caught:
            client.embeddings.create(model="nope", input="a")
        assert caught.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model="org/text", input="")


class Moody(PromptService):
    """Refuses the first so many calls."""

    def __init__(self, *models):
        super().__init__(*models, is_prompt=True)
        self.moods = []
        self.asked = 0

    def submit(self, call):
        self.asked += 1
        self.refusal = self.moods.pop(0) if self.moods else None
        return super().submit(call)


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (TooBusy("full", retry_after_ns=1_000_000), 3),
        (NotReady("draining"), 3),
        (Expired("too late"), 1),
        (InvalidRequest("wrong"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_openai_client_comes_back_only_where_that_may_help(error, asked):
    service = Moody(echo_model("org/text"))
    service.moods = [error, error]
    with (
        serving(service) as port,
        client_of(port, max_retries=2) as client,
        contextlib.suppress(openai.APIStatusError),
    ):
        client.embeddings.create(model="org/text", input="a")
    assert service.asked == asked


def talk(port, sent):
    """Send bytes; read until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        found = b""
        while more := connection.recv(65536):
            found += more
        return found


JSON = b'{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[1]}]}'


def test_hot_and_cold_pipelined_on_a_real_socket(port):
    sent = post("/v2/models/echo/infer", JSON) + get("/metrics") + get("/v2/models/nope/ready")
    found = talk(port, sent * 20 + get("/v2/health/live", "connection: close"))
    order = [
        b"infer" if b'"model_name"' in part else b"metrics" if b"# TYPE" in part else b"ready"
        for part in found.split(b"HTTP/1.1 ")[1:-1]
    ]
    assert order == [b"infer", b"metrics", b"ready"] * 20


def test_refused_upload_gets_to_read_why(port):
    """More than the socket's buffers hold: a reset would lose the answer."""
    body = bytes(8 << 20)
    found = talk(port, post("/v2/models/echo/infer", body))
    assert found.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":"the body is larger than 1048576 bytes"}' in found


def test_large_tensor(client):
    values = np.arange(200_000, dtype=np.float32).reshape(1, -1)
    result = client.infer("echo", [infer_input(values, "FP32", is_binary=True)])
    np.testing.assert_array_equal(result.as_numpy("x"), values)
