"""The same model files on a genuine Triton and here: what a client gets is the same.

`make judge-python` runs this; XIRANG_TRITON names a program that starts a genuine Triton, given a
model repository and the ports of HTTP, gRPC and metrics. Without it there is nobody to compare
with.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tests.e2e.test_python_models import REPOSITORY, tensors
from tests.support.wire import get, post, until

from xirang.lab.server import ServerProcess

LAUNCHER = os.environ.get("XIRANG_TRITON", "")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not LAUNCHER, reason="XIRANG_TRITON names no program that starts a Triton"),
]

NOT_ITS_OWN = {"instance_group", "optimization", "xirang"}
"""Parts of a configuration that tell of the server."""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def genuine(root):
    """Its URL, and where its gRPC is."""
    ports = free_ports(3)
    command = [LAUNCHER, str(root), *map(str, ports), "--exit-on-error=false"]
    with (root.parent / "triton.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{ports[0]}"

    def is_ready():
        assert process.poll() is None, (root.parent / "triton.log").read_text()[-2000:]
        with contextlib.suppress(OSError):
            return get(url, "/v2/health/ready")[0] == 200
        return False

    try:
        until(is_ready, "Triton")
        yield url, f"127.0.0.1:{ports[1]}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository") / "models"
    shutil.copytree(REPOSITORY, root)
    options = ("--model-repository", str(root), "--learned", "off", "--grpc-port", "0")
    with genuine(root) as theirs, ServerProcess([], *options) as ours:
        yield theirs, (ours.url, ours.grpc_place)


def asked(both, model, inputs, **more):
    """What both answer: status, and outputs or nothing."""
    body = {
        "inputs": [
            {"name": name, "datatype": kind, "shape": shape, "data": data}
            for name, (kind, shape, data) in inputs.items()
        ]
    }
    found = []
    for url, _ in both:
        status, _, answer = post(url, f"/v2/models/{model}/infer", body | more)
        if isinstance(answer, bytes):  # Triton's errors do not say that they are JSON
            answer = json.loads(answer)
        outputs = answer.get("outputs")
        if outputs:  # of an ensemble Triton gives them in the order of their names
            outputs.sort(key=lambda output: output["name"])
        found.append((status, outputs, answer.get("error")))
    return found


def command(both, text, **more):
    return asked(both, "unruly", {"COMMAND": ("BYTES", [1, 1], [text])}, **more)


def asks(both, how):
    return asked(
        both, "asker", {"HOW": ("BYTES", [1], [how]), "VALUES": ("FP32", [4], [1, 2, 3, 4])}
    )


def streamed(place, count, *, empty):
    found = []

    def take(result, error):
        if error is not None:
            found.append(str(error.message()))
            return
        response = result.get_response()
        number = result.as_numpy("NUMBER")
        is_final = response.parameters["triton_final_response"].bool_param
        found.append((None if number is None else int(number[0]), is_final))

    with grpcclient.InferenceServerClient(place) as asks:
        asks.start_stream(take)
        asks.async_stream_infer(
            "counter",
            tensors(grpcclient, COUNT=np.array([count], np.int32)),
            enable_empty_final_response=empty,
        )
        asks.stop_stream()
    return found


ROW = ("FP32", [2, 4], [1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize(
    ("model", "inputs", "more"),
    [
        ("add_sub", {"INPUT0": ROW, "INPUT1": ROW}, {}),
        ("add_sub", {"INPUT0": ROW, "INPUT1": ROW}, {"outputs": [{"name": "OUTPUT1"}]}),
        ("add_sub", {"INPUT0": ROW}, {}),
        ("add_sub", {"INPUT0": ROW, "INPUT1": ("FP32", [2, 3], [0] * 6)}, {}),
        ("add_sub", {"INPUT0": ROW, "INPUT1": ROW}, {"outputs": [{"name": "NO"}]}),
        ("completing", {"X": ("INT64", [2, 3], [1, 2, 3, 4, 5, 6])}, {}),
        ("completing", {"X": ("INT64", [17, 1], [0] * 17)}, {}),
        ("gathering", {"X": ("FP32", [2, 3], [0] * 6)}, {}),
        ("teller", {"TEXT": ("BYTES", [2, 1], ["a", "息壤"])}, {}),
        (
            "teller",
            {"TEXT": ("BYTES", [1, 1], [""])},
            {"id": "x", "parameters": {"a": 1, "b": True, "c": "d", "timeout": 9_000_000}},
        ),
        ("teller", {"TEXT": ("BYTES", [1, 1], ["a"])}, {"outputs": [{"name": "SEEN"}]}),
        ("teller", {"TEXT": ("BYTES", [1, 1], ["a"]), "HINT": ("FP32", [1, 1], [1])}, {}),
        ("ensemble", {"ONE": ROW, "OTHER": ROW}, {}),
        ("ensemble", {"ONE": ("FP32", [1, 4], [99] * 4), "OTHER": ("FP32", [1, 4], [0] * 4)}, {}),
        ("ensemble", {"ONE": ROW}, {}),
        *[
            ("asker", {"HOW": ("BYTES", [1], [how]), "VALUES": ("FP32", [4], [1, 2, 3, 4])}, {})
            for how in ("chain", "at once", "threads")
        ],
        *[
            ("unruly", {"COMMAND": ("BYTES", [1, 1], [text])}, {})
            for text in ("good", "missing", "extra", "count", "junk", "raise")
        ],
        *[
            ("unruly", {"COMMAND": ("BYTES", [1, 1], [f"error {code}"])}, {})
            for code in (
                "INTERNAL",
                "NOT_FOUND",
                "INVALID_ARG",
                "UNAVAILABLE",
                "UNSUPPORTED",
                "ALREADY_EXISTS",
            )
        ],
    ],
)
def test_status_and_outputs_are_the_same(both, model, inputs, more):
    theirs, ours = asked(both, model, inputs, **more)
    if theirs[1] and model == "unruly":
        for outputs in (theirs[1], ours[1]):
            for output in outputs:
                if output["name"] == "PROCESS":
                    output["data"] = ["a process"]
    assert theirs[:2] == ours[:2], (theirs, ours)


@pytest.mark.parametrize("count", [0, 1, 5, -2])
@pytest.mark.parametrize("empty", [False, True])
def test_streams_are_the_same(both, count, empty):
    theirs, ours = (streamed(place, count, empty=empty) for _, place in both)
    assert theirs == ours


@pytest.mark.parametrize("model", ["add_sub", "completing", "counter", "ensemble", "teller"])
def test_metadata_and_configuration_are_the_same(both, model):
    theirs, ours = (get(url, f"/v2/models/{model}")[1] for url, _ in both)
    assert theirs == ours
    theirs, ours = (
        {
            key: value
            for key, value in get(url, f"/v2/models/{model}/config")[1].items()
            if key not in NOT_ITS_OWN
        }
        for url, _ in both
    )
    assert theirs == ours


def test_an_ensemble_counts_the_same(both):
    rows = {"ONE": ("FP32", [1, 4], [1] * 4), "OTHER": ("FP32", [1, 4], [2] * 4)}
    names = ("ensemble", "add_sub", "twice")

    def counts():
        found = []
        for url, _ in both:
            told = [get(url, f"/v2/models/{name}/stats")[1]["model_stats"][0] for name in names]
            found.append(
                [
                    (each["inference_count"], each["inference_stats"]["success"]["count"])
                    for each in told
                ]
            )
        return np.array(found)

    before = counts()
    for _ in range(3):
        asked(both, "ensemble", rows)
    theirs, ours = counts() - before
    assert theirs.tolist() == ours.tolist()


def test_where_xirang_is_deliberately_better(both):
    """A wrong datatype is no answer, and neither is an answer without the output asked for.

    A tensor that is an output and a later step's input may be asked for alone.
    """
    alone = {"outputs": [{"name": "HALF_SUM"}]}
    theirs, ours = asked(both, "ensemble", {"ONE": ROW, "OTHER": ROW}, **alone)
    assert (theirs[0], ours[0]) == (400, 200)
    theirs, ours = command(both, "type")
    assert (theirs[0], ours[0]) == (200, 500)
    theirs, ours = asked(both, "teller", {"HINT": ("FP32", [1, 1], [1])})
    assert (theirs[0], ours[0]) == (500, 400), "the input that is missing is not the optional one"
    wanted = {"outputs": [{"name": "NUMBER"}]}
    theirs, ours = command(both, "missing", **wanted)
    assert (theirs[0], theirs[1], ours[0]) == (200, [], 500)
    for how in ("add_sub SUM", "twice"):  # what a model asks wrongly is not the server's fault
        theirs, ours = asks(both, how)
        assert (theirs[0], ours[0]) == (500, 400)
