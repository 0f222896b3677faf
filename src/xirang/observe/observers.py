"""Sets up what the settings ask for: who is followed, and where what was seen of them goes."""

from collections.abc import Callable
from random import Random

from xirang.config import Config
from xirang.core.event import Function
from xirang.errors import InvalidSetting
from xirang.observe.dials import Dials
from xirang.observe.logs import Fields
from xirang.observe.outlet import Outlet
from xirang.observe.sampling import Sampler
from xirang.observe.statistics import Statistics
from xirang.observe.tracing import HttpCollector, Seen, Times, Tracing, resource_of
from xirang.observe.witness import Sighting, Witness

SPANS_EVERY_S = 1.0


class Observers:
    """The witness of a server, and the outlet of its spans.

    Attributes:
        witness: Sees the requests that are followed; None if nobody wants to know of any.
    """

    def __init__(
        self,
        config: Config,
        statistics: Statistics,
        *,
        log: "Outlet[Sighting | Fields] | None",
        times: Times,
        is_off: Callable[[Function], bool],
    ) -> None:
        """Set up.

        Args:
            config: Says who is followed.
            statistics: Count it, and get the traces that stand for what they count.
            log: Takes the lines.
            times: The clocks.
            is_off: Whether overload has a function switched off.

        Raises:
            InvalidSetting: The address of the collector is none.
        """
        random = Random()
        self.witness: Witness | None = None
        self._spans: Outlet[Seen] | None = None
        self._ratio = config.trace_ratio
        if config.otlp_endpoint:
            tracing = Tracing(
                HttpCollector(config.otlp_endpoint, headers_of(config.otlp_headers)),
                statistics.spans,
                resource=resource_of(),
                random=Random(),
                times=times,
                on_traced=statistics.note_trace,
            )
            self._spans = Outlet(tracing, statistics.spans, name="spans", interval_s=SPANS_EVERY_S)
        wants_lines = log is not None and config.log_requests > 0
        if self._spans is None and not wants_lines:
            return
        self.witness = Witness(
            Sampler(config.trace_ratio, random=random),
            Sampler(config.log_requests, random=random),
            now_ns=times.now_ns,
            random=random,
            is_off=is_off,
        )
        self.witness.leave_at(spans=self._spans, log=log if wants_lines else None)

    def obey(self, dials: Dials) -> None:
        """Let the settings of tracing be turned while the server runs.

        Args:
            dials: Set to what the settings said; from then on they say it.
        """
        witness = self.witness
        if witness is None or not witness.can_trace():
            return
        rate = round(1 / self._ratio) if self._ratio else 0
        dials.turn_tracing({"trace_level": ["TIMESTAMPS"], "trace_rate": str(rate)})

        def turned() -> None:
            tracing = dials.tracing()
            witness.turn(
                ratio=1 / tracing.trace_rate if tracing.trace_rate else 0.0,
                is_on=tracing.trace_level != ("OFF",),
                count=tracing.trace_count,
            )

        dials.on_turned.append(turned)
        witness.is_muted = lambda model: dials.tracing(model).trace_level == ("OFF",)

    def close(self) -> None:
        """Send what was seen."""
        if self._spans is not None:
            self._spans.close()


def headers_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Headers as a setting has them, NAME=VALUE each.

    Raises:
        InvalidSetting: One is not of that form.
    """
    headers: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            # It may hold a key, so it is not repeated.
            raise InvalidSetting("otlp_headers has an entry without a name; expected NAME=VALUE")
        headers[name.strip()] = value.strip()
    return headers
