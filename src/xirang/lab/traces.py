"""Recorded arrivals and lengths: the ones that come with the package, and files of that form.

A trace is a CSV file, plain or gzip, with a header: `t_ms` (instants, from any origin) and
optionally `length` or `input_tokens`. A histogram has `length` and `count`.
"""

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from xirang.errors import InvalidSetting

SUFFIX = ".csv.gz"
LENGTH_COLUMNS = ("length", "input_tokens")


@dataclass(frozen=True, slots=True)
class Trace:
    """What somebody's server saw.

    Attributes:
        name: As it was asked for.
        times_ms: Ascending instants, the first at 0.
        lengths: One for each instant; empty if the file has none.
    """

    name: str
    times_ms: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def rate(self) -> float:
        """Mean requests a second."""
        return 1000.0 * (len(self.times_ms) - 1) / self.times_ms[-1]

    @property
    def quantum_ms(self) -> float:
        """The clock tick of whoever recorded it: the least distance of two instants."""
        pairs = zip(self.times_ms, self.times_ms[1:], strict=False)
        return min(later - earlier for earlier, later in pairs if later > earlier)


def bundled(kind: str) -> list[str]:
    """Names of the traces or lengths that come with the package."""
    folder = files("xirang") / "assets" / kind
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))


def load_trace(name: str) -> Trace:
    """The bundled trace of this name, or the file of this path."""
    rows = list(_rows(name, "traces"))
    column = _length_column(rows)
    try:
        times = sorted((float(row["t_ms"]), i) for i, row in enumerate(rows))
        lengths = tuple(max(1, int(rows[i][column])) for _, i in times) if column else ()
    except KeyError:
        raise InvalidSetting(f"{name}: a trace needs a column t_ms") from None
    except (TypeError, ValueError) as error:
        raise InvalidSetting(f"{name}: not a trace of numbers ({error})") from None
    if len(times) < 2 or times[0][0] == times[-1][0]:
        raise InvalidSetting(f"{name}: a trace needs at least two different instants")
    origin = times[0][0]
    return Trace(name, tuple(at - origin for at, _ in times), lengths)


def load_histogram(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lengths and how often each occurs: a bundled name or a file's path."""
    try:
        pairs = [(int(row["length"]), int(row["count"])) for row in _rows(name, "lengths")]
    except (KeyError, TypeError, ValueError):
        raise InvalidSetting(f"{name}: a histogram has integer columns length and count") from None
    if not pairs or any(length < 1 or count < 1 for length, count in pairs):
        raise InvalidSetting(f"{name}: a histogram has lengths and counts of at least 1")
    return tuple(length for length, _ in pairs), tuple(count for _, count in pairs)


def _rows(name: str, kind: str) -> Iterator[dict[str, str]]:
    known = bundled(kind)
    if name in known:
        packed = (files("xirang") / "assets" / kind / f"{name}{SUFFIX}").read_bytes()
    elif (path := Path(name)).is_file():
        packed = path.read_bytes()
    else:
        raise InvalidSetting(f"no {kind} {name!r}: known are {', '.join(known)}, or a CSV file")
    return csv.DictReader(_lines(packed, name))


def _lines(packed: bytes, name: str) -> Iterable[str]:
    try:
        plain = gzip.decompress(packed) if packed.startswith(b"\x1f\x8b") else packed
        return plain.decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError):
        raise InvalidSetting(f"{name}: not a CSV file, plain or gzip") from None


def _length_column(rows: list[dict[str, str]]) -> str | None:
    columns = rows[0] if rows else {}
    return next((column for column in LENGTH_COLUMNS if column in columns), None)
