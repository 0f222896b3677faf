"""What tracing costs a request on the average, where one in a hundred is traced.

The path of a request with a witness beside it, less the same path without; and what the thread that
makes spans of it takes, as it shares the interpreter with everybody.
"""

from random import Random
from time import perf_counter, thread_time
from types import FunctionType

from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Run, Trigger
from xirang.engine.call import Answer, Ran
from xirang.frontends.exchange import Exchange, MakeExchange
from xirang.frontends.following import exchanges
from xirang.frontends.headers import Headers
from xirang.observe.outlet import Tally
from xirang.observe.sampling import Sampler
from xirang.observe.tracing import Times, Tracing
from xirang.observe.witness import Witness

RATIO = 0.01
REQUESTS = 200
ROUNDS = 400
HEADERS = Headers(
    [(b"host", b"x"), (b"content-type", b"application/json"), (b"user-agent", b"bench")]
)
REQUEST = Request(7, "m", 0, 10**9)
EVENT = RunEnded(
    Run(3, "m", 0, (REQUEST,) * 8, 8, 1, Trigger.WINDOW, 2 * 10**6, 10**6, 0, 0), Done(4000), 10**7
)
ANSWER = Answer({}, 0, Ran(8, 0.0, 0, 1, event=EVENT), request_id=7)


class Left(list):
    """An outlet without a thread."""

    put = list.append


class Nobody:
    """A collector that is not there."""

    def send(self, _: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def trace_us() -> tuple[float, float]:
    """Microseconds a request on the average: on its path, and of the thread.

    Those that go by and those that are traced are timed apart and weighed, as a hundred at a time
    are too few to have one traced for sure.
    """
    left = Left()
    passing, traced = exchanges(_witness(0.0, left)), exchanges(_witness(1.0, left))
    bare_us, passing_us, traced_us = _times_us(Exchange, passing, traced)
    path_us = passing_us - bare_us + RATIO * (traced_us - passing_us)
    return path_us, RATIO * _thread_us(left[-2 * REQUESTS :])


def _witness(ratio: float, left: Left) -> Witness:
    witness = Witness(
        Sampler(ratio, random=Random(1)),
        Sampler(0.0, random=Random(1)),
        now_ns=lambda: 10**7,
        random=Random(1),
        is_off=lambda _: False,
    )
    witness.leave_at(spans=left)
    return witness


def _times_us(*kinds: MakeExchange) -> list[float]:
    """Of each kind the least disturbed round; they take turns."""
    # Each has a copy of the code: the interpreter fits a call to what it calls.
    paths = [FunctionType(_path_s.__code__.replace(), globals()) for _ in kinds]
    pairs = list(zip(paths, kinds, strict=True))
    rounds = [[path(make) for path, make in pairs] for _ in range(ROUNDS)]
    return [min(times) / REQUESTS * 1e6 for times in zip(*rounds, strict=True)]


def _path_s(make: MakeExchange) -> float:
    begin = perf_counter()
    for _ in range(REQUESTS):
        exchange = make(None, b"/v2/models/m/infer", HEADERS)
        reply = _nothing
        if exchange.is_followed:
            reply = exchange.follow(reply, "m", "")
        reply(ANSWER)
        exchange.respond(200, b"", b"")
    return perf_counter() - begin


def _thread_us(left: list) -> float:
    """Of a traced request, in a run of its own: a span for each."""
    spent = []
    for _ in range(ROUNDS // 10):
        tracing = Tracing(
            Nobody(),
            Tally(),
            resource={},
            random=Random(1),
            times=Times(lambda: 10**10, lambda: 0),
            on_traced=lambda *_: None,
        )
        begin = thread_time()
        tracing(left)
        spent.append(thread_time() - begin)
    return min(spent) / REQUESTS * 1e6


def _nothing(_: Answer) -> None:
    pass
