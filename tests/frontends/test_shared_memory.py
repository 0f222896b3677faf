"""Regions of shared memory: what may be registered, and what happens when an owner misbehaves."""

import gc
import os
from pathlib import Path

import orjson
import pytest
from tests.frontends.puppets import (
    PuppetModel,
    PuppetService,
    answer_of,
    connect,
    post,
    responses,
    spec,
)

from xirang.errors import InvalidRequest
from xirang.frontends.errors import TooLarge
from xirang.frontends.extensions import Extensions
from xirang.frontends.grpc import infer
from xirang.frontends.grpc.inference import ModelInferRequest
from xirang.frontends.routes import hot_routes
from xirang.frontends.v2 import kserve
from xirang.frontends.v2.shared_memory import (
    REGIONS_MAX,
    AlreadyRegistered,
    NotAllowed,
    Place,
    Regions,
    UnknownRegion,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "object").write_bytes(bytes(range(16)))
    return tmp_path


@pytest.fixture
def regions(folder):
    return Regions(is_allowed=True, folder=folder)


def descriptors():
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_was_registered_is_read_and_told(regions):
    regions.register("r", "/object", 4, 8)
    assert regions.read(Place("r", 0, 8)) == bytes(range(4, 12))
    assert regions.read(Place("r", 6, 2)) == bytes([10, 11])
    assert regions.read(Place("r", 8, 0)) == b""
    (region,) = regions.status()
    assert (region.name, region.key, region.offset, region.size_bytes) == ("r", "/object", 4, 8)
    assert regions.status("r") == [region]


def test_an_output_is_written_where_it_belongs(regions, folder):
    regions.register("r", "object", 4, 8)
    target = regions.targets({"y": Place("r", 2, 4)})["y"]
    target.write("y", b"abc")
    assert (folder / "object").read_bytes() == bytes(range(6)) + b"abc" + bytes(range(9, 16))
    with pytest.raises(InvalidRequest, match=r"'y' \(4 bytes\) should be at least 5 bytes"):
        target.write("y", b"abcde")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place("r", 9, 0), "Invalid offset for"),
        (Place("r", 2**62, 1), "Invalid offset for"),
        (Place("r", 0, 9), r"Invalid offset \+ byte size"),
        (Place("r", 8, 1), r"Invalid offset \+ byte size"),
        (Place("r", 1, 2**63 - 1), r"Invalid offset \+ byte size"),
    ],
)
def test_nothing_beyond_a_region_is_touched(regions, place, words):
    regions.register("r", "/object", 0, 8)
    with pytest.raises(InvalidRequest, match=words):
        regions.read(place)
    with pytest.raises(InvalidRequest, match=words):
        regions.targets({"y": place})


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        ".",
        "..",
        "/..",
        "a/b",
        "/../object",
        "//object",
        "a\0b",
        "x" * 256,
        "\udcff",
        "dir",
    ],
)
def test_a_key_leads_nowhere_else(regions, folder, key):
    (folder / "dir").mkdir()
    with pytest.raises(InvalidRequest, match="Unable to open"):
        regions.register("r", key, 0, 1)


def test_links_and_pipes_are_no_regions(regions, folder):
    (folder / "link").symlink_to(folder / "object")
    os.mkfifo(folder / "pipe")
    before = descriptors()
    for key in ("link", "pipe"):
        with pytest.raises(InvalidRequest, match="Unable to open"):
            regions.register("r", key, 0, 1)
    assert descriptors() == before


@pytest.mark.parametrize(
    ("offset", "size_bytes"),
    [(0, 0), (-1, 4), (0, -4), (0, 17), (16, 1), (2**63, 1), (1, 2**63 - 1), (2**64, 2**64)],
)
def test_a_region_is_within_its_object(regions, offset, size_bytes):
    before = descriptors()
    with pytest.raises(InvalidRequest, match="failed to register shared memory region 'r'"):
        regions.register("r", "object", offset, size_bytes)
    assert descriptors() == before
    assert regions.status() == []


def test_a_name_is_taken_once(regions):
    regions.register("r", "object", 0, 8)
    with pytest.raises(AlreadyRegistered, match="shared memory region 'r' already in manager"):
        regions.register("r", "object", 8, 8)
    regions.unregister("r")
    regions.unregister("r")
    with pytest.raises(UnknownRegion, match="Unable to find system shared memory region: 'r'"):
        regions.status("r")
    with pytest.raises(UnknownRegion, match="Unable to find shared memory region: 'r'"):
        regions.read(Place("r", 0, 1))
    regions.register("r", "object", 8, 8)
    regions.register("s", "object", 8, 8)
    regions.unregister()
    assert regions.status() == []


def test_an_object_that_was_cut_short_is_told_and_kills_nobody(regions, folder):
    regions.register("r", "object", 0, 16)
    target = regions.targets({"y": Place("r", 8, 8)})["y"]
    os.truncate(folder / "object", 10)
    with pytest.raises(InvalidRequest, match="has become shorter than the region"):
        regions.read(Place("r", 0, 16))
    with pytest.raises(InvalidRequest, match="has become shorter than the region"):
        target.write("y", bytes(8))
    assert (folder / "object").stat().st_size == 10
    assert regions.read(Place("r", 0, 10)) == bytes(range(10))


def test_a_region_stays_open_for_whoever_still_writes_to_it(regions, folder):
    before = descriptors()
    regions.register("r", "object", 0, 16)
    target = regions.targets({"y": Place("r", 0, 4)})["y"]
    regions.unregister()
    (folder / "object").rename(folder / "moved")
    target.write("y", b"done")
    assert (folder / "moved").read_bytes()[:4] == b"done"
    assert descriptors() == before + 1
    del target
    assert descriptors() == before


def test_there_are_not_any_number_of_regions(regions):
    for number in range(REGIONS_MAX):
        regions.register(f"r{number}", "object", 0, 16)
    with pytest.raises(InvalidRequest, match="expected at most"):
        regions.register("r", "object", 0, 16)
    regions.unregister()


def test_who_was_not_asked_shares_nothing(folder):
    regions = Regions(folder=folder)
    with pytest.raises(NotAllowed, match="--allow-shared-memory true"):
        regions.register("r", "object", 0, 16)
    assert regions.status() == []
    regions.unregister()


def test_a_request_cannot_have_any_amount_copied(folder):
    """Many inputs that name the same region are a small request that would fill the memory."""
    regions = Regions(is_allowed=True, folder=folder, bytes_max=24)
    regions.register("r", "object", 0, 16)
    http, over_grpc = [], ModelInferRequest(model_name="m")
    for number in range(2):
        name = f"x{number}"
        place = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
        http.append({"name": name, "datatype": "UINT8", "shape": [1, 16], "parameters": place})
        tensor = over_grpc.inputs.add(name=name, datatype="UINT8", shape=[1, 16])
        tensor.parameters["shared_memory_region"].string_param = "r"
        tensor.parameters["shared_memory_byte_size"].int64_param = 16
    with pytest.raises(TooLarge, match="larger than 24 bytes together"):
        kserve.decode(orjson.dumps({"inputs": http}), None, regions)
    with pytest.raises(TooLarge, match="larger than 24 bytes together"):
        infer.decode(over_grpc, regions)
    found = kserve.decode(orjson.dumps({"inputs": http[:1]}), None, regions)
    assert (found.inputs["x0"].data, found.placed_bytes) == (bytes(range(16)), 16)
    del over_grpc.inputs[1]
    found = infer.decode(over_grpc, regions)
    assert (found.inputs["x0"].data, found.placed_bytes) == (bytes(range(16)), 16)


def test_what_was_copied_takes_memory_until_the_answer(folder):
    regions = Regions(is_allowed=True, folder=folder)
    regions.register("r", "object", 0, 16)
    service = PuppetService(PuppetModel("m", (spec("x", "FP32", None, 4),), ()))
    match = hot_routes(service, {}, None, Extensions(regions))
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": place}
    body = orjson.dumps({"inputs": [tensor]})
    protocol, line, _ = connect(match, memory_bytes_max=2 * len(body) + 31)
    protocol.data_received(post("/v2/models/m/infer", body))
    assert protocol.memory.held_bytes == len(body) + 16
    protocol.data_received(post("/v2/models/m/infer", body))
    service.calls[0].reply(answer_of({}))
    first, second = responses(line.take())
    assert (first.status, second.status) == (200, 503)
    assert protocol.memory.held_bytes == 0
