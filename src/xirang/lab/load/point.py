"""Runs one point of a load: sends what is due, notes what came back, stops in time.

Latency is counted from the intended send time. A client that waits for a slow server
before it sends the next request of an open loop would hide exactly the waiting that
its users see (coordinated omission).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from xirang.errors import InvalidSetting
from xirang.lab.load.client import Connection, Fault, Target
from xirang.lab.load.feed import ClosedFeed, Feed, OpenFeed
from xirang.lab.load.plan import SECOND_NS, ArrivalPlan, ClosedLoop
from xirang.lab.load.result import PointResult, Samples, Spent, summarize
from xirang.lab.load.scrape import compare, read_metrics

TICK_S = 0.1
FAULTS_IN_A_ROW_MAX = 1_000
BACKLOG_SPAN_S = 2.0
"""An open loop is overloaded when the arrivals of this long wait for a connection."""
RECENT = 512


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a point is.

    Attributes:
        label: The arrivals in words.
        share: Done part of the point, 0 … 1.
        finished: Requests with an outcome, warm-up included.
        errors: Those without an answer 2xx.
        rate: Outcomes a second, lately.
        p50_ms: Median of the latest latencies, None before the first.
    """

    label: str
    share: float
    finished: int
    errors: int
    rate: float
    p50_ms: float | None


ProgressCall = Callable[[Progress], None]
AnswerCall = Callable[[int, int, bytes], None]
"""Is called with payload index, status and body of every answer, inside the run."""


async def run_point(
    target: Target,
    payloads: Sequence[bytes],
    plan: ArrivalPlan,
    *,
    on_progress: ProgressCall | None = None,
    on_answer: AnswerCall | None = None,
    model: str | None = None,
) -> PointResult:
    """Run one point against a server.

    Args:
        target: Server, route and header fields.
        payloads: Request bodies, sent in turn.
        plan: When they leave.
        on_progress: Is told a few times a second.
        on_answer: Sees every answer; what it costs, the client costs more.
        model: Read the server's figures of this model only.
    """
    if not payloads:
        raise InvalidSetting("no request bodies to send")
    before = await read_metrics(target)
    run = _PointRun(target, [target.post(body) for body in payloads], plan, on_answer, on_progress)
    spent = await run.play()
    after = await read_metrics(target) if before is not None else None
    server = None
    if before is not None and after is not None:
        server = compare(before, after, answered=run.finished - run.errors, model=model)
    return summarize(plan, run.samples, spent, server)


@dataclass(slots=True, eq=False)
class _PointRun:
    """The state of a point while it runs: `Listener` of its connections, `Sender` of its feed."""

    target: Target
    requests: list[bytes]
    plan: ArrivalPlan
    on_each: AnswerCall | None
    on_progress: ProgressCall | None
    samples: Samples = field(default_factory=Samples)
    connections: list[Connection] = field(default_factory=list)
    errors: int = 0
    outstanding: int = 0
    faults_in_a_row: int = 0
    note: str = ""
    failure: Exception | None = None
    start_ns: int = 0
    cursor: int = 0
    reported: tuple[int, int] = (0, 0)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    feed: Feed = field(init=False)

    @property
    def finished(self) -> int:
        """Requests with an outcome."""
        return len(self.samples)

    async def play(self) -> Spent:
        """Run from the first send to the last outcome."""
        self.feed = self._make_feed()
        cpu_ns = time.process_time_ns()
        self.start_ns = time.perf_counter_ns()
        self.feed.start()
        ticking = asyncio.create_task(self._tick())
        ticking.add_done_callback(lambda _: self.ended.set())
        try:
            await self.ended.wait()
            if self.failure is not None:
                raise self.failure
            if ticking.done():
                ticking.result()  # raises what a progress call raised
        finally:
            ticking.cancel()
            self.feed.close()
            for connection in self.connections:
                connection.close()
        self._report(self.now_ns(), share=1.0)
        last_ns = self.samples.done_ns[-1] if self.finished and not self.note else self.now_ns()
        return Spent(
            wall_ns=last_ns,
            cpu_ns=time.process_time_ns() - cpu_ns,
            unfinished=self.outstanding + len(self.feed.waiting),
            backlog_max=self.feed.waiting_max if isinstance(self.feed, OpenFeed) else 0,
            note=self.note,
        )

    def _make_feed(self) -> Feed:
        plan = self.plan
        if isinstance(plan.arrivals, ClosedLoop):
            clients = plan.arrivals.clients
            return ClosedFeed(self, clients, plan.warmup_ns, plan.end_ns, plan.request_count)
        return OpenFeed(self, plan.instants_ns().tolist(), plan.connections)

    def now_ns(self) -> int:
        """Time since the start of the point."""
        return time.perf_counter_ns() - self.start_ns

    def connect(self) -> Connection:
        """One more connection; it opens itself with its first request."""
        connection = Connection(self.target, self)
        self.connections.append(connection)
        return connection

    def send(self, connection: Connection, due_ns: int) -> None:
        """Send the next body on this connection."""
        index = self.cursor
        self.cursor = (index + 1) % len(self.requests)
        connection.payload_index = index
        connection.due_ns = due_ns
        connection.sent_ns = time.perf_counter_ns() - self.start_ns
        self.outstanding += 1
        connection.send(self.requests[index])

    def on_answer(self, connection: Connection, status: int, body: bytes) -> None:
        """Note an answer and let the connection go on."""
        self._note(connection, status)
        self.faults_in_a_row = 0
        if not 200 <= status < 300:
            self.errors += 1
        if self.on_each is not None:
            self._show_answer(connection.payload_index, status, body)
        self.feed.free(connection)
        if self.feed.exhausted:
            self._end_if_done()

    def on_fault(self, connection: Connection, fault: Fault) -> None:
        """Note that no answer will come and let the connection go on."""
        self._note(connection, fault)
        self.errors += 1
        self.faults_in_a_row += 1
        self.feed.broken(connection)
        if self.feed.exhausted:
            self._end_if_done()

    def _show_answer(self, payload_index: int, status: int, body: bytes) -> None:
        assert self.on_each is not None
        try:
            self.on_each(payload_index, status, body)
        except Exception as error:
            # Raised from here it would end in the event loop's log; the caller must see it.
            self.failure = error
            self.ended.set()

    def _note(self, connection: Connection, outcome: int) -> None:
        self.outstanding -= 1
        self.samples.add(
            due_ns=connection.due_ns,
            sent_ns=connection.sent_ns,
            done_ns=time.perf_counter_ns() - self.start_ns,
            outcome=outcome,
        )

    def _end_if_done(self) -> None:
        if not (self.outstanding or self.feed.waiting or self.feed.resting):
            self.ended.set()

    async def _tick(self) -> None:
        while not self.ended.is_set():
            await asyncio.sleep(TICK_S)
            now_ns = self.now_ns()
            self._expire(now_ns)
            self.note = self._reason_to_stop(now_ns)
            if self.note:
                self.ended.set()
            elif self.feed.exhausted:
                self._end_if_done()
            self._report(now_ns, share=self._share(now_ns))

    def _expire(self, now_ns: int) -> None:
        oldest_ns = now_ns - round(self.plan.timeout_s * SECOND_NS)
        for connection in self.connections:
            if connection.busy and connection.sent_ns < oldest_ns:
                connection.expire()

    def _reason_to_stop(self, now_ns: int) -> str:
        waiting = len(self.feed.waiting)
        rate = self.plan.rate_asked or 0.0
        if waiting > max(self.plan.connections, rate * BACKLOG_SPAN_S):
            return (
                f"stopped after {now_ns / SECOND_NS:.1f} s: overload, {waiting} requests "
                f"waited for one of {self.plan.connections} connections"
            )
        if self.faults_in_a_row >= FAULTS_IN_A_ROW_MAX:
            fault = Fault(self.samples.outcome[-1]).name.lower()
            return f"stopped: {self.faults_in_a_row} requests in a row got no answer ({fault})"
        if waiting and now_ns > self.plan.end_ns + self.plan.timeout_s * SECOND_NS:
            return (
                f"stopped: {waiting} requests still waited {self.plan.timeout_s:g} s after the end"
            )
        return ""

    def _share(self, now_ns: int) -> float:
        share = now_ns / self.plan.end_ns
        if self.plan.request_count is not None and now_ns > self.plan.warmup_ns:
            share = max(share, self.finished / (self.plan.request_count + self.finished))
        return min(share, 1.0)

    def _report(self, now_ns: int, *, share: float) -> None:
        if self.on_progress is None:
            return
        earlier, earlier_ns = self.reported
        self.reported = (self.finished, now_ns)
        recent = zip(self.samples.done_ns[-RECENT:], self.samples.due_ns[-RECENT:], strict=True)
        latencies = [done_ns - due_ns for done_ns, due_ns in recent]
        self.on_progress(
            Progress(
                label=self.plan.arrivals.label,
                share=share,
                finished=self.finished,
                errors=self.errors,
                rate=(self.finished - earlier) * SECOND_NS / max(now_ns - earlier_ns, 1),
                p50_ms=median(latencies) / 1e6 if latencies else None,
            )
        )
