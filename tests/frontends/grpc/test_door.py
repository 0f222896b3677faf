"""Whether there is a gRPC door: as it is set, and as grpcio is there."""

import asyncio
import subprocess
import sys

import pytest
from tests.frontends.puppets import PuppetService

from xirang.config import GRPC_PORT, Config, load_config
from xirang.errors import InvalidSetting
from xirang.frontends.doors import grpc_door


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
def no_grpcio(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "xirang.frontends.grpc.grpcio", raising=False)


def test_a_free_port_or_none():
    assert opened(Config(grpc_port=0)).port > 0
    assert opened(Config(grpc_port=-1)) is None


def test_without_grpcio_there_is_http_alone(no_grpcio, caplog):
    caplog.set_level("INFO")
    assert opened(Config()) is None
    assert "pip install 'xirang[grpc]'" in caplog.text


def test_a_server_without_the_door_loads_nothing_for_it():
    program = "import sys, xirang.app\nassert not {'grpc', 'google.protobuf'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_who_asks_for_a_port_needs_grpcio(no_grpcio):
    with pytest.raises(InvalidSetting, match="gRPC needs `pip install"):
        opened(Config(grpc_port=GRPC_PORT + 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [("grpc_port", -2), ("grpc_port", 65_536), ("grpc_message_mib_max", 2048)],
)
def test_settings_that_cannot_work_are_refused(name, value):
    with pytest.raises(InvalidSetting, match=f"{name} is {value}; expected"):
        load_config(environment={}, options={name: value})
