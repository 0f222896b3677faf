"""The page's parts: read once, compressed once, and kept by browsers for as long as they are."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

PARTS = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "history.js": "text/javascript; charset=utf-8",
    "plots.js": "text/javascript; charset=utf-8",
    "tables.js": "text/javascript; charset=utf-8",
}
LIBRARY = "plotly.min.js"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    media_type: str
    body: bytes
    gzipped: bytes


@cache
def page() -> bytes:
    """The HTML page; its parts have the digest in their address."""
    text = _read("page.html").decode()
    library = library_path()
    script = f'<script defer src="{{static}}/{LIBRARY}"></script>' if library else ""
    return text.replace("{library}", script).replace("{static}", f"dashboard/{digest()}").encode()


@cache
def digest() -> str:
    """Of all parts, the plot library's version among them: another one is another address."""
    found = hashlib.sha256(version("plotly").encode() if library_path() else b"")
    for name in PARTS:
        found.update(_read(name))
    return found.hexdigest()[:12]


@cache
def asset(name: str) -> Asset | None:
    """A part of the page by its name; None if there is no such part. Compressing takes a moment."""
    library = library_path()
    if name == LIBRARY and library is not None:
        return _asset(library.read_bytes(), "text/javascript; charset=utf-8")
    if name in PARTS:
        return _asset(_read(name), PARTS[name])
    return None


@cache
def library_path() -> Path | None:
    """Where the installed plotly has its script; None if there is no plotly."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "package_data" / LIBRARY
    return path if path.exists() else None


def _asset(body: bytes, media_type: str) -> Asset:
    return Asset(media_type, body, gzip.compress(body, 6, mtime=0))


def _read(name: str) -> bytes:
    return files("xirang.frontends.dashboard").joinpath(name).read_bytes()
