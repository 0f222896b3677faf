"""The dashboard's routes: its page and parts, and a stream that costs nothing without viewers."""

import asyncio
import gzip
import re
from types import SimpleNamespace

import orjson
import pytest
from tests.frontends.puppets import PuppetModel, PuppetService

from xirang.frontends.cold import cold_app
from xirang.frontends.dashboard import assets, is_open
from xirang.frontends.dashboard.stream import Broadcast

CONFIG = {
    "platform": "onnxruntime_onnx",
    "max_batch_size": 8,
    "instance_group": [{"count": 2}],
    "xirang": {"verdict": "exact", "overrides": [], "budget_ms": 50.0},
}


def service():
    return PuppetService(PuppetModel("m", (), (), config=CONFIG))


def get(app, path, headers=()):
    sent = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": list(headers),
    }

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return SimpleNamespace(status=sent[0]["status"], headers=headers, body=body)


# ---------------------------------------------------------------------- the page


def test_the_page_and_its_parts_come_from_here_alone():
    app = cold_app(service(), {})
    page = get(app, "/dashboard")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"://" not in page.body, "nothing is loaded from anywhere else"
    parts = re.findall(rb'(?:src|href)="(dashboard/[^"]+)"', page.body)
    assert len(parts) == 3, "the style, the script and the plot library"
    for part in parts:
        found = get(app, f"/{part.decode()}")
        assert found.status == 200
        assert "immutable" in found.headers["cache-control"]


@pytest.mark.parametrize("name", [*assets.PARTS, assets.LIBRARY])
def test_a_part_goes_compressed_to_whoever_takes_it(name):
    app = cold_app(service(), {})
    path = f"/dashboard/{assets.digest()}/{name}"
    plain = get(app, path)
    small = get(app, path, [(b"accept-encoding", b"gzip, br")])
    assert small.headers["content-encoding"] == "gzip"
    assert small.headers["vary"] == "accept-encoding"
    assert gzip.decompress(small.body) == plain.body
    assert len(small.body) < len(plain.body)


def test_an_address_of_another_version_is_not_kept():
    found = get(cold_app(service(), {}), "/dashboard/000000000000/page.js")
    assert (found.status, found.headers["cache-control"]) == (200, "no-store")


def test_there_are_no_other_files():
    app = cold_app(service(), {})
    for name in ("routes.py", "..", "%2e%2e", "page.html"):
        assert get(app, f"/dashboard/{assets.digest()}/{name}").status == 404


def test_without_the_plot_library_the_page_is_there_and_asks_for_none(monkeypatch):
    monkeypatch.setattr(assets, "library_path", lambda: None)
    for cached in (assets.page, assets.digest, assets.asset):
        cached.cache_clear()
    try:
        page = get(cold_app(service(), {}), "/dashboard").body
        assert b"plotly.min.js" not in page
        assert b"pip install" in page
        assert get(cold_app(service(), {}), f"/dashboard/x/{assets.LIBRARY}").status == 404
    finally:
        for cached in (assets.page, assets.digest, assets.asset):
            cached.cache_clear()


def test_what_needs_a_key_is_what_tells_something():
    assert is_open("/dashboard")
    assert is_open("/dashboard/abc/page.js")
    assert not is_open("/dashboard/events")
    assert not is_open("/dashboards")


# ---------------------------------------------------------------------- the stream


def read(viewer):
    """What a viewer has been sent: pairs of kind and content, and None for the end."""
    found = []
    while not viewer.empty():
        event = viewer.get_nowait()
        if event is None:
            found.append(None)
            continue
        kind, content = re.fullmatch(rb"event: (\w+)\ndata: (.*)\n\n", event, re.DOTALL).groups()
        found.append((kind.decode(), orjson.loads(content)))
    return found


class Ticks:
    """The loop's timers, passed by hand."""

    def __init__(self, monkeypatch):
        self.due = []
        loop = SimpleNamespace(call_later=lambda delay_s, call: self.due.append((delay_s, call)))
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)

    def __call__(self):
        (_, call), self.due[:] = self.due[0], self.due[1:]
        call()


@pytest.fixture
def tick(monkeypatch):
    return Ticks(monkeypatch)


def test_nobody_who_looks_makes_no_frame_and_no_timer(tick):
    house = service()
    broadcast = Broadcast(house, version="1")
    assert house.watches == tick.due == []
    viewer = broadcast.join()
    broadcast.leave(viewer)
    tick()
    (watch,) = house.watches
    assert (watch.frames, watch.is_closed) == (1, True)
    assert tick.due == []


def test_a_viewer_is_told_what_there_is_and_then_every_second(tick):
    broadcast = Broadcast(service(), version="1.2")
    viewer = broadcast.join()
    (_, about), (kind, frame) = read(viewer)
    assert about["version"] == "1.2"
    assert about["bounds"] == {"spans_ms": [1.0], "batch_rows": [1]}
    (model,) = about["models"]
    assert (model["name"], model["instances"], model["verdict"]) == ("m", 2, "exact")
    assert (kind, frame["now_ms"]) == ("frame", 1000)
    tick()
    assert [content["now_ms"] for _, content in read(viewer)] == [2000]
    assert [delay_s for delay_s, _ in tick.due] == [1.0]


def test_all_viewers_share_one_watch_and_its_frames(tick):
    house = service()
    broadcast = Broadcast(house, version="1")
    viewers = [broadcast.join() for _ in range(3)]
    tick()
    assert len(house.watches) == 1
    assert house.watches[0].frames == 2
    assert len({viewer.get_nowait() for viewer in viewers}) == 1


def test_a_slow_viewer_misses_frames_and_holds_up_nobody(tick):
    broadcast = Broadcast(service(), version="1")
    slow, quick = broadcast.join(), broadcast.join()
    for _ in range(9):
        tick()
        quick_got = read(quick)
    assert [content["now_ms"] for _, content in quick_got] == [10_000]
    assert [content["now_ms"] for _, content in read(slow)] == [7000, 8000, 9000, 10_000]


def test_a_model_that_comes_later_is_told_of(tick):
    house = service()
    broadcast = Broadcast(house, version="1")
    viewer = broadcast.join()
    read(viewer)
    house.models["n"] = PuppetModel("n", (), ())
    tick()
    (kind, about), _ = read(viewer)
    assert (kind, [model["name"] for model in about["models"]]) == ("about", ["m", "n"])


@pytest.mark.parametrize("why", ["is_draining", "is_off"])
def test_a_server_that_goes_down_or_is_overloaded_ends_the_stream(tick, why):
    house = service()
    broadcast = Broadcast(house, version="1")
    viewer = broadcast.join()
    read(viewer)
    house.watches[0].end[why] = True
    tick()
    (_, frame), end = read(viewer)
    assert frame[why]
    assert end is None


def test_viewers_are_bounded(tick):
    broadcast = Broadcast(service(), version="1", viewers_max=2)
    first = broadcast.join()
    assert not broadcast.is_full
    broadcast.join()
    assert broadcast.is_full
    broadcast.leave(first)
    assert not broadcast.is_full
