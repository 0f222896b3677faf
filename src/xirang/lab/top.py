"""The command `xirang top`: a server's live picture in the terminal, as its dashboard tells it."""

import argparse
import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from xirang.errors import InvalidSetting, XirangError
from xirang.lab.simulate_report import make_console
from xirang.observe.histogram import quantile

if TYPE_CHECKING:
    from argparse import _SubParsersAction

SECONDS = 10
"""What rates and percentiles are taken from."""

TIMEOUT_S = 10.0
SLOWEST_SHOWN = 5


class Unreachable(XirangError):
    """No server, or one that gives no live picture."""


def add_top(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `top` with its options."""
    parser = subparsers.add_parser(
        "top",
        help="a server's live picture in the terminal",
        description="Show what a server does now: each model's rates, latencies, batches, window "
        "and demand, its lanes, and the slowest requests with the reason. Ctrl-C ends it.",
    )
    parser.add_argument("url", metavar="URL", help="the server, http://host:port")
    parser.add_argument("--once", action="store_true", help="print one picture and end")
    parser.add_argument("--key", metavar="KEY", help="an API key, where the server asks for one")
    parser.set_defaults(run=top_command)


def top_command(args: argparse.Namespace) -> int:
    """Follow the stream until it ends; 1 if there is none."""
    from rich.live import Live

    if urlsplit(args.url).scheme not in {"http", "https"}:
        raise InvalidSetting(f"expected http://host:port, got {args.url!r}")
    console = make_console(is_quiet=False)
    seen = Seen()
    try:
        pictures = _pictures(args.url.rstrip("/"), args.key, seen)
        if args.once:
            console.print(next(pictures, "the server ended the stream"))
            return 0
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            for picture in pictures:
                live.update(picture, refresh=True)
    except (OSError, XirangError) as error:
        sys.stderr.write(f"xirang top: {error}\n")
        return 1
    return 0


def _pictures(url: str, key: str | None, seen: "Seen") -> Iterator[Any]:
    for kind, content in read_events(f"{url}/dashboard/events", key):
        if kind == "about":
            seen.bounds = content["bounds"]["spans_ms"]
        else:
            seen.add(content)
            if len(seen.frames) > 1:
                yield picture(url, seen)


def read_events(url: str, key: str | None = None) -> Iterator[tuple[str, Any]]:
    """The server-sent events of a URL, each with its kind and content.

    Raises:
        Unreachable: There is nobody, or nothing to see.
    """
    opener = build_opener(ProxyHandler({}))  # a server is asked, not the proxy of a browser
    request = Request(url, headers={"authorization": f"Bearer {key}"} if key else {})
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            kind = ""
            for raw in response:
                name, _, value = raw.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)
    except HTTPError as error:
        reason = "an API key is needed: --key" if error.code == 401 else f"answers {error.code}"
        raise Unreachable(f"{url}: {reason}") from None
    except URLError as error:
        raise Unreachable(f"{url}: {error.reason}") from None


@dataclass(slots=True, eq=False)
class Seen:
    """The frames of the last seconds.

    Attributes:
        bounds: Of the histograms of times, in milliseconds.
        frames: The oldest first.
    """

    bounds: Sequence[float] = ()
    frames: deque[dict[str, Any]] = field(default_factory=deque)

    def add(self, frame: dict[str, Any]) -> None:
        """One more; a server that was started anew begins a new picture."""
        if self.frames and frame["now_ms"] < self.frames[-1]["now_ms"]:
            self.frames.clear()
        self.frames.append(frame)
        while frame["now_ms"] - self.frames[0]["now_ms"] > SECONDS * 1e3:
            self.frames.popleft()

    def passed_s(self) -> float:
        """From the oldest frame to the latest."""
        return float(self.frames[-1]["now_ms"] - self.frames[0]["now_ms"]) / 1e3

    def models(self) -> list["Figures"]:
        """What each model did meanwhile."""
        before = {model["name"]: model for model in self.frames[0]["models"]}
        return [
            Figures.of(model, before.get(model["name"], model), self)
            for model in self.frames[-1]["models"]
        ]


@dataclass(frozen=True, slots=True)
class Figures:
    """One model over the last seconds, and now; None for what did not happen."""

    present: dict[str, Any]
    rate: float
    on_time: float | None
    p50_ms: float | None
    p99_ms: float | None
    rows_mean: float | None
    padding: float | None
    busy: float

    @classmethod
    def of(cls, now: dict[str, Any], before: dict[str, Any], seen: Seen) -> "Figures":
        """From what was counted until now and until some frames before."""
        grown = {key: now["counts"][key] - before["counts"][key] for key in now["counts"]}
        times = zip(now["spans"]["total"], before["spans"]["total"], strict=True)
        spans = [count - known for count, known in times]
        passed_s = seen.passed_s()
        answered = grown["on_time"] + grown["late"]
        lost = sum(grown[key] for key in ("failed", "rejected", "expired", "cancelled"))
        return cls(
            present=now,
            rate=answered / passed_s,
            on_time=_ratio(grown["on_time"], answered + lost),
            p50_ms=quantile(0.5, seen.bounds, spans),
            p99_ms=quantile(0.99, seen.bounds, spans),
            rows_mean=_ratio(grown["rows"], grown["runs"]),
            padding=_ratio(grown["padding"], grown["elements"]),
            busy=grown["device_ms"] / passed_s / 1e3,
        )


def picture(url: str, seen: Seen) -> Any:
    """All that is shown, for rich to draw."""
    from rich.console import Group
    from rich.text import Text

    frame, models = seen.frames[-1], seen.models()
    state = "going down" if frame["is_draining"] else "live"
    for device in frame["devices"]:
        state += f"  overload level {device['level']} on {device['name']}" * bool(device["level"])
        state += f"  off: {', '.join(device['off'])}" * bool(device["off"])
    rate, waiting = sum(m.rate for m in models), sum(m.present["waiting"] for m in models)
    head = Text.assemble(
        ("xirang ", "bold"), f"{url}  {state}  {rate:,.0f} requests/s  {waiting:,} waiting"
    )
    return Group(head, _models(models), *_lanes(frame), *_slowest(seen))


def _models(models: Sequence[Figures]) -> Any:
    titles = "model|req/s|in time|p50|p99|rows|padding|busy|demand|window|threshold|wait|run"
    rows = [
        (
            m.present["name"],
            f"{m.rate:,.0f}",
            _percent(m.on_time),
            _time(m.p50_ms),
            _time(m.p99_ms),
            "–" if m.rows_mean is None else f"{m.rows_mean:.1f}",
            _percent(m.padding),
            _percent(m.busy),
            _percent(m.present["demand"]),
            _time(m.present["window_ms"]),
            _time(m.present["threshold_ms"]),
            f"{m.present['waiting']:,}",
            f"{m.present['running']:,}",
        )
        for m in models
    ]
    return _table(titles, rows)


def _lanes(frame: dict[str, Any]) -> list[Any]:
    rows = [
        (
            model["name"],
            str(lane["priority"]),
            f"< {_time(2 ** lane['cost_class'] / 1e6)}",
            f"{lane['depth']:,}",
            _time(lane["oldest_ms"]),
            _time(lane["wait_ms"]),
        )
        for model in frame["models"]
        for lane in model["lanes"]
    ]
    return [_table("lane|priority|a request|depth|oldest|work ahead", rows)] if rows else []


def _slowest(seen: Seen) -> list[Any]:
    every = [each for frame in seen.frames for each in frame["slowest"]]
    slowest = sorted(every, key=lambda each: -each["total_ms"])[:SLOWEST_SHOWN]
    rows = [
        (
            each["model"],
            _time(each["total_ms"]),
            _time(each["queue_ms"]),
            _time(each["ran_ms"]),
            _time(each["predicted_ms"]),
            each["trigger"],
            _time(each["window_ms"]),
            f"{each['mates']:,}",
            _percent(each["padding_share"]),
        )
        for each in slowest
    ]
    titles = "slowest|took|waited|ran|predicted|by|window|mates|padding"
    return [_table(titles, rows)] if rows else []


def _table(titles: str, rows: Sequence[Sequence[str]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, title in enumerate(titles.split("|")):
        table.add_column(title, justify="right" if number else "left", no_wrap=number > 0)
    for row in rows:
        table.add_row(*row)
    return table


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _time(ms: float | None) -> str:
    if ms is None:
        return "–"
    if ms >= 1_000:
        return f"{ms / 1e3:.3g} s"
    return f"{ms * 1e3:.0f} µs" if 0 < ms < 0.1 else f"{ms:.3g} ms"
