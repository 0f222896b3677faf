"""APIs for which a client must bring a header: each kind may be closed to those who know no key.

A rule is written as Triton writes it, `health,metadata:name=value`: these APIs need a header of
that name and value. It is a shared secret for a proxy or a sidecar; for people there are API keys.
"""

import hmac
import re
from collections.abc import Callable, Mapping, Sequence

from xirang.errors import InvalidSetting, XirangError
from xirang.frontends.errors import refusal_of
from xirang.frontends.exchange import Exchange, Match, Route, welcome_of

GRPC_PREFIX = "triton-grpc-protocol-"
"""Before the header's name over gRPC."""

_PATHS = (
    ("statistics", r"/v2/models/stats|/v2/models/MODEL/stats|/v2/xirang/(costs|memory)"),
    ("health", r"/v2/health/(live|ready)|/v2/models/MODEL/ready|/ping|(/tei/[^/]+)?/health"),
    ("metadata", r"/v2/?|/v2/models/MODEL|/v1/models(/.+)?|(/tei/[^/]+)?/info"),
    ("inference", r"/v2/models/MODEL/(infer|generate|generate_stream)|/v1/embeddings"),
    ("model-config", r"/v2/models/MODEL/config"),
    ("trace", r"(/v2/models/MODEL|/v2)/trace/setting"),
    ("logging", r"/v2/logging"),
    ("model-repository", r"/v2/repository/.*"),
    ("shared-memory", r"/v2/(system|cuda)sharedmemory/.*"),
)
_KINDS = tuple(
    (api, re.compile(pattern.replace("MODEL", r"[^/]+(/versions/[0-9]+)?")))
    for api, pattern in _PATHS
)

APIS = frozenset(api for api, _ in _PATHS)
"""What may be restricted."""

_RPCS = {
    "ServerLive": "health",
    "ServerReady": "health",
    "ModelReady": "health",
    "HealthCheck": "health",
    "ServerMetadata": "metadata",
    "ModelMetadata": "metadata",
    "ModelInfer": "inference",
    "ModelStreamInfer": "inference",
    "ModelConfig": "model-config",
    "ModelStatistics": "statistics",
    "TraceSetting": "trace",
    "LogSettings": "logging",
}

Check = Callable[[Mapping[bytes, bytes]], None]
"""Raises `Restricted` unless the headers are those of somebody who may."""


class Restricted(XirangError):
    """The API is closed to whoever does not bring a certain header."""

    status = 403


def api_of_path(path: str) -> str:
    """The kind of API that an HTTP path belongs to; empty for none."""
    return next((api for api, pattern in _KINDS if pattern.fullmatch(path)), "")


def api_of_rpc(name: str) -> str:
    """The kind of API that a procedure belongs to; empty for none."""
    if name in _RPCS:
        return _RPCS[name]
    if name.startswith("Repository"):
        return "model-repository"
    return "shared-memory" if "SharedMemory" in name else ""


def restrictions(rules: Sequence[str], setting: str, *, is_grpc: bool = False) -> dict[str, Check]:
    """API to the check that its requests must pass.

    Args:
        rules: In Triton's form; commas between the APIs of a rule may also have cut it in pieces.
        setting: Name of the setting, for what is said of a wrong one.
        is_grpc: Whether headers are gRPC's metadata.

    Raises:
        InvalidSetting: A rule is wrong, and which.
    """
    found: dict[str, Check] = {}
    waiting: list[str] = []
    for rule in rules:
        apis, colon, header = rule.partition(":")
        waiting += [api.strip() for api in apis.split(",")]
        if not colon:
            continue
        name, equals, value = header.partition("=")
        if not (name and equals and value):
            raise InvalidSetting(f"{setting} has '{rule}'; expected API:HEADER=VALUE")
        for api in waiting:
            if api not in APIS:
                raise InvalidSetting(f"{setting} names '{api}'; expected one of {sorted(APIS)}")
            if api in found:
                raise InvalidSetting(f"{setting} restricts '{api}' twice; expected it once")
            found[api] = _check(GRPC_PREFIX + name if is_grpc else name, value, is_grpc=is_grpc)
        waiting = []
    if waiting:
        raise InvalidSetting(f"{setting} has '{','.join(waiting)}'; expected API:HEADER=VALUE")
    return found


def guarded(match: Match, check: Check | None) -> Match:
    """The same routes, but a header is asked for first if inference is restricted."""
    if check is None:
        return match

    def find(url: bytes) -> Route | None:
        route = match(url)
        return None if route is None else _Guarded(route, check)

    return find


class _Guarded:
    """A route that is closed to whoever does not pass a check, from the head of a request on."""

    __slots__ = ("_check", "_route", "refusal")

    def __init__(self, route: Route, check: Check) -> None:
        self._route = route
        self._check = check
        self.refusal = refusal_of(route)

    def __call__(self, exchange: Exchange) -> None:
        self._check(exchange.headers)
        self._route(exchange)

    def welcome(self, exchange: Exchange) -> None:
        self._check(exchange.headers)
        welcome_of(self._route)(exchange)


def _check(name: str, value: str, *, is_grpc: bool) -> Check:
    key, expected = name.lower().encode(), value.encode()
    what = "protocol" if is_grpc else "API"

    def check(headers: Mapping[bytes, bytes]) -> None:
        if not hmac.compare_digest(headers.get(key, b""), expected):
            raise Restricted(f"This {what} is restricted, expecting header '{name}'")

    return check
