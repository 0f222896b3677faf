"""Whole points against a small server on loopback: closed, open, overloaded, refused."""

import asyncio
import json

import pytest

from xirang.errors import InvalidSetting
from xirang.lab.load import run_point, run_point_apart
from xirang.lab.load.client import Target
from xirang.lab.load.plan import ArrivalPlan, ClosedLoop, OpenLoop

pytestmark = pytest.mark.slow


class Echo(asyncio.Protocol):
    """Answers each POST with its body, and /metrics with a counted page."""

    def __init__(self, server):
        self.server = server
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport
        self.server.transports.append(transport)

    def data_received(self, data):
        self.buffer += data
        head, _, body = self.buffer.partition(b"\r\n\r\n")
        length = int(head.rpartition(b"Content-Length: ")[2]) if b"Content-Length" in head else 0
        if len(body) < length:
            return
        self.buffer = b""
        if head.startswith(b"GET /metrics"):
            self.answer(200, self.server.metrics())
        else:
            self.server.heads.append(head)
            if not self.server.silent:
                self.answer(self.server.status, body)

    def answer(self, status, body):
        head = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self.transport.write(head + body)


class EchoServer:
    def __init__(self, *, status=200, silent=False):
        self.status = status
        self.silent = silent
        self.heads = []
        self.transports = []

    def metrics(self):
        count = len(self.heads)
        return b"xirang_batch_rows_sum %d\nxirang_batch_rows_count %d\n" % (4 * count, count)

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Echo(self), "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.target = Target("127.0.0.1", port, "", "/echo")
        return self

    async def __aexit__(self, *failure):
        self.server.close()
        for transport in self.transports:
            transport.abort()
        await self.server.wait_closed()


BODIES = [json.dumps({"n": n}).encode() for n in range(5)]


def play(plan, *, server=None, **options):
    async def main():
        async with server or EchoServer() as running:
            return await run_point(running.target, BODIES, plan, **options)

    return asyncio.run(main())


def counted(arrivals, count=60, **limits):
    return ArrivalPlan(arrivals, duration_s=60, request_count=count, warmup_s=0, **limits)


def test_a_closed_loop_sends_exactly_the_requests_asked_for():
    seen = []
    result = play(
        counted(ClosedLoop(4)), on_answer=lambda index, status, body: seen.append((index, body))
    )
    assert (result.sent, result.ok, result.errors) == (60, 60, 0)
    assert sorted(seen) == sorted((n % 5, BODIES[n % 5]) for n in range(60))
    assert result.throughput > 0
    assert 0 < result.p50_ms <= result.p99_ms <= result.latency_max_ms
    assert result.server.mean_batch == pytest.approx(4.0)


def test_an_open_loop_sends_all_and_keeps_the_intended_instants():
    result = play(counted(OpenLoop(2000.0), 100, connections=3))
    assert (result.sent, result.ok, result.note) == (100, 100, "")
    assert result.rate_asked == 2000.0
    assert result.lateness_p99_ms >= 0


def test_a_closed_loop_ends_with_its_window():
    result = play(ArrivalPlan(ClosedLoop(2), duration_s=0.2, warmup_s=0.05))
    assert result.ok == result.sent > 0
    assert result.unfinished == 0


def test_other_statuses_are_errors_and_still_answers():
    result = play(counted(ClosedLoop(2), 10), server=EchoServer(status=429))
    assert result.statuses == {429: 10}
    assert (result.ok, result.errors, result.p50_ms) == (0, 10, None)


def test_a_server_that_falls_behind_stops_the_point():
    plan = ArrivalPlan(OpenLoop(1000.0), duration_s=60, warmup_s=0, connections=2)
    result = play(plan, server=EchoServer(silent=True))
    assert "overload" in result.note
    assert result.unfinished > plan.connections
    assert result.backlog_max > 1000


def test_requests_without_an_answer_time_out():
    result = play(counted(ClosedLoop(3), 3, timeout_s=0.05), server=EchoServer(silent=True))
    assert result.faults == {"timeout": 3}


def test_a_refused_point_stops_by_itself():
    async def main():
        async with EchoServer() as server:
            target = server.target
        return await run_point(target, BODIES, ArrivalPlan(OpenLoop(20_000.0), warmup_s=0))

    result = asyncio.run(main())
    assert result.ok == 0
    assert result.faults["refused"] >= 1000
    assert "refused" in result.note


def test_progress_grows_to_the_end():
    shares = []
    play(counted(ClosedLoop(2)), on_progress=lambda progress: shares.append(progress.share))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def fail(*_):
    raise ValueError("not what was expected")


def test_what_a_checker_or_a_progress_call_raises_reaches_the_caller():
    with pytest.raises(ValueError, match="not what was expected"):
        play(counted(ClosedLoop(2)), on_answer=fail)
    with pytest.raises(ValueError, match="not what was expected"):
        play(ArrivalPlan(ClosedLoop(2), duration_s=60), on_progress=fail)


def test_nothing_to_send_is_refused():
    with pytest.raises(InvalidSetting, match="no request bodies"):
        asyncio.run(run_point(Target("127.0.0.1", 1), [], counted(ClosedLoop(1))))


@pytest.mark.slow
def test_a_point_in_its_own_process_hands_back_result_answers_and_progress():
    seen = []
    shares = []

    async def main():
        async with EchoServer() as server:
            return await run_point_apart(
                server.target,
                BODIES,
                counted(ClosedLoop(4)),
                on_progress=lambda progress: shares.append(progress.share),
                on_answer=lambda index, status, body: seen.append((index, status, body)),
            )

    result = asyncio.run(main())
    assert (result.sent, result.ok) == (60, 60)
    assert sorted(seen) == sorted((n % 5, 200, BODIES[n % 5]) for n in range(60))
    assert shares[-1] == 1.0


@pytest.mark.slow
def test_an_error_of_the_child_is_raised_here():
    with pytest.raises(InvalidSetting, match="no request bodies"):
        asyncio.run(run_point_apart(Target("127.0.0.1", 1), [], counted(ClosedLoop(1))))
