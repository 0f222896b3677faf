"""Settings: defaults, then a TOML file, then the environment, then the command line.

One table of fields serves all of them: `http_port` is `http_port` in TOML, `XIRANG_HTTP_PORT` in
the environment and `--http-port` on the command line. A model's own settings stand in a TOML table
`[models.NAME]` with the fields of `ModelSettings`.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from xirang.errors import InvalidSetting

_T = TypeVar("_T")

GRPC_PORT = 8001
"""Where clients of the protocol look for gRPC."""


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class InputSettings:
    """What may be told about one input of a model, in `[models.NAME.inputs.INPUT]`.

    What is left out the probe finds by running.
    """

    batch_axis: int | None = _option(None, "axis that counts its rows; -1: all rows share it")
    lengths: tuple[int, ...] | None = _option(
        None, "its axis that follows length 0, then length 1, …; -1: none"
    )
    pad: float | None = _option(None, "what it is padded with")
    range: tuple[float, float] | None = _option(None, "lowest and highest value, as of ids")
    sizes: tuple[int, ...] = _option((), "by axis, a size at which the model runs; 0: unknown")
    mask: bool | None = _option(None, "whether it only says what is real and what is padding")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What may be set for every model at once, and for each alone in `[models.NAME]`."""

    budget_ms: float = _option(10_000.0, "latency budget of a request that brings none")
    batching: Literal["optimal", "first-come", "off"] = _option(
        "optimal", "how waiting requests become runs"
    )
    max_batch_size: int = _option(128, "most rows in a run")
    max_batch_elements: int = _option(
        0, "most padded elements (tokens) in a run; 0: where the probe saw runs stop paying"
    )
    window_ms: float = _option(5.0, "longest voluntary wait for company on an idle device")
    efficiency: float = _option(0.5, "0: never wait on an idle device; 1: as long as budgets allow")
    efficiency_high: float = _option(0.0, "the same for priority 1")
    efficiency_low: float = _option(-1.0, "the same for priority 3; -1: as efficiency")
    queue: int = _option(4096, "most requests that wait for a model; beyond it they get 429")
    queue_ms: float = _option(0.0, "most device time that waits for a model, predicted; 0: any")
    reject_early: bool = _option(
        default=True, text="turn away at once whose budget cannot be kept, by prediction"
    )
    fast_priority: int = _option(0, "priorities up to this take the fast lane; 0: none does")
    fast_budget_ms: float = _option(0.0, "so do requests with a shorter budget than this")
    fast_share: float = _option(0.5, "share of the device that the fast lane may take from others")
    fast_wait_ms: float = _option(
        0.0, "longest run that a fast request may have to wait for; 0: as short as is cheap"
    )
    degrade_to: str = _option("", "model that answers instead at the last level of overload")
    degrade_length: int = _option(0, "what is read of longer rows at that level; 0: all")
    optional_outputs: tuple[str, ...] = _option(
        (), "outputs left out under overload unless asked for by name, as hidden,attention"
    )
    cache: bool = _option(
        default=False, text="keep answers, and give them again to the same request without a run"
    )
    instances: int = _option(0, "runs of a model at once; 0: one a core (one where runs are tiny)")
    threads: int = _option(1, "threads inside one run")
    memory_native: bool = _option(
        default=True,
        text="plan a model's tensors; those of ONNX where our native allocator is built",
    )
    memory_guarantee_mib: int = _option(
        0, "memory of the pool that it always gets, in MiB; 0: what it holds and one run"
    )
    memory_limit_mib: int = _option(
        0, "memory of the pool that it never passes, weights included, in MiB; 0: any"
    )
    memory_keep_mib: int = _option(8, "what each of its instances keeps of it while idle, in MiB")
    memory_evict: bool = _option(
        default=False, text="it may be unloaded when others need what it has of the pool"
    )
    device: str = _option("auto", "where a model of PyTorch runs: auto, cpu, cuda or cuda:N")
    length_max: int = _option(0, "longest row a model takes; 0: what its tokenizer says, or any")
    learned: str = _option(
        "beside", "where what was learned about a model is kept: beside its file, a folder, or off"
    )
    allow_batching: Literal["verdict", "yes", "no"] = _option(
        "verdict", "whether rows share a run: as the probe found, or against it"
    )
    allow_padding: Literal["verdict", "yes", "no"] = _option(
        "verdict", "whether rows are padded: as the probe found, or against it"
    )
    lengths: tuple[int, ...] = _option(
        (), "lengths that requests are padded up to, as 16,64,256; none: any"
    )
    length_histogram: str = _option(
        "", "CSV file of length and count, from which such lengths are chosen"
    )
    length_sizes: int = _option(4, "how many lengths are chosen from the histogram")
    batch_sizes: tuple[int, ...] = _option(
        (), "rows that runs are filled up to, as 1,8,32; none: any"
    )
    crop: bool = _option(default=False, text="cut requests that are too long, do not refuse them")
    warmup_s: float = _option(5.0, "longest time at load to run all sizes once; 0: no warm-up")
    rewrite_batch: bool = _option(
        default=False, text="try to free the batch of an ONNX graph where it is baked to 1"
    )
    process: Literal["auto", "yes", "no"] = _option(
        "auto", "whether it runs in processes of its own, one an instance; auto: Python callables"
    )
    hang_s: float = _option(
        60.0, "after so long, and 20 times its prediction, a run is taken for hung"
    )
    worker_mib_max: int = _option(
        0, "a worker process that holds more is replaced between runs, in MiB; 0: any"
    )
    inputs: Mapping[str, InputSettings] = field(default_factory=dict)

    def check(self, *, name: str = "") -> "ModelSettings":
        """Refuse what cannot work.

        Raises:
            InvalidSetting: Which setting, and what was expected.
        """
        where = f"models.{name}." if name else ""
        for key, low in _AT_LEAST.items():
            if not low <= getattr(self, key) < inf:
                raise InvalidSetting(
                    f"{where}{key} is {getattr(self, key)}; expected at least {low}"
                )
        if not 0 < self.budget_ms < inf:
            raise InvalidSetting(f"{where}budget_ms is {self.budget_ms}; expected more than 0")
        for key in ("efficiency", "efficiency_high", "efficiency_low"):
            if getattr(self, key) > 1:
                raise InvalidSetting(f"{where}{key} is {getattr(self, key)}; expected 0…1")
        if not 0 < self.fast_share <= 1:
            raise InvalidSetting(f"{where}fast_share is {self.fast_share}; expected 0…1, not 0")
        self._check_sizes(where)
        if 0 < self.memory_limit_mib < self.memory_guarantee_mib:
            raise InvalidSetting(
                f"{where}memory_limit_mib is {self.memory_limit_mib}; expected no less than "
                f"memory_guarantee_mib, which is {self.memory_guarantee_mib}"
            )
        if not _DEVICE.fullmatch(self.device):
            raise InvalidSetting(
                f"{where}device is '{self.device}'; expected auto, cpu, cuda or cuda:N"
            )
        if self.window_ms >= self.budget_ms:
            raise InvalidSetting(
                f"{where}window_ms is {self.window_ms}, the budget is {self.budget_ms} ms; "
                "expected a window shorter than the budget"
            )
        return self

    def _check_sizes(self, where: str) -> None:
        for key in ("lengths", "batch_sizes"):
            sizes = getattr(self, key)
            if list(sizes) != sorted({size for size in sizes if size >= 1}):
                raise InvalidSetting(
                    f"{where}{key} is {list(sizes)}; expected sizes of at least 1, ascending"
                )


_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")

_AT_LEAST = {
    "max_batch_size": 1,
    "max_batch_elements": 0,
    "window_ms": 0,
    "efficiency": 0,
    "efficiency_high": 0,
    "efficiency_low": -1,
    "fast_priority": 0,
    "fast_budget_ms": 0,
    "fast_wait_ms": 0,
    "queue": 1,
    "queue_ms": 0,
    "instances": 0,
    "threads": 1,
    "length_max": 0,
    "length_sizes": 1,
    "warmup_s": 0,
    "degrade_length": 0,
    "hang_s": 0.001,
    "worker_mib_max": 0,
    "memory_guarantee_mib": 0,
    "memory_limit_mib": 0,
    "memory_keep_mib": 0,
}


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of a server.

    Attributes:
        model: What holds for every model.
        models: Name to settings of that model alone.
    """

    host: str = _option("127.0.0.1", "address to listen on")
    http_port: int = _option(8000, "port for HTTP; 0 takes a free one")
    grpc_port: int = _option(GRPC_PORT, "port for gRPC; 0 takes a free one, -1 none")
    admin_host: str = _option("127.0.0.1", "address of the port for operators")
    admin_port: int = _option(
        0, "port for operators alone, where the server is managed; 0: at the port for HTTP"
    )
    tls_certificate: str = _option("", "PEM file with the certificate chain; no TLS if empty")
    tls_key: str = _option("", "PEM file with its private key, not encrypted")
    keys: str = _option("", "TOML file of API keys that requests need; none if empty")
    body_mib_max: int = _option(64, "largest request body, in MiB")
    grpc_server: Literal["own", "grpcio"] = _option(
        "own", "what carries gRPC: our own HTTP/2, or grpcio's server"
    )
    grpc_message_mib_max: int = _option(64, "largest message over gRPC, in MiB")
    grpc_compression: Literal["none", "low", "medium", "high"] = _option(
        "none", "how hard answers over gRPC are packed, for clients that read gzip"
    )
    metrics_port: int = _option(0, "port for the metrics page alone; 0: none of its own")
    allow_shared_memory: bool = _option(
        default=False, text="clients on this machine may pass tensors in shared memory"
    )
    http_restricted_api: tuple[str, ...] = _option(
        (), "APIs that need a header, as health,metadata:HEADER=VALUE"
    )
    grpc_restricted_protocol: tuple[str, ...] = _option(
        (), "the same over gRPC; the metadata's name is triton-grpc-protocol-HEADER"
    )
    http_header_forward_pattern: str = _option(
        "", "regular expression of headers that models get as parameters; none if empty"
    )
    grpc_header_forward_pattern: str = _option("", "the same of metadata over gRPC")
    memory_mib_max: int = _option(
        1024, "all request bodies that are unfinished or unanswered, in MiB; beyond it 503"
    )
    cache_mib: int = _option(64, "answers that are kept of models with cache = true, in MiB")
    memory_pool_mib: int = _option(
        0, "memory that models share, weights included, in MiB; 0: most of what there is; -1: any"
    )
    memory_device_mib: int = _option(
        0, "the same of each CUDA device, in MiB; 0: most of what it has"
    )
    overload_levels: tuple[float, float, float] = _option(
        (0.8, 0.95, 1.1), "predicted queueing time ÷ budget at which overload levels 1, 2, 3 begin"
    )
    overload_depths: tuple[int, ...] = _option(
        (), "waiting requests at which they begin instead, three numbers"
    )
    connections_max: int = _option(4096, "most connections at once; beyond it 503")
    client_timeout_s: float = _option(
        30.0, "longest time a client may take to finish a request, or to go on reading"
    )
    grace_s: float = _option(
        0.0, "time between no longer ready and no longer serving, at SIGTERM; again to cut it short"
    )
    exit_timeout_s: float = _option(30.0, "longest time to finish what is in, after that")
    log_level: Literal["debug", "info", "warning", "error"] = _option("info", "how much to log")
    log_format: Literal["text", "json"] = _option("text", "form of a line of the log")
    log_requests: float = _option(
        0.0, "share of the requests that get a line in the log, 0…1; never of what is in them"
    )
    otlp_endpoint: str = _option(
        "", "URL of an OpenTelemetry collector that gets traces; none if empty"
    )
    otlp_headers: tuple[str, ...] = _option(
        (), "headers that it needs, as NAME=VALUE,more; best in the environment"
    )
    trace_ratio: float = _option(
        0.0, "share of the requests that are traced, 0…1, where their callers do not decide"
    )
    record: str = _option(
        "", "file that gets what the scheduler is told and decides; none if empty"
    )
    record_mib: int = _option(64, "size of that file, in MiB; the oldest is overwritten")
    model_repository: tuple[str, ...] = _option(
        (), "folders of models in Triton's layout, as models,more"
    )
    model_control_mode: Literal["none", "poll", "explicit"] = _option(
        "none", "all their models are loaded once; or changes are taken up; or clients load them"
    )
    load_model: tuple[str, ...] = _option(
        (), "models to load at the start where clients load them; *: all"
    )
    repository_poll_s: float = _option(15.0, "time between two looks for changes")
    strict_readiness: bool = _option(
        default=True, text="not ready while one of their models cannot be served"
    )
    auto_complete_config: bool = _option(
        default=True, text="a config.pbtxt may leave out what the model itself says"
    )
    model: ModelSettings = ModelSettings()
    models: Mapping[str, ModelSettings] = field(default_factory=dict)

    def check(self) -> "Config":
        """Refuse what cannot work.

        Raises:
            InvalidSetting: Which setting, and what was expected.
        """
        for key, (low, high) in _WITHIN.items():
            if not low <= getattr(self, key) <= high:
                raise InvalidSetting(f"{key} is {getattr(self, key)}; expected {low}…{high}")
        for key in ("client_timeout_s", "exit_timeout_s", "repository_poll_s"):
            if not 0 < getattr(self, key) < inf:
                raise InvalidSetting(f"{key} is {getattr(self, key)}; expected more than 0")
        for key in ("log_requests", "trace_ratio"):
            if not 0 <= getattr(self, key) <= 1:
                raise InvalidSetting(f"{key} is {getattr(self, key)}; expected 0…1")
        if self.load_model and self.model_control_mode != "explicit":
            raise InvalidSetting("load_model is given; expected model_control_mode explicit")
        if not 0 < self.overload_levels[0] <= self.overload_levels[1] <= self.overload_levels[2]:
            raise InvalidSetting(
                f"overload_levels is {list(self.overload_levels)}; expected three numbers above 0, "
                "ascending"
            )
        depths = (0, *self.overload_depths)
        if len(depths) not in (1, 4) or list(depths) != sorted(set(depths)):
            raise InvalidSetting(
                f"overload_depths is {list(self.overload_depths)}; expected none or three numbers "
                "above 0, ascending"
            )
        self._check_doors()
        return self

    def _check_doors(self) -> None:
        if not 0 <= self.grace_s < inf:
            raise InvalidSetting(f"grace_s is {self.grace_s}; expected at least 0")
        if self.memory_mib_max < self.body_mib_max:
            raise InvalidSetting(
                f"memory_mib_max is {self.memory_mib_max}, body_mib_max is {self.body_mib_max}; "
                "expected room for at least one body"
            )
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise InvalidSetting("expected tls_certificate and tls_key, or none of them")

    def settings_of(self, name: str) -> ModelSettings:
        """The settings of one model."""
        return self.models.get(name, self.model)


_WITHIN = {
    "http_port": (0, 65_535),
    "grpc_port": (-1, 65_535),
    "admin_port": (0, 65_535),
    "metrics_port": (0, 65_535),
    "body_mib_max": (1, 4096),
    "grpc_message_mib_max": (1, 2047),
    "memory_mib_max": (1, 1 << 20),
    "cache_mib": (0, 1 << 20),
    "memory_pool_mib": (-1, 1 << 30),
    "memory_device_mib": (0, 1 << 30),
    "connections_max": (1, 1_000_000),
    "record_mib": (1, 65_536),
}


def load_config(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Config:
    """Read all sources, the later ones over the earlier.

    Args:
        file: A TOML file.
        environment: Variables; the process's own by default.
        options: Field name to value, as the command line gave them.

    Raises:
        InvalidSetting: An unknown name, a wrong type or an impossible value, and where it stands.
    """
    table = _read(file) if file is not None else {}
    own_tables = table.pop("models", {})
    variables = os.environ if environment is None else environment
    table |= {
        option.name: variables[f"XIRANG_{option.name.upper()}"]
        for option in options_of()
        if f"XIRANG_{option.name.upper()}" in variables
    }
    table |= options or {}
    names = {f.name for f in fields(ModelSettings)}
    server = {k: v for k, v in table.items() if k not in names}
    config = _convert(server, Config, "settings")
    if config.memory_pool_mib < 0:
        table.setdefault("memory_native", False)  # without a pool nothing would count its arenas
    common = _convert({k: v for k, v in table.items() if k in names}, ModelSettings, "settings")
    if not isinstance(own_tables, dict):
        raise InvalidSetting(f"models is {own_tables!r}; expected tables [models.NAME]")
    models = {}
    for name, own in own_tables.items():
        if not isinstance(own, dict):
            raise InvalidSetting(f"models.{name} is {own!r}; expected a table of settings")
        models[name] = model_settings(own, common, f"models.{name}")
        models[name].check(name=name)
    return replace(config.check(), model=common.check(), models=models)


def scheduler_hold(environment: Mapping[str, str] | None = None) -> int:
    """Triton's hook for tests: batchers hold everything back until so many requests wait, once.

    Raises:
        InvalidSetting: `TRITONSERVER_DELAY_SCHEDULER` is no whole number.
    """
    variables = os.environ if environment is None else environment
    text = variables.get("TRITONSERVER_DELAY_SCHEDULER", "") or "0"
    if not text.isdecimal():
        raise InvalidSetting(
            f"TRITONSERVER_DELAY_SCHEDULER is '{text}'; expected a number of requests"
        )
    return int(text)


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where this user keeps what can be made again."""
    told = (os.environ if environment is None else environment).get("XDG_CACHE_HOME", "")
    # The standard says that a relative path is to be ignored.
    home = Path(told) if Path(told).is_absolute() else Path("~/.cache").expanduser()
    return home / "xirang"


def model_settings(own: dict[str, Any], common: ModelSettings, where: str) -> ModelSettings:
    """One model's settings: its own over those of all."""
    table = asdict(common) | own
    told = table.pop("inputs")
    if not isinstance(told, dict) or not all(isinstance(each, dict) for each in told.values()):
        raise InvalidSetting(f"{where}.inputs is {told!r}; expected tables [{where}.inputs.NAME]")
    inputs = {n: _convert(each, InputSettings, f"{where}.inputs.{n}") for n, each in told.items()}
    return replace(_convert(table, ModelSettings, where), inputs=inputs)


@dataclass(frozen=True, slots=True)
class Option:
    """One setting as the command line shows it."""

    name: str
    default: Any
    help: str


def options_of() -> list[Option]:
    """Every setting that the command line and the environment take."""
    return [
        Option(f.name, f.default, f.metadata["help"])
        for kind in (Config, ModelSettings)
        for f in fields(kind)
        if "help" in f.metadata
    ]


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidSetting(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} is not TOML: {error}") from error


def _convert(table: Mapping[str, Any], kind: type[_T], where: str) -> _T:
    known = {f.name for f in fields(kind) if "help" in f.metadata}  # type: ignore[arg-type]
    unknown = sorted(set(table) - known)
    if unknown:
        raise InvalidSetting(f"{where}: unknown {unknown}; known are {sorted(known)}")
    lists = {f.name for f in fields(kind) if isinstance(f.default, tuple)}  # type: ignore[arg-type]
    table = {k: _listed(value) if k in lists else value for k, value in table.items()}
    try:
        return msgspec.convert(table, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{where}: {error}") from error


def _listed(value: Any) -> Any:
    """A list as the command line and the environment write it: 16,64,256."""
    return [part.strip() for part in value.split(",") if part] if isinstance(value, str) else value
