"""Where a request's time went, for those who ask: by header, and in v2 as response parameters.

    X-Xirang-Timing: receive=0.031, queue=1.204, assemble=0.012, run=8.14, split=0.021, …

All in milliseconds. Nothing is measured for requests that do not ask.
"""

from collections.abc import Callable

from xirang.engine.call import Answer
from xirang.frontends.exchange import Exchange

HEADER = b"x-xirang-timing"


class Stopwatch:
    """Follows one request from its head to its answer."""

    __slots__ = ("_begun_ns", "_budget_ns", "_now_ns", "_submitted_ns")

    def __init__(self, begun_ns: int, budget_ns: int, now_ns: Callable[[], int]) -> None:
        """The request is decoded, and goes to the engine now.

        Args:
            begun_ns: When its head was there.
            budget_ns: That it is held to.
            now_ns: The engine's clock.
        """
        self._begun_ns = begun_ns
        self._budget_ns = budget_ns
        self._now_ns = now_ns
        self._submitted_ns = now_ns()

    def parameters(self, answer: Answer) -> dict[str, float]:
        """Response parameters; `send` is not among them, as they are a part of what is sent."""
        stages = self._stages(answer) | {"budget": _ms(self._budget_ns)}
        return {f"{name}_ms": value for name, value in stages.items()}

    def line(self, answer: Answer | None) -> bytes:
        """The header line.

        Args:
            answer: None where there is only an error: how far the request came is not known.
        """
        if answer is None:
            stages = {"receive": _ms(self._submitted_ns - self._begun_ns)}
        else:
            stages = self._stages(answer) | {"send": _ms(self._now_ns() - answer.ran.end_ns)}
        stages["budget"] = _ms(self._budget_ns)
        told = ", ".join(f"{name}={value:g}" for name, value in stages.items())
        return b"%b: %b\r\n" % (HEADER, told.encode())

    def _stages(self, answer: Answer) -> dict[str, float]:
        """Name to milliseconds, in the order in which they follow each other."""
        ran = answer.ran
        beside_ns = ran.assemble_ns + ran.split_ns
        return {
            "receive": _ms(self._submitted_ns - self._begun_ns),
            "queue": _ms(ran.start_ns - self._submitted_ns),
            "assemble": _ms(ran.assemble_ns),
            "run": _ms(ran.end_ns - ran.start_ns - beside_ns),
            "split": _ms(ran.split_ns),
        }


def is_asked(exchange: Exchange) -> bool:
    """Whether a request wants the header."""
    return exchange.headers.get(HEADER, b"0") not in (b"0", b"false")


def _ms(span_ns: int) -> float:
    return round(span_ns / 1e6, 3)
