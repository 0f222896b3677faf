"""Writes metrics as text, in the formats that Prometheus reads: its own 0.0.4 and OpenMetrics 1.0.

By hand, because a library would give Triton's counters the `_total` that they do not have.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from xirang.observe.histogram import Histogram

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def is_open(accept: str) -> bool:
    """Whether a scraper that sends this `Accept` understands OpenMetrics."""
    return "application/openmetrics-text" in accept


def labels_of(**labels: str) -> str:
    """Labels as they stand between braces."""
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


class Page:
    """A metrics page under construction."""

    def __init__(self, *, is_open: bool = False) -> None:
        """Begin.

        Args:
            is_open: In OpenMetrics' format.
        """
        self._is_open = is_open
        self._lines: list[str] = []

    def family(self, name: str, kind: str, text: str) -> None:
        """Begin the series of one name; their samples follow."""
        if self._is_open and kind == "counter":
            # OpenMetrics knows no counter whose samples do not end in _total.
            name, kind = (name[:-6], kind) if name.endswith("_total") else (name, "unknown")
        self._lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")

    def samples(self, name: str, samples: Iterable[tuple[str, float]]) -> None:
        """Lines of a counter or gauge, each a pair of labels and value."""
        self._lines += [
            f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
            for labels, value in samples
        ]

    def histogram(self, name: str, labels: str, histogram: Histogram) -> None:
        """The lines of one histogram."""
        head, total, lines = f"{name}_bucket{{{labels},", 0, self._lines
        edges = _edges(histogram.bounds, histogram.unit)
        first = len(lines)
        for edge, count in zip(edges, histogram.counts, strict=True):
            total += count
            lines.append(f"{head}{edge}{total}")
        if self._is_open and histogram.exemplars:
            for number, exemplar in sorted(histogram.exemplars.items()):
                value = f"{exemplar.value / histogram.unit:.9g} {exemplar.unix_ms / 1e3:.3f}"
                lines[first + number] += f' # {{trace_id="{exemplar.trace}"}} {value}'
        lines += (
            f"{name}_sum{{{labels}}} {histogram.total / histogram.unit:.9g}",
            f"{name}_count{{{labels}}} {total}",
        )

    def text(self) -> str:
        """The whole page."""
        end = "# EOF\n" if self._is_open else ""
        return "\n".join(self._lines) + "\n" + end


@cache
def _edges(bounds: Sequence[float], unit: float) -> tuple[str, ...]:
    edges = [f"{bound / unit!r}" for bound in bounds]
    return tuple(f'le="{edge}"}} ' for edge in (*edges, "+Inf"))


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
