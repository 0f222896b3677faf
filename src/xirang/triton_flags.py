"""Triton's spellings of options for `xirang serve`: what each means here, or that it means nothing.

A command line that starts Triton starts xirang. What has no meaning here is said once, in a line; a
flag that neither knows is refused with the nearest one, because a typing error must not pass for
an option without effect.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from xirang.config import Config, options_of
from xirang.errors import InvalidSetting
from xirang.observe.dials import LOG_FORMATS

Given = dict[str, str]
"""Options of ours, as the command line would give them."""

_NO_GPU = "no memory of GPUs is managed here"
_THREADS = "one event loop serves all connections"
_SAME_ADDRESS = "every port listens at --http-address"
_OWN_METRICS = "what is measured is not configurable"

WITHOUT_EFFECT = {
    "allow-cpu-metrics": _OWN_METRICS,
    "allow-gpu-metrics": _OWN_METRICS,
    "allow-sagemaker": "there is no such endpoint",
    "allow-vertex-ai": "there is no such endpoint",
    "backend-config": "a model's config.pbtxt, or [models.NAME] in TOML, says how it is run",
    "backend-directory": "backends are Python packages",
    "buffer-manager-thread-count": _THREADS,
    "cache-directory": "the cache is built in",
    "cuda-memory-pool-byte-size": _NO_GPU,
    "cuda-virtual-address-size": _NO_GPU,
    "enable-peer-access": _NO_GPU,
    "exit-on-error": "a model that cannot be loaded takes nobody along",
    "grpc-address": _SAME_ADDRESS,
    "grpc-infer-allocation-pool-size": _THREADS,
    "grpc-infer-thread-count": _THREADS,
    "grpc-keepalive-time": "pings have fixed times",
    "grpc-keepalive-timeout": "pings have fixed times",
    "grpc-keepalive-permit-without-calls": "pings have fixed times",
    "grpc-http2-max-pings-without-data": "pings have fixed times",
    "grpc-http2-min-recv-ping-interval-without-data": "pings have fixed times",
    "grpc-http2-max-ping-strikes": "pings have fixed times",
    "grpc-max-connection-age": "connections live as long as their clients wish",
    "grpc-max-connection-age-grace": "connections live as long as their clients wish",
    "grpc-root-cert": "clients show API keys, not certificates",
    "grpc-use-ssl": "gRPC speaks TLS when there is a certificate",
    "grpc-use-ssl-mutual": "clients show API keys, not certificates",
    "host-policy": "instances are threads of one process",
    "http-thread-count": _THREADS,
    "id": "clients are told that this is xirang",
    "log-error": "errors are always logged",
    "log-file": "the log goes to standard error",
    "metrics-address": _SAME_ADDRESS,
    "metrics-config": _OWN_METRICS,
    "metrics-interval-ms": "metrics are read when they are asked for",
    "min-supported-compute-capability": _NO_GPU,
    "model-config-name": "there is one config.pbtxt for each model",
    "model-load-gpu-limit": _NO_GPU,
    "model-load-retry-count": "a load that fails is not tried again",
    "model-load-thread-count": "one model is loaded at a time, so that measurements are true",
    "model-namespacing": "a name that is in two repositories is served from none",
    "pinned-memory-pool-byte-size": _NO_GPU,
    "rate-limit": "the scheduler knows how long runs take",
    "rate-limit-resource": "the scheduler knows how long runs take",
    "repoagent-directory": "there are no agents",
    "reuse-grpc-port": "two servers on a port would share its calls unnoticed",
    "reuse-http-port": "two servers on a port would share its requests unnoticed",
}
"""Flag to the reason why it changes nothing."""

_SAME = {
    "allow-client-shm": "allow_shared_memory",
    "exit-timeout-secs": "exit_timeout_s",
    "grpc-infer-response-compression-level": "grpc_compression",
    "grpc-server-cert": "tls_certificate",
    "grpc-server-key": "tls_key",
    "http-address": "host",
    "model-store": "model_repository",
    "repository-poll-secs": "repository_poll_s",
}
"""Flag to the setting of ours that it is."""

_Meaning = Callable[[str], Given]


def translated(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments of `serve` in our own spelling, and what is to be said of those without effect.

    Raises:
        InvalidSetting: A flag is unknown, or a value makes no sense.
    """
    found: list[str] = []
    notes: list[str] = []
    given: Given = {}
    lists = {o.name for o in options_of() if isinstance(o.default, tuple)}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--") or argument in _OURS:
            found.append(argument)
            if argument == "--config":
                found.append(_value("config", rest))
            continue
        flag, equals, value = argument.removeprefix("--").partition("=")
        meaning = _meaning_of(flag)
        if not equals and flag not in _FLAGS_ALONE:
            value = _value(flag, rest)
        for name, text in meaning(value).items():
            many = name in lists and name in given
            given[name] = f"{given[name]},{text}" if many else text
        if (reason := WITHOUT_EFFECT.get(flag)) is not None:
            notes.append(f"--{flag} is without effect: {reason}")
        elif (note := _note_of(flag, value)) is not None:
            notes.append(note)
    return [*found, *(f"--{k.replace('_', '-')}={v}" for k, v in given.items())], notes


_OURS = frozenset({"--help", "--config"})
_FLAGS_ALONE = frozenset({"disable-auto-complete-config"})


def _value(flag: str, rest: Iterator[str]) -> str:
    """The value that stands behind a flag."""
    value = next(rest, None)
    if value is None:
        raise InvalidSetting(f"expected a value behind --{flag}")
    return value


def _meaning_of(flag: str) -> _Meaning:
    name = flag.replace("-", "_")
    if flag in WITHOUT_EFFECT:
        return lambda _: {}
    if flag in _SAME:
        return lambda value: {_SAME[flag]: value}
    if flag in _MEANINGS:
        return _MEANINGS[flag]
    own = {option.name.replace("_", "-") for option in options_of()}
    if flag in own or flag == "config":
        return lambda value: {name: value}
    known = sorted({*own, *WITHOUT_EFFECT, *_SAME, *_MEANINGS, "config", "help"})
    near = get_close_matches(flag, known, n=1, cutoff=0.5)
    hint = f"; the nearest is --{near[0]}" if near else ""
    raise InvalidSetting(f"unknown option --{flag}{hint}")


def _note_of(flag: str, value: str) -> str | None:
    """What is to be said of a flag that means something, but not all that was asked."""
    if flag == "allow-http" and not _is_true(flag, value):
        return "--allow-http is without effect: the port for HTTP is always open"
    if flag == "allow-metrics" and not _is_true(flag, value):
        return "--allow-metrics is without effect: /metrics stays at the port for HTTP"
    if flag == "cache-config" and not _cache(value):
        return f"--cache-config {value} is without effect: only its size is known here"
    if flag == "trace-config" and not _trace(value):
        return f"--trace-config {value} is without effect: only rate and url are known here"
    return None


def _is_true(flag: str, value: str) -> bool:
    if value.lower() in ("true", "1", "on"):
        return True
    if value.lower() in ("false", "0", "off"):
        return False
    raise InvalidSetting(f"--{flag} is '{value}'; expected true or false")


def _whole(flag: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise InvalidSetting(f"--{flag} is '{value}'; expected a number")
    return int(value)


def _mib(flag: str, value: str) -> str:
    """A number of bytes in MiB, no less."""
    return str(max(1, -(-_whole(flag, value) // (1 << 20))))


def _cache(value: str) -> Given:
    _, _, setting = value.rpartition(",")
    name, _, size = setting.partition("=")
    return {"cache_mib": _mib("cache-config", size)} if name == "size" else {}


def _trace(value: str) -> Given:
    _, _, setting = value.rpartition(",")
    name, _, text = setting.partition("=")
    if name == "url":
        return {"otlp_endpoint": text}
    if name == "rate":
        rate = _whole("trace-config rate", text)
        return {"trace_ratio": f"{1 / rate:g}" if rate else "0"}
    return {}


def _form(value: str) -> Given:
    """Triton's forms are about the time alone, which always stands in ISO 8601 here."""
    return {} if value in LOG_FORMATS else {"log_format": value}


def _body(value: str) -> Given:
    size = _mib("http-max-input-size", value)
    # All bodies together must have room for one.
    return {"body_mib_max": size, "memory_mib_max": str(max(int(size), Config().memory_mib_max))}


def _quieter(flag: str, level: str) -> _Meaning:
    """Turning off a level leaves those above it."""
    return lambda value: {} if _is_true(flag, value) else {"log_level": level}


_MEANINGS: dict[str, _Meaning] = {
    "allow-grpc": lambda v: {} if _is_true("allow-grpc", v) else {"grpc_port": "-1"},
    "allow-http": lambda _: {},
    "allow-metrics": lambda v: {} if _is_true("allow-metrics", v) else {"metrics_port": "0"},
    "cache-config": _cache,
    "disable-auto-complete-config": lambda _: {"auto_complete_config": "false"},
    "http-max-input-size": _body,
    "log-format": _form,
    "log-info": _quieter("log-info", "warning"),
    "log-verbose": lambda v: {"log_level": "debug"} if _whole("log-verbose", v) else {},
    "log-warning": _quieter("log-warning", "error"),
    "response-cache-byte-size": lambda v: {"cache_mib": _mib("response-cache-byte-size", v)},
    "strict-model-config": lambda v: {
        "auto_complete_config": str(not _is_true("strict-model-config", v)).lower()
    },
    "trace-config": _trace,
}
