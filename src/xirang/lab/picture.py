"""The command `xirang picture`: the plots of a report page as PNG files, for documents.

A report draws itself in whatever opens it, so that a browser takes the pictures: any Chromium that
is installed, without a window and without a library to drive it.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

from xirang.errors import InvalidSetting, XirangError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT, SCALE = 960, 480, 2
EDGE = 12
"""Around a plot, as the page's style has it."""

DRAWING_MS = 4000
"""Of the page's own time, which passes as fast as it can."""

TIMEOUT_S = 60.0

_FIGURE = re.compile(r'<section><h2>([^<]*)</h2><div class="plot" id="(figure-\d+)">')


class NoPicture(XirangError):
    """The browser did not take it."""


def add_picture(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `picture` with its options."""
    parser = subparsers.add_parser(
        "picture",
        help="the plots of a report as PNG files, for documents",
        description="Write each plot of a page that load, simulate, tune, plan, demo or a "
        "benchmark wrote as a PNG file of its own. It needs a Chromium on this machine.",
    )
    parser.add_argument("report", type=Path, metavar="REPORT", help="the HTML page")
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER", help="where to (here)")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--width", type=int, default=WIDTH, metavar="PIXELS")
    parser.add_argument("--height", type=int, default=HEIGHT, metavar="PIXELS")
    parser.set_defaults(run=picture_command)


def picture_command(args: argparse.Namespace) -> int:
    """Take them all; 2 if the page or the browser is missing."""
    try:
        size = (args.width, args.height)
        for path in take_pictures(args.report, args.to, theme=args.theme, size=size):
            sys.stdout.write(f"{path}\n")
    except XirangError as error:
        sys.stderr.write(f"xirang picture: {error}\n")
        return 2
    return 0


def take_pictures(
    report: Path, folder: Path, *, theme: str = "light", size: tuple[int, int] = (WIDTH, HEIGHT)
) -> list[Path]:
    """Write each plot of a page as a PNG file, named by its heading.

    Args:
        report: The page.
        folder: Where to; it is made if it is not there.
        theme: `light` or `dark`.
        size: Width and height in CSS pixels; the file has twice as many.

    Raises:
        InvalidSetting: The page or a browser is not there.
        NoPicture: The browser failed.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise InvalidSetting(f"a picture needs a Chromium; none of {', '.join(BROWSERS)} is here")
    try:
        figures = _FIGURE.findall(report.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read {report}: {error}") from error
    if not figures:
        raise InvalidSetting(f"{report} is no report with plots")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for heading, name in figures:
        path = folder / f"{slug(unescape(heading))}.png"
        url = f"{report.resolve().as_uri()}#{name},{theme},{size[1] - 2 * EDGE}"
        _take(browser, url, path.resolve(), size)
        written.append(path)
    return written


def slug(heading: str) -> str:
    """A heading as a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") or "figure"


def _take(browser: str, url: str, path: Path, size: tuple[int, int]) -> None:
    width, height = size
    with tempfile.TemporaryDirectory() as profile:
        command = [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", f"--window-size={width},{height}"),
            *(f"--force-device-scale-factor={SCALE}", f"--virtual-time-budget={DRAWING_MS}"),
            *(f"--screenshot={path}", url),
        ]
        path.unlink(missing_ok=True)
        try:
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise NoPicture(f"{browser} took more than {TIMEOUT_S:g} s for {path.name}") from error
    if not path.exists():
        raise NoPicture(f"{browser} took no picture: {done.stderr.decode(errors='replace')[-500:]}")
