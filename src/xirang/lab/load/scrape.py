"""Reads the server's own figures from its `/metrics` page, before and after a point."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from xirang.lab.load.client import Target, fetch

_SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?\s*")
_LABEL = re.compile(r'([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a metrics page."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """A whole metrics page (Prometheus text format 0.0.4, OpenMetrics where it agrees)."""

    samples: tuple[Sample, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read every line that is a sample; others are skipped, as a scraper must not fail."""
        return cls(tuple(_parse_samples(text)))

    def total(self, name: str, model: str | None = None) -> float | None:
        """Sum of a series over its labels; None where the page has no such series.

        Args:
            name: The series.
            model: Count only the samples whose label `model`, if there is one, is this.
        """
        values = [sample.value for sample in self._of(name, model)]
        return sum(values) if values else None

    def buckets(self, name: str, model: str | None = None) -> dict[float, float]:
        """Cumulative counts of a histogram by upper bound, summed over other labels."""
        counts: dict[float, float] = {}
        for sample in self._of(f"{name}_bucket", model):
            bound = float(sample.labels.get("le", "nan"))
            counts[bound] = counts.get(bound, 0.0) + sample.value
        return counts

    def _of(self, name: str, model: str | None) -> Iterator[Sample]:
        for sample in self.samples:
            if sample.name == name and model in (None, sample.labels.get("model", model)):
                yield sample


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """What the server says of an interval; None for what it does not tell.

    Attributes:
        mean_batch: Rows a run.
        padding_waste: Padded elements over all elements, 0 … 1.
        device_ms: Time of runs an answered request.
        batch_sizes: (largest rows of the class, runs in it), in order of size.
    """

    mean_batch: float | None = None
    padding_waste: float | None = None
    device_ms: float | None = None
    batch_sizes: tuple[tuple[str, float], ...] = ()


async def read_metrics(target: Target) -> MetricsPage | None:
    """The server's metrics page, or None where it has none."""
    page = target.at("/metrics")
    try:
        status, body = await fetch(page, page.get(), timeout_s=5.0)
    except OSError:
        return None
    return MetricsPage.parse(body.decode(errors="replace")) if status == 200 else None


def compare(
    before: MetricsPage, after: MetricsPage, *, answered: int, model: str | None = None
) -> ServerFigures | None:
    """The figures of the interval between two pages; None when they show nothing of it."""

    def grown(name: str) -> float | None:
        total = after.total(name, model)
        return None if total is None else total - (before.total(name, model) or 0.0)

    device_s = grown("xirang_run_seconds_sum")
    figures = ServerFigures(
        mean_batch=_ratio(grown("xirang_batch_rows_sum"), grown("xirang_batch_rows_count")),
        padding_waste=_ratio(
            grown("xirang_padding_elements_total"), grown("xirang_elements_total")
        ),
        device_ms=_ratio(None if device_s is None else device_s * 1e3, answered),
        batch_sizes=_batch_sizes(before, after, model),
    )
    return None if figures == ServerFigures() else figures


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _batch_sizes(
    before: MetricsPage, after: MetricsPage, model: str | None
) -> tuple[tuple[str, float], ...]:
    earlier = before.buckets("xirang_batch_rows", model)
    later = after.buckets("xirang_batch_rows", model)
    sizes = []
    below = 0.0
    for bound in sorted(later):
        reached = later[bound] - earlier.get(bound, 0.0)
        if reached > below:
            label = f"≤ {bound:g}" if bound != float("inf") else "more"
            sizes.append((label, reached - below))
        below = max(below, reached)
    return tuple(sizes)


def _parse_samples(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        # OpenMetrics appends an exemplar behind " # ", which may hold braces of its own.
        match = _SERIES.fullmatch(line.split(" # ", 1)[0].strip())
        if match is None:
            continue
        name, labels, value = match.groups()
        try:
            yield Sample(name, _parse_labels(labels or ""), float(value))
        except ValueError:
            continue


def _parse_labels(text: str) -> dict[str, str]:
    return {
        name: re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), value)
        for name, value in _LABEL.findall(text)
    }
