"""Whether there is a gRPC door, and which: as it is set, and as what it needs is there."""

import asyncio
import subprocess
import sys

import pytest
from tests.frontends.puppets import PuppetService

from xirang.config import GRPC_PORT, Config, load_config
from xirang.errors import InvalidSetting
from xirang.frontends.doors import grpc_door
from xirang.frontends.grpc import settings as grpc_settings


def opened(config):
    """The gRPC door of a server with these settings, after it has been shut."""

    async def main():
        door = grpc_door(config, PuppetService(), None, None)
        if door is not None:
            door.shut(0)
            await door.serve()
        return door

    return asyncio.run(main())


@pytest.fixture
def nothing_installed(monkeypatch):
    def door_of(_server):
        raise ImportError("No module named 'hpack'")

    monkeypatch.setattr(grpc_settings, "door_of", door_of)


def test_a_free_port_or_none():
    assert opened(Config(grpc_port=-1)) is None


@pytest.mark.parametrize(("name", "kind"), [("own", "OwnDoor"), ("grpcio", "GrpcioDoor")])
def test_a_setting_says_what_carries_it(name, kind):
    door = opened(Config(grpc_port=0, grpc_server=name))
    assert door.port > 0
    assert type(door).__name__ == kind


@pytest.mark.parametrize(("name", "library"), [("own", "hpack"), ("grpcio", "grpc")])
def test_a_door_needs_its_library_and_not_the_other(name, library):
    program = (
        "import sys\n"
        f"sys.modules['{library}'] = None\n"
        "from xirang.frontends.grpc.settings import door_of\n"
        "for name in ('own', 'grpcio'):\n"
        "    try:\n"
        "        print(door_of(name).__name__)\n"
        "    except ImportError:\n"
        "        print('none')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    names = {"own": "OwnDoor", "grpcio": "GrpcioDoor"} | {name: "none"}
    assert ran.stdout.split() == list(names.values())


def test_without_what_it_needs_there_is_http_alone(nothing_installed, caplog):
    caplog.set_level("INFO")
    assert opened(Config(grpc_server="own")) is None
    assert "pip install 'xirang[grpc]'" in caplog.text


@pytest.mark.parametrize(
    ("wanted", "extra"),
    [
        ({"grpc_port": GRPC_PORT + 1, "grpc_server": "own"}, "grpc"),
        ({"grpc_server": "grpcio"}, "grpcio"),
    ],
)
def test_who_asks_for_what_is_not_there_is_told_what_to_install(nothing_installed, wanted, extra):
    with pytest.raises(InvalidSetting, match=rf"gRPC needs `pip install 'xirang\[{extra}\]'"):
        opened(Config(**wanted))


def test_a_server_without_the_door_loads_nothing_for_it():
    program = "import sys, xirang.app\nassert not {'grpc', 'google.protobuf'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("grpc_port", -2), ("grpc_port", 65_536), ("grpc_message_mib_max", 2048)],
)
def test_settings_that_cannot_work_are_refused(name, value):
    with pytest.raises(InvalidSetting, match=f"{name} is {value}; expected"):
        load_config(environment={}, options={name: value})
