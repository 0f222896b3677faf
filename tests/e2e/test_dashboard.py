"""The dashboard in a real browser, on a real server under load."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec

import orjson
import pytest
from tests.support.wire import metric, until, words
from tests.test_tidy import ROOT

from xirang.lab.server import ServerProcess
from xirang.lab.top import read_events

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = [
    name
    for name, is_there in (("chromium", CHROMIUM), ("playwright", find_spec("playwright")))
    if not is_there
]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(MISSING) and not os.environ.get("CI"),
        reason=f"not installed: {', '.join(MISSING)} (CI must have them)",
    ),
]

SCREENS = ROOT / "build" / "screens"
"""Where the screenshots go, for people to look at."""

PACED = "tests.e2e.paced:paced"

WIDE, PHONE = {"width": 1280, "height": 2500}, {"width": 390, "height": 4600}


@pytest.fixture(scope="module")
def server():
    known = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(known)})  # on one core a single callable can keep a device busy
    try:
        server = ServerProcess([PACED], "--max-batch-size=4")
    finally:
        os.sched_setaffinity(0, known)
    with server:
        yield server


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser, server, *, size=WIDE, theme="light"):
    """The dashboard, with all that went wrong in `page.wrongs`."""
    page = browser.new_page(viewport=size, color_scheme=theme)
    page.wrongs = []
    page.on("pageerror", lambda error: page.wrongs.append(str(error)))
    page.on(
        "console",
        lambda said: page.wrongs.append(said.text) if said.type in {"error", "warning"} else None,
    )
    page.goto(f"{server.url}/dashboard")
    try:
        yield page
    finally:
        page.close()


@contextmanager
def load(server, tmp_path, *options):
    """Requests from a process of its own, until the end of the context."""
    body = tmp_path / "body.json"
    body.write_bytes(orjson.dumps(words("some text")))
    command = [sys.executable, "-m", "xirang", "load", f"{server.url}/v2/models/paced/infer"]
    process = subprocess.Popen(
        [*command, "--body", str(body), "--warmup", "0", "--duration", "60", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def figure(page, label):
    """A tile's number."""
    text = page.locator("#figures div", has=page.get_by_text(label, exact=True)).locator("dd")
    return float(re.match(r"[\d,.]+", text.inner_text())[0].replace(",", ""))


def caption(page, name):
    return page.locator(f"#{name} figcaption").inner_text()


def window_ms(page):
    value, unit = re.search(r"window ([\d.]+) (ms|µs)", caption(page, "windows")).groups()
    return float(value) / (1000 if unit == "µs" else 1)


def until_live(page):
    page.locator("#figures div").nth(7).wait_for()


def test_the_window_narrows_as_the_load_rises_and_the_figures_are_those_of_the_metrics(
    server, browser, tmp_path
):
    with opened(browser, server) as page:
        until_live(page)
        with load(server, tmp_path, "--rate", "4"):
            page.wait_for_timeout(5_000)
            wide_ms = window_ms(page)
        with load(server, tmp_path, "--clients", "48"):
            begun = metric(server.url, "xirang_on_time_total", "paced")
            until(lambda: metric(server.url, "xirang_on_time_total", "paced") > begun + 100)
            page.wait_for_timeout(1_000)  # what follows are ten seconds that are all loud
            before = {name: metric(server.url, name, "paced") for name in COMPARED}
            page.wait_for_timeout(10_000)
            after = {name: metric(server.url, name, "paced") for name in COMPARED}
            page.wait_for_timeout(1_000)
            narrow_ms = window_ms(page)
            grown = {name: after[name] - before[name] for name in COMPARED}
            rate = grown["xirang_on_time_total"] / 10
            assert figure(page, "requests/s") == pytest.approx(rate, rel=0.2)
            rows = grown["xirang_batch_rows_sum"] / grown["xirang_batch_rows_count"]
            assert figure(page, "rows a run") == pytest.approx(rows, rel=0.2)
            assert "runs on 1 instance in" in caption(page, "instances")
        assert narrow_ms < wide_ms / 2, caption(page, "windows")
        page.screenshot(path=screen("under-load-light"))
        assert page.wrongs == []


COMPARED = ("xirang_on_time_total", "xirang_batch_rows_sum", "xirang_batch_rows_count")


def screen(name):
    SCREENS.mkdir(parents=True, exist_ok=True)
    return SCREENS / f"dashboard-{name}.png"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("name", "size"), [("wide", WIDE), ("phone", PHONE)])
def test_it_fits_and_says_nothing_wrong(server, browser, tmp_path, theme, name, size):
    with (
        load(server, tmp_path, "--rate", "30"),
        opened(browser, server, size=size, theme=theme) as page,
    ):
        until_live(page)
        page.locator(".js-plotly-plot").nth(6).wait_for()
        page.wait_for_timeout(3_000)
        page.screenshot(path=screen(f"{name}-{theme}"))
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert page.wrongs == []
        check_accessible(page)


def check_accessible(page):
    """By axe where it is installed; names of controls and pictures in any case."""
    for selector in ("button", "select", "[role=img]"):
        for element in page.locator(selector).all():
            if element.is_visible():
                assert element.evaluate(NAME_OF), selector
    if find_spec("axe_playwright_python") is not None:
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(page).response["violations"]
        assert not found, orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()


NAME_OF = "e => e.ariaLabel || e.innerText.trim() || e.labels?.[0]?.innerText"


def test_the_memory_pool_and_what_is_switched_off_are_shown_where_there_are_any(server, browser):
    about, frames = seen(server, frames=2)
    now_ms = frames[0]["now_ms"]
    told = [dict(frames[0], now_ms=now_ms - 1000 * (59 - n), memory=pool(n)) for n in range(60)]
    told[-1]["devices"] = [frames[0]["devices"][0] | {"level": 3, "off": ["tracing", "timing"]}]
    page = browser.new_page(viewport=WIDE)
    body = "".join(
        f"event: {kind}\ndata: {json.dumps(content)}\n\n"
        for kind, content in [("about", about), *[("frame", frame) for frame in told]]
    )
    page.route("**/dashboard/events", lambda route: route.fulfill(body=body))
    page.goto(f"{server.url}/dashboard")
    page.wait_for_selector("#memory", state="visible")
    page.locator("#memory .js-plotly-plot .scatterlayer").wait_for()
    assert "paced: 86.7 MiB of weights" in caption(page, "memory")
    assert "switched off traces, stage times and explanations" in page.inner_text("#off")
    page.screenshot(path=screen("memory-light"))
    check_accessible(page)
    page.close()


def seen(server, *, frames):
    """What the stream says first, and so many frames."""
    found = []
    for kind, content in read_events(f"{server.url}/dashboard/events"):
        found.append((kind, content))
        if len(found) > frames:
            break
    return found[0][1], [content for _, content in found[1:]]


def pool(n):
    used = 40 + 30 * ((n // 10) % 3)
    shares = [
        {"name": "paced", "fixed_mib": 86.7, "leased_mib": used, "surplus_mib": 120 - used},
        {"name": "other", "fixed_mib": 20, "leased_mib": n, "surplus_mib": 10},
    ]
    return {"capacity_mib": 512, "held_mib": 236 + n, "shares": shares}


def test_it_is_worked_by_keyboard(server, browser, tmp_path):
    with load(server, tmp_path, "--clients", "4"), opened(browser, server) as page:
        until_live(page)
        assert page.is_visible("#memory"), "a callable's process counts"
        assert not page.is_visible("#off")
        page.wait_for_selector("#slowest summary")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for expected in ("scope", "range", "pause"):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.id") == expected
        page.keyboard.press("Enter")
        assert page.get_attribute("#pause", "aria-pressed") == "true"
        stands = page.inner_text("#figures")
        page.wait_for_timeout(2_500)
        assert page.inner_text("#figures") == stands, "paused"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.locator("#slowest summary").first.focus()
        page.keyboard.press("Enter")
        assert "stayed behind" in page.inner_text("#slowest")


def test_without_the_plot_library_the_figures_are_there_as_numbers(server, browser, tmp_path):
    page = browser.new_page(viewport=WIDE)
    page.route("**/plotly.min.js", lambda route: route.abort())
    with load(server, tmp_path, "--clients", "4"):
        page.goto(f"{server.url}/dashboard")
        until_live(page)
        assert page.is_visible("#plotless")
        assert not page.is_visible("#latency .plot")
        page.get_by_text(re.compile(r"p50 [\d.]+ ms, p95")).wait_for()
    page.close()


def test_a_server_that_asks_for_keys_shows_itself_to_who_has_one(browser, tmp_path):
    command = [sys.executable, "-m", "xirang", "key", "operator"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    (tmp_path / "keys.toml").write_text(made.stdout)
    key = made.stderr.split()[-1]
    with (
        ServerProcess([PACED], "--keys", str(tmp_path / "keys.toml")) as server,
        opened(browser, server) as page,
    ):
        page.wait_for_selector("#key-form", state="visible")
        assert page.locator("#figures div").count() == 0
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
        assert page.locator("#figures div").count() == 0
        page.fill("#key", key)
        page.keyboard.press("Enter")
        until_live(page)
        assert not page.is_visible("#key-form")


def test_a_server_that_is_gone_is_told_of(browser):
    with ServerProcess([PACED]) as server, opened(browser, server) as page:
        until_live(page)
        assert server.stop() == 0, "an open dashboard does not keep it from its end"
        page.wait_for_selector("#state.lost")
