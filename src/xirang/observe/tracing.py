"""Makes spans of what was seen, and sends them to a collector, all on a thread of their own."""

import http.client
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from os import getpid
from random import Random
from socket import gethostname
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from xirang.core.event import RunEnded
from xirang.errors import InvalidSetting
from xirang.observe.otlp import Span, Value, export_request
from xirang.observe.outlet import Tally
from xirang.observe.spans import span_of_request, span_of_run
from xirang.observe.trace_context import first
from xirang.observe.witness import Membership, Sighting

SETTLED_NS = 20_000_000
"""After so long everybody who shared a run has been answered: the loop does that in one go."""

TIMEOUT_S = 10.0
TRACES_PATH = "/v1/traces"

log = logging.getLogger(__name__)

Seen = Sighting | Membership


class Collector(Protocol):
    """Where spans go."""

    def send(self, body: bytes) -> None:
        """Hand over a request.

        Raises:
            OSError: Nobody took it.
        """

    def close(self) -> None:
        """Nothing more comes."""


class Times(NamedTuple):
    """The clocks of a server.

    Attributes:
        now_ns: The engine's.
        epoch_ns: What to add to it for nanoseconds since 1970.
    """

    now_ns: Callable[[], int]
    epoch_ns: Callable[[], int]


class Tracing:
    """The end of an outlet: takes what was seen, and sends what it was."""

    def __init__(
        self,
        collector: Collector,
        tally: Tally,
        *,
        resource: Mapping[str, Value],
        random: Random,
        times: Times,
        on_traced: Callable[[RunEnded, int, str], None],
    ) -> None:
        """Take nothing yet.

        Args:
            collector: Takes the spans.
            tally: Where they are counted.
            resource: Who we are.
            random: Where names of spans come from.
            times: The clocks.
            on_traced: Gets each traced request's run, its number in it, and the trace.
        """
        self._collector = collector
        self._tally = tally
        self._resource = resource
        self._scope = ("xirang", version("xirang"))
        self._random = random
        self._now_ns, self._epoch_ns = times
        self._on_traced = on_traced
        self._held: list[Seen] = []
        self._is_lost = False

    def __call__(self, items: Sequence[Seen]) -> None:
        """Take what was seen since the last call; nothing at all is the end."""
        settled_ns = self._now_ns() - SETTLED_NS if items else self._now_ns()
        every = [*self._held, *items]
        ripe = [each for each in every if _end_ns(each) <= settled_ns]
        self._held = [each for each in every if _end_ns(each) > settled_ns]
        if ripe:
            self._send(self._spans(ripe))
        if not items:
            self._collector.close()

    def _spans(self, seen: Sequence[Seen]) -> list[Span]:
        epoch_ns = self._epoch_ns()
        runs: dict[int, list[Membership]] = {}
        for each in seen:
            if isinstance(each, Membership):
                runs.setdefault(each.event.run.id, []).append(each)
        spans = [self._span_of_run(members, epoch_ns) for members in runs.values()]
        requests = [each for each in seen if isinstance(each, Sighting)]
        return spans + [span_of_request(each, epoch_ns=epoch_ns) for each in requests]

    def _span_of_run(self, members: Sequence[Membership], epoch_ns: int) -> Span:
        context = first(self._random)
        links = []
        for sighting, event, request_id in members:
            assert sighting.context is not None
            links.append(sighting.context)
            sighting.links.append(context)
            self._on_traced(event, request_id, sighting.context.trace_id.hex())
        return span_of_run(members[0].event, context, links, epoch_ns=epoch_ns)

    def _send(self, spans: Sequence[Span]) -> None:
        body = export_request(spans, resource=self._resource, scope=self._scope)
        try:
            self._collector.send(body)
        except OSError as error:
            self._tally.failed += len(spans)
            if not self._is_lost:
                log.warning("spans are lost until the collector takes them again: %s", error)
            self._is_lost = True
        else:
            self._tally.sent += len(spans)
            self._is_lost = False


def _end_ns(seen: Seen) -> int:
    return seen.end_ns if isinstance(seen, Sighting) else seen.event.end_ns


def resource_of() -> dict[str, Value]:
    """Who we are."""
    host, process = gethostname(), getpid()
    return {
        "service.name": "xirang",
        "service.version": version("xirang"),
        "service.instance.id": f"{host}:{process}",
        "host.name": host,
        "process.pid": process,
    }


class HttpCollector:
    """One that speaks OTLP over HTTP."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        """Connect to nobody yet.

        Args:
            endpoint: URL; with no path in it that of traces is taken.
            headers: To send along, as a key.

        Raises:
            InvalidSetting: That is no such URL.
        """
        parts = urlsplit(endpoint)
        try:
            is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one or parts.hostname is None:
            raise InvalidSetting(f"otlp_endpoint is {endpoint!r}; expected http://host:port")
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self._path = parts.path.rstrip("/") or TRACES_PATH
        self._headers = {"content-type": "application/x-protobuf", **headers}

    def send(self, body: bytes) -> None:
        """Post a request; a connection that was closed meanwhile is opened again.

        Raises:
            OSError: The collector cannot be reached, or refuses it.
        """
        try:
            status = self._post(body)
        except ConnectionError:
            status = self._post(body)
        if status >= 300:
            raise ConnectionError(f"the collector answers {status}")

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _post(self, body: bytes) -> int:
        """The status of the answer; after an error the connection is closed."""
        try:
            self._connection.request("POST", self._path, body, self._headers)
            with self._connection.getresponse() as response:
                response.read()
                return response.status
        except http.client.HTTPException as error:
            self._connection.close()
            raise ConnectionError(repr(error)) from error
        except OSError:
            self._connection.close()
            raise
