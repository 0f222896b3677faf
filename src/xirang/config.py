"""Settings: defaults, then a TOML file, then the environment, then the command line.

One table of fields serves all of them: `http_port` is `http_port` in TOML, `XIRANG_HTTP_PORT` in
the environment and `--http-port` on the command line. A model's own settings stand in a TOML table
`[models.NAME]` with the fields of `ModelSettings`.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from xirang.errors import InvalidSetting

_T = TypeVar("_T")


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


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
    queue: int = _option(4096, "most requests that wait for a model; beyond it they get 429")
    instances: int = _option(0, "runs of a model at once; 0: one a core (one where runs are tiny)")
    threads: int = _option(1, "threads inside one run")
    length_max: int = _option(0, "longest row a model takes; 0: what its tokenizer says, or any")

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
        if self.efficiency > 1:
            raise InvalidSetting(f"{where}efficiency is {self.efficiency}; expected 0…1")
        if self.window_ms >= self.budget_ms:
            raise InvalidSetting(
                f"{where}window_ms is {self.window_ms}, the budget is {self.budget_ms} ms; "
                "expected a window shorter than the budget"
            )
        return self


_AT_LEAST = {
    "max_batch_size": 1,
    "max_batch_elements": 0,
    "window_ms": 0,
    "efficiency": 0,
    "queue": 1,
    "instances": 0,
    "threads": 1,
    "length_max": 0,
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
    body_mib_max: int = _option(64, "largest request body, in MiB")
    exit_timeout_s: float = _option(30.0, "longest time to finish what is in at SIGTERM")
    log_level: Literal["debug", "info", "warning", "error"] = _option("info", "how much to log")
    model: ModelSettings = ModelSettings()
    models: Mapping[str, ModelSettings] = field(default_factory=dict)

    def check(self) -> "Config":
        """Refuse what cannot work.

        Raises:
            InvalidSetting: Which setting, and what was expected.
        """
        if not 0 <= self.http_port <= 65535:
            raise InvalidSetting(f"http_port is {self.http_port}; expected 0…65535")
        if self.body_mib_max < 1:
            raise InvalidSetting(f"body_mib_max is {self.body_mib_max}; expected at least 1")
        if not 0 < self.exit_timeout_s < inf:
            raise InvalidSetting(f"exit_timeout_s is {self.exit_timeout_s}; expected more than 0")
        return self

    def settings_of(self, name: str) -> ModelSettings:
        """The settings of one model."""
        return self.models.get(name, self.model)


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
    common = _convert({k: v for k, v in table.items() if k in names}, ModelSettings, "settings")
    server = {k: v for k, v in table.items() if k not in names}
    config = _convert(server, Config, "settings")
    if not isinstance(own_tables, dict):
        raise InvalidSetting(f"models is {own_tables!r}; expected tables [models.NAME]")
    models = {}
    for name, own in own_tables.items():
        if not isinstance(own, dict):
            raise InvalidSetting(f"models.{name} is {own!r}; expected a table of settings")
        models[name] = _convert(asdict(common) | own, ModelSettings, f"models.{name}")
        models[name].check(name=name)
    return replace(config.check(), model=common.check(), models=models)


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
    try:
        return msgspec.convert(table, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{where}: {error}") from error
