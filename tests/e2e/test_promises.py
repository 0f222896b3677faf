"""What users of other servers asked for and complained of, as far as the doors can keep it.

`docs/quality-of-service.md` says which complaint each of them answers.
"""

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.wire import Hold, Wire, get, metric, post, until, words

from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

HOLD = "tests.e2e.callables:hold"
INFER = "/v2/models/hold/infer"
ASKED = {"X-Xirang-Timing": "1"}


@pytest.fixture(scope="module")
def server():
    with ServerProcess([HOLD], "--max-batch-size", "8") as server:
        yield server


@pytest.fixture
def busy(server):
    """Its only instance is held in a run."""
    with Hold() as hold, Wire(server.url) as holder:
        holder.send("POST", INFER, words(hold.text))
        hold.until_running()
        yield hold
        hold.release()
        assert holder.receive()[0] == 200


def stages(headers):
    """What `X-Xirang-Timing` told, in milliseconds."""
    found = re.findall(r"(\w+)=([\d.e-]+)", headers["x-xirang-timing"])
    return {name: float(value) for name, value in found}


# ---------------------------------------------------------------------- budgets


@pytest.mark.parametrize(
    ("parameters", "headers", "budget_ms"),
    [
        ({}, {}, 10_000),
        ({"timeout": 2_500_000}, {}, 2_500),
        ({}, {"X-Request-Timeout-Ms": "3000.5"}, 3000.5),
        ({}, {"X-Stainless-Read-Timeout": "4"}, 4_000),
        ({"timeout": 7_000_000}, {"X-Request-Timeout-Ms": "6000"}, 6_000),
        ({"timeout": 0}, {}, 10_000),
    ],
)
def test_the_budget_that_holds_is_told_in_one_unit(server, parameters, headers, budget_ms):
    body = words("x") | {"parameters": parameters}
    status, told, _ = post(server.url, INFER, body, headers | ASKED)
    assert (status, stages(told)["budget"]) == (200, budget_ms)


def test_the_stages_of_a_request_add_up(server):
    status, told, _ = post(server.url, INFER, words("x"), ASKED)
    found = stages(told)
    budget = found.pop("budget")
    assert list(found) == ["receive", "queue", "assemble", "run", "split", "send"]
    assert status == 200
    assert 0 < sum(found.values()) < budget


def test_a_budget_ends_at_its_instant_while_the_model_is_busy(server, busy):
    """And not when the run before it ends, which is never as long as this test lasts."""
    status, told, body = post(server.url, INFER, words("x"), {"X-Request-Timeout-Ms": "50"} | ASKED)
    assert status == 504
    assert "the budget of 50 ms" in body["error"]
    assert stages(told)["budget"] == 50
    assert told["x-should-retry"] == "false"
    assert "retry-after" not in told


def test_whoever_can_no_longer_be_answered_in_time_is_never_run(server, busy, tmp_path):
    note = tmp_path / "ran.txt"
    body = words(f"note {note} dead") | {"parameters": {"timeout": 50_000}}
    assert post(server.url, INFER, body)[0] == 504
    busy.release()
    assert post(server.url, INFER, words("next"))[0] == 200
    assert not note.exists()


def test_a_slow_upload_spends_its_own_budget(server, tmp_path):
    note = tmp_path / "ran.txt"
    with Wire(server.url) as slow:
        head = {"Content-Length": "1000", "X-Request-Timeout-Ms": "1"}
        slow.connection.putrequest("POST", INFER)
        for name, value in head.items():
            slow.connection.putheader(name, value)
        slow.connection.endheaders()
        for _ in range(3):  # a millisecond and more goes by
            assert post(server.url, INFER, words("meanwhile"))[0] == 200
        body = b'{"inputs":[{"name":"input","datatype":"BYTES","shape":[1],"data":["note %b x"]}]}'
        slow.connection.send((body % str(note).encode()).ljust(1000))
        status, _, told = slow.receive()
    assert status == 504
    assert told["error"] == "the latency budget was spent before the request arrived"
    assert not note.exists()


def test_a_lone_request_on_an_idle_server_waits_for_nobody(server):
    queued_ms = []
    for _ in range(20):
        until(lambda: metric(server.url, "xirang_waiting", "hold") == 0)
        queued_ms.append(stages(post(server.url, INFER, words("x"), ASKED)[1])["queue"])
    assert sorted(queued_ms)[10] < 5


# ---------------------------------------------------------------------- queues


@pytest.mark.parametrize("batching", ["optimal", "first-come", "off"])
def test_a_full_queue_is_429_with_retry_after_never_500(batching):
    """The bound is the model's and holds without batching too."""
    options = ("--queue", "2", "--batching", batching)
    with ServerProcess([HOLD], *options) as server, Hold() as hold, contextlib.ExitStack() as stack:
        holder, one, two = (stack.enter_context(Wire(server.url)) for _ in range(3))
        holder.send("POST", INFER, words(hold.text))
        hold.until_running()
        for waiting in (one, two):
            waiting.send("POST", INFER, words("waiting"))
        until(lambda: metric(server.url, "xirang_waiting", "hold") == 2, "two to wait")
        with ThreadPoolExecutor(8) as clients:
            crowd = [clients.submit(post, server.url, INFER, words("x")) for _ in range(40)]
            for status, told, body in (asked.result() for asked in crowd):
                assert (status, told["x-should-retry"]) == (429, "true")
                assert int(told["retry-after-ms"]) >= 1
                assert "Exceeds maximum queue size" in body["error"]
        hold.release()
        assert [wire.receive()[0] for wire in (holder, one, two)] == [200, 200, 200]


def test_a_cold_server_turns_nobody_away():
    """Nothing is known of its times, so nothing is predicted from them."""
    with ServerProcess([HOLD], "--learned", "off") as server, ThreadPoolExecutor(32) as clients:
        crowd = [clients.submit(post, server.url, INFER, words(f"{n}")) for n in range(200)]
        assert {asked.result()[0] for asked in crowd} == {200}


def test_a_request_of_more_rows_than_a_run_holds_is_cut_and_not_refused(server):
    texts = [f"row {number}" for number in range(100)]
    status, _, body = post(server.url, INFER, words(*texts))
    assert (status, body["outputs"][0]["data"]) == (200, texts)


# ---------------------------------------------------------------------- priorities


@pytest.mark.parametrize("priority", [0, 1, 3, 99])
def test_a_priority_may_be_sent_as_a_parameter_or_in_a_header(server, priority):
    body = words("x") | {"parameters": {"priority": priority}}
    assert post(server.url, INFER, body)[0] == 200
    assert post(server.url, INFER, words("x"), {"X-Request-Priority": str(priority)})[0] == 200


@pytest.mark.parametrize("priority", ["high", "-1", "1.5", ""])
def test_a_priority_that_is_none_is_said_to_be_none(server, priority):
    status, _, body = post(server.url, INFER, words("x"), {"X-Request-Priority": priority})
    assert status == 400
    assert "x-request-priority" in body["error"]


# ---------------------------------------------------------------------- clients that go


def test_clients_that_come_and_go_in_hundreds_leave_nothing_behind(server):
    descriptors = Path(f"/proc/{server.pid}/fd")
    assert get(server.url, "/v2/health/live")[0] == 200
    before = len(list(descriptors.iterdir()))
    for _ in range(300):
        with Wire(server.url) as wire:
            wire.send("POST", INFER, words("x"))
    until(lambda: metric(server.url, "xirang_waiting", "hold") == 0, "nobody to wait")
    until(lambda: len(list(descriptors.iterdir())) <= before + 2, "the connections to be closed")
    status, _, body = post(server.url, INFER, words("alive"))
    assert (status, body["outputs"][0]["data"]) == (200, ["alive"])
