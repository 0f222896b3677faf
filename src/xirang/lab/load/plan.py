"""When requests leave: closed loop, a seeded random process, or a recorded trace."""

import csv
import gzip
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xirang.errors import InvalidSetting

SECOND_NS = 1_000_000_000
RATE_MAX = 1_000_000.0
PLANNED_MAX = 20_000_000
"""Instants are made before the run: this many take 160 MB."""
Instants = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Each client sends its next request when the last one is answered."""

    clients: int

    def __post_init__(self) -> None:
        if not 1 <= self.clients <= 60_000:
            raise InvalidSetting(f"{self.clients} clients; expected 1 to 60000")

    @property
    def label(self) -> str:
        """What a table calls this point."""
        return f"{self.clients} client{'s' if self.clients > 1 else ''}"


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Requests leave at random instants, whatever became of the earlier ones.

    Attributes:
        rate: Mean requests a second.
        variation: Standard deviation of the gaps over their mean: 1 is a Poisson
            process, 0 an even beat, more comes in bursts (gamma-distributed gaps).
    """

    rate: float
    variation: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate <= RATE_MAX:
            raise InvalidSetting(f"rate {self.rate:g}; expected above 0, at most {RATE_MAX:g}/s")
        if not 0 <= self.variation <= 20:
            raise InvalidSetting(f"variation (cv) {self.variation:g}; expected 0 to 20")

    @property
    def label(self) -> str:
        """What a table calls this point."""
        name = {0.0: "even", 1.0: "Poisson"}.get(self.variation, f"gamma cv {self.variation:g}")
        return f"{self.rate:g}/s {name}"

    def instants_ns(self, span_ns: int, *, seed: int) -> Instants:
        """Every intended instant from the start up to `span_ns`, in order."""
        random = np.random.default_rng(seed)
        mean_ns = SECOND_NS / self.rate
        count = int(span_ns / mean_ns * 1.1) + 64
        pieces: list[NDArray[np.float64]] = []
        reached = 0.0
        while reached < span_ns:
            gaps = self._gaps(random, count) * mean_ns
            piece = reached + np.cumsum(gaps)
            pieces.append(piece)
            reached = float(piece[-1])
        instants = np.concatenate(pieces).astype(np.int64)
        return instants[instants < span_ns]

    def _gaps(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        if self.variation == 0:
            return np.ones(count)
        shape = 1 / self.variation**2
        return random.gamma(shape, 1 / shape, count)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests leave when a recording says so.

    Attributes:
        recorded_ns: Instants of the recording, from its first request on, in order.
        compression: How many recorded seconds go by in one second.
        name: What a table calls it.
    """

    recorded_ns: Instants
    compression: float = 1.0
    name: str = "trace"

    def __post_init__(self) -> None:
        if not 0 < self.compression <= 1e6:
            raise InvalidSetting(f"compression {self.compression:g}; expected above 0, up to 1e6")

    @property
    def label(self) -> str:
        """What a table calls this point."""
        pace = f" ×{self.compression:g}" if self.compression != 1 else ""
        return f"{self.name}{pace}"

    @property
    def span_s(self) -> float:
        """Length of the whole replay."""
        return float(self.recorded_ns[-1]) / self.compression / SECOND_NS

    @property
    def rate(self) -> float:
        """Mean requests a second of the whole replay."""
        return (len(self.recorded_ns) - 1) / self.span_s if self.span_s else 1.0

    def instants_ns(self, span_ns: int, *, seed: int = 0) -> Instants:
        """Every intended instant from the start up to `span_ns`, in order."""
        del seed  # a recording has nothing random
        instants = (self.recorded_ns / self.compression).astype(np.int64)
        return instants[instants < span_ns]


Arrivals = ClosedLoop | OpenLoop | Trace


@dataclass(frozen=True, slots=True)
class ArrivalPlan:
    """One point of a load run: the arrivals and where they end.

    Attributes:
        arrivals: How requests leave.
        duration_s: Length of the measured window.
        request_count: End after this many measured requests, if that is earlier.
        warmup_s: Load before the window, which is sent but not counted.
        seed: Root of what is random.
        connections: Most connections of an open loop; beyond it requests wait here.
        timeout_s: When a request without an answer is given up.
        budget_ms: Latency budget that goodput is counted against.
    """

    arrivals: Arrivals
    duration_s: float = 10.0
    request_count: int | None = None
    warmup_s: float = 1.0
    seed: int = 0
    connections: int = 512
    timeout_s: float = 30.0
    budget_ms: float | None = None

    def __post_init__(self) -> None:
        limits: tuple[tuple[str, float, float, float], ...] = (
            ("duration", self.duration_s, 0.01, 86_400),
            ("warm-up", self.warmup_s, 0, 3_600),
            ("timeout", self.timeout_s, 0.01, 3_600),
            ("connections", self.connections, 1, 60_000),
            ("requests", self.request_count or 1, 1, 1_000_000_000),
            ("budget", self.budget_ms or 1, 0.001, 3_600_000),
            ("seed", self.seed, 0, 2**63),
        )
        for name, value, low, high in limits:
            if not low <= value <= high:
                raise InvalidSetting(f"{name} {value:g}; expected {low:g} to {high:g}")
        if isinstance(self.arrivals, OpenLoop):
            planned = self.arrivals.rate * self.end_ns / SECOND_NS
            if planned > PLANNED_MAX:
                raise InvalidSetting(f"{planned:.3g} requests in one point; at most {PLANNED_MAX}")

    @property
    def warmup_ns(self) -> int:
        """Start of the measured window, from the start of the point."""
        return round(self.warmup_s * SECOND_NS)

    @property
    def end_ns(self) -> int:
        """End of the measured window, from the start of the point."""
        return self.warmup_ns + round(self.duration_s * SECOND_NS)

    @property
    def rate_asked(self) -> float | None:
        """Mean intended requests a second; a closed loop asks for none."""
        return None if isinstance(self.arrivals, ClosedLoop) else self.arrivals.rate

    def instants_ns(self) -> Instants:
        """Intended instants of an open loop or trace, cut to the number asked for."""
        assert not isinstance(self.arrivals, ClosedLoop), "a closed loop has no intended instants"
        instants = self.arrivals.instants_ns(self.end_ns, seed=self.seed)
        if self.request_count is not None:
            first = int(np.searchsorted(instants, self.warmup_ns))
            instants = instants[: first + self.request_count]
        return instants


def read_trace(path: Path, *, compression: float = 1.0) -> Trace:
    """The arrivals of a CSV file (also .gz) with a column `t_ms`, in any order."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        rows = csv.DictReader(io.StringIO(content.decode()))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"trace {path}: {error}") from None
    if "t_ms" not in (rows.fieldnames or ()):
        raise InvalidSetting(f"trace {path}: no column t_ms in {rows.fieldnames}")
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    return Trace(_instants(path, (row["t_ms"] for row in rows)), compression, name)


def _instants(path: Path, column: Iterable[str]) -> Instants:
    try:
        milliseconds = np.array([float(cell) for cell in column])
    except (TypeError, ValueError) as error:
        raise InvalidSetting(f"trace {path}: t_ms must hold numbers: {error}") from None
    if not len(milliseconds) or not np.isfinite(milliseconds).all():
        raise InvalidSetting(f"trace {path}: expected at least one finite t_ms")
    milliseconds.sort()
    instants: Instants = np.round((milliseconds - milliseconds[0]) * 1e6).astype(np.int64)
    return instants
