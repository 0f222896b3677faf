"""What operators turn while the server runs: how much is traced and how much is logged.

The settings are Triton's, under its names. Of the log they take effect at once; whoever traces asks
`Dials.tracing` for the settings of a model, and is called when they change.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xirang.errors import InvalidRequest

COUNT_MAX = 2**31 - 1
LEVELS = ("OFF", "TIMESTAMPS", "TENSORS")
LOG_FORMATS = ("default", "ISO8601")
"""Kept only: the log tells the time in ISO 8601 always."""


class FixedSetting(InvalidRequest):
    """A setting that nobody changes over the network."""

    status = 501


@dataclass(frozen=True, slots=True)
class Tracing:
    """How requests are traced.

    Attributes:
        trace_level: What of them: OFF, or TIMESTAMPS and TENSORS.
        trace_rate: One of so many; 0 for none.
        trace_count: How many more; -1 for any number.
        log_frequency: Traces that are written at once; kept only.
    """

    trace_level: tuple[str, ...] = ("OFF",)
    trace_rate: int = 1000
    trace_count: int = -1
    log_frequency: int = 0

    @property
    def is_on(self) -> bool:
        """Whether any request is traced."""
        return self.trace_level != ("OFF",) and self.trace_rate > 0 and self.trace_count != 0

    def told(self) -> dict[str, Any]:
        """As Triton's clients read it: texts, and a list of the levels."""
        return {
            "trace_level": list(self.trace_level),
            "trace_rate": str(self.trace_rate),
            "trace_count": str(self.trace_count),
            "log_frequency": str(self.log_frequency),
            "trace_file": "",
            "trace_mode": "opentelemetry",
        }


@dataclass(frozen=True, slots=True)
class Logging:
    """What is logged, from the least severe that is on."""

    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_verbose_level: int = 0
    log_format: str = "default"

    @property
    def level(self) -> int:
        """As Python counts them."""
        if self.log_verbose_level:
            return logging.DEBUG
        if self.log_info:
            return logging.INFO
        if self.log_warning:
            return logging.WARNING
        return logging.ERROR if self.log_error else logging.CRITICAL

    def told(self) -> dict[str, Any]:
        """As Triton's clients read it."""
        return {
            "log_file": "",
            "log_info": self.log_info,
            "log_warning": self.log_warning,
            "log_error": self.log_error,
            "log_verbose_level": self.log_verbose_level,
            "log_format": self.log_format,
        }


OnTurned = Callable[[], None]


@dataclass(slots=True)
class Dials:
    """All of them, with what is called when one was turned.

    Attributes:
        logging: What is logged.
        on_turned: Called after each change of tracing.
    """

    logging: Logging = field(default_factory=Logging)
    on_turned: list[OnTurned] = field(default_factory=list)
    _common: Tracing = field(default_factory=Tracing)
    _own: dict[str, dict[str, Any]] = field(default_factory=dict)

    def tracing(self, model: str = "") -> Tracing:
        """How a model's requests are traced; without a name, those of models without settings."""
        return replace(self._common, **self._own.get(model, {}))

    def turn_tracing(self, settings: Mapping[str, Any], model: str = "") -> Tracing:
        """Change how a model's requests are traced, or those of all.

        Args:
            settings: Names to texts, or lists of them; None goes back to what holds for all, or to
                the default.
            model: Whose; all without settings of their own if empty.

        Raises:
            InvalidRequest: There is no such setting, or not with such a value.
        """
        read = {name: _traced(name, value) for name, value in settings.items()}
        if model:
            own = self._own.get(model, {}) | read
            self._own[model] = {name: value for name, value in own.items() if value is not None}
        else:
            ground = Tracing()
            new = {n: getattr(ground, n) if v is None else v for n, v in read.items()}
            self._common = replace(self._common, **new)
        for call in self.on_turned:
            call()
        return self.tracing(model)

    def turn_logging(self, settings: Mapping[str, Any]) -> Logging:
        """Change what is logged.

        Raises:
            InvalidRequest: There is no such setting, or not with such a value.
        """
        for name, value in settings.items():
            _check_logged(name, value)
        self.logging = replace(self.logging, **settings)
        logging.getLogger("xirang").setLevel(self.logging.level)
        return self.logging


def dials_at(log_level: str) -> Dials:
    """Dials as they stand at the start, given the lowest level that is logged."""
    severity = logging.getLevelNamesMapping()[log_level.upper()]
    return Dials(
        Logging(
            log_info=severity <= logging.INFO,
            log_warning=severity <= logging.WARNING,
            log_verbose_level=int(severity <= logging.DEBUG),
        )
    )


def unknown_model(name: str) -> InvalidRequest:
    """Triton's words, and its status, for settings of a model that is not served."""
    return InvalidRequest(f"Request for unknown model : {name}")


def _traced(name: str, value: Any) -> Any:
    """One setting's value, checked; None to clear it."""
    _check_name("trace", name, Tracing.__slots__)
    if value is None or value == []:
        return None
    if name == "trace_level":
        return _levels(value)
    if type(value) is list:
        if len(value) > 1:
            raise InvalidRequest(f"expect only 1 value for '{name}'")
        value = value[0]
    low = -1 if name == "trace_count" else 0
    try:
        number = int(value) if type(value) is str else None
    except ValueError:
        number = None
    if number is None or number > COUNT_MAX:
        raise InvalidRequest(f"Unable to parse '{name}', got: {value}; expected digits, as a text")
    if number < low:
        raise InvalidRequest(f"Unable to parse '{name}'. Expecting value >= {low}, got:{value}")
    return number


def _levels(value: Any) -> tuple[str, ...]:
    levels = [value] if type(value) is str else value
    if type(levels) is not list or not all(level in LEVELS for level in levels):
        raise InvalidRequest(f"'trace_level' must be a list of {', '.join(LEVELS)}")
    return ("OFF",) if "OFF" in levels else tuple(dict.fromkeys(levels))


def _check_logged(name: str, value: Any) -> None:
    _check_name("log", name, Logging.__slots__)
    if name == "log_verbose_level":
        if type(value) is not int or not 0 <= value <= COUNT_MAX:
            raise InvalidRequest(f"expect unsigned integer for '{name}'")
    elif name == "log_format":
        if value not in LOG_FORMATS:
            raise InvalidRequest(
                f"invalid argument for log_format, got: {value}; "
                f"expected {' or '.join(LOG_FORMATS)}"
            )
    elif type(value) is not bool:
        raise InvalidRequest(f"expect boolean for '{name}'")


def _check_name(sort: str, name: str, known: Sequence[str]) -> None:
    if name == f"{sort}_file":
        raise FixedSetting(f"{sort} file location can not be updated through network protocol")
    if name not in known:
        raise InvalidRequest(f"unknown {sort} setting '{name}'; expected one of {', '.join(known)}")
