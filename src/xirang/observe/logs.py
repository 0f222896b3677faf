"""The log: one line an event, as text or as JSON, written by a thread of its own.

What libraries say goes the same way. A line about a request never holds its body, its key or the
query of its URL.
"""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import gmtime, strftime
from typing import Any, Literal, TextIO

import orjson

from xirang.observe.outlet import Outlet, Tally
from xirang.observe.trace_context import parent_of
from xirang.observe.witness import Sighting

Form = Literal["text", "json"]

REQUESTS = "xirang.request"
"""The logger's name in lines about requests."""

IDENTITY = b"x-request-id"
TEXT_MAX = 200
"""Names that come with a request may be long; so much of them is told."""

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",  # uvicorn's, for terminals
}

Fields = dict[str, Any]


class Lines:
    """The end of an outlet: writes records and requests, each as a line."""

    def __init__(
        self, stream: TextIO, form: Form, tally: Tally, epoch_ns: Callable[[], int]
    ) -> None:
        """Write nothing yet.

        Args:
            stream: Where to.
            form: How.
            tally: Where lines are counted.
            epoch_ns: What to add to the engine's clock for nanoseconds since 1970.
        """
        self._stream = stream
        self._line = _json if form == "json" else _text
        self._tally = tally
        self._epoch_ns = epoch_ns

    def __call__(self, items: Sequence[Sighting | Fields]) -> None:
        """Write what has gathered."""
        if not items:
            return
        epoch_ns = self._epoch_ns()
        told = (
            fields_of_request(each, epoch_ns=epoch_ns) if isinstance(each, Sighting) else each
            for each in items
        )
        try:
            self._stream.write("".join([self._line(fields) for fields in told]))
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it any more, or it was closed
            self._tally.failed += len(items)
        else:
            self._tally.sent += len(items)


class LogHandler(logging.Handler):
    """Leaves each record at the outlet, and has it written at once: there are few."""

    def __init__(self, outlet: "Outlet[Sighting | Fields]") -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        """Take it; its arguments may change later, so it is put into words here."""
        try:
            fields = fields_of(record)
        except Exception:  # its arguments do not fit its words
            self.handleError(record)
            return
        self._outlet.put(fields)
        self._outlet.hurry()


@contextmanager
def logging_to(
    stream: TextIO, *, form: Form, level: str, epoch_ns: Callable[[], int]
) -> "Iterator[Outlet[Sighting | Fields]]":
    """Everything that is logged goes there, until the context ends.

    Args:
        stream: Where to.
        form: `text` or `json`.
        level: The lowest that is told.
        epoch_ns: What to add to the engine's clock for nanoseconds since 1970.
    """
    tally = Tally()
    lines = Lines(stream, form, tally, epoch_ns)
    outlet: Outlet[Sighting | Fields] = Outlet(lines, tally, name="log")
    handler = LogHandler(outlet)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield outlet
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        outlet.close()


def fields_of(record: logging.LogRecord) -> Fields:
    """What a record says, by name; what was given as `extra` among it."""
    fields: Fields = {
        "time": _time(int(record.created * 1e9)),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    }
    fields |= {name: value for name, value in vars(record).items() if name not in _KNOWN}
    if record.exc_info and record.exc_info[0] is not None:
        fields["exception"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return fields


def fields_of_request(sighting: Sighting, *, epoch_ns: int) -> Fields:
    """What is told of a request that was answered."""
    path = sighting.place
    fields: Fields = {
        "time": _time(sighting.end_ns + epoch_ns),
        "level": "info",
        "logger": REQUESTS,
        "message": f"POST {path}" if sighting.door == "http" else path.lstrip("/"),
        "status": sighting.status,
        "duration_ms": round((sighting.end_ns - sighting.begun_ns) / 1e6, 3),
        "received_bytes": sighting.received_bytes,
        "sent_bytes": sighting.sent_bytes,
    }
    fields |= identity_of(sighting.headers)
    if sighting.identity:
        fields.setdefault("request", sighting.identity[:TEXT_MAX])
    if sighting.context is not None:
        fields["trace"] = sighting.context.trace_id.hex()
        fields["span"] = sighting.context.span_id.hex()
    if sighting.model:
        fields["model"] = sighting.model[:TEXT_MAX]
    if sighting.runs:
        event, request_id = sighting.runs[-1]
        fields |= {"number": request_id, "run": event.run.id, "mates": len(event.run.requests) - 1}
    return fields


def identity_of(headers: Mapping[bytes, bytes]) -> Fields:
    """By what a request is known to others: its own id, and that of its trace."""
    fields: Fields = {}
    identity = headers.get(IDENTITY)
    if identity is not None:
        fields["request"] = identity.decode("latin-1")[:TEXT_MAX]
    parent = parent_of(headers)
    if parent is not None:
        fields["trace"] = parent.trace_id.hex()
    return fields


def _time(unix_ns: int) -> str:
    seconds, milliseconds = divmod(unix_ns // 1_000_000, 1000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(seconds))}.{milliseconds:03}Z"


def _json(fields: Fields) -> str:
    try:
        return orjson.dumps(fields, default=str, option=orjson.OPT_APPEND_NEWLINE).decode()
    except TypeError:  # a number too large, a text that is none
        plain = {str(name): _readable(value) for name, value in fields.items()}
        return orjson.dumps(plain, option=orjson.OPT_APPEND_NEWLINE).decode()


def _text(fields: Fields) -> str:
    told = {name: _readable(value) for name, value in fields.items()}
    head = [told.pop(name) for name in ("time", "level", "logger", "message")]
    exception = told.pop("exception", None)
    more = "".join(f" {name}={_word(value)}" for name, value in told.items())
    lines = f"{head[0]} {head[1].upper()} {head[2]} {_plain(head[3])}{more}\n"
    return lines if exception is None else f"{lines}{exception}\n"


def _readable(value: object) -> str:
    """Any value as text that can be written."""
    return str(value).encode(errors="replace").decode()


def _word(text: str) -> str:
    is_plain = text and text.isprintable() and " " not in text and '"' not in text
    return text if is_plain else orjson.dumps(text).decode()


def _plain(text: str) -> str:
    """A message that stays one line, whatever came with a request."""
    return text.replace("\r", "\\r").replace("\n", "\\n")
