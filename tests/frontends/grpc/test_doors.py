"""The gRPC doors, ours and grpcio's, on the loop that the server runs on, a puppet behind them."""

import asyncio
import contextlib
import socket

import grpc
import grpc.aio
import pytest
import uvloop
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tests.frontends.puppets import PuppetService
from tests.frontends.test_doors import certificate
from tritonclient.grpc import service_pb2 as pb, service_pb2_grpc

from xirang.errors import InvalidSetting, TooBusy, XirangError
from xirang.frontends.grpc import grpcio, talk
from xirang.frontends.grpc.servicer import Servicer
from xirang.frontends.grpc.settings import GrpcSettings, door_of

DEADLINE_S = 30
MIB = 1 << 20
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": None}


def run(main, loop="uvloop"):
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(asyncio.wait_for(main, DEADLINE_S))


async def until(condition):
    """Let others go on until it is so."""
    loop = asyncio.get_running_loop()
    while not condition():
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


def wish(identity="", size=2, model="echo"):
    message = pb.ModelInferRequest(
        model_name=model, id=identity, raw_input_contents=[bytes(4 * size)]
    )
    message.inputs.add(name="x", datatype="FP32", shape=[1, size])
    return message


@pytest.fixture(params=["own", "grpcio"], autouse=True)
def server(request, monkeypatch):
    monkeypatch.setattr(House, "server", request.param)


class House:
    """A door that is open, and clients."""

    server = "own"

    def __init__(self, service, **options):
        self.service = service
        settings = {"host": "127.0.0.1", "port": 0, "message_bytes_max": 4 * MIB}
        self.door = door_of(self.server)(Servicer(service), GrpcSettings(**settings | options))
        self.serving = asyncio.ensure_future(self.door.serve())
        self.place = f"127.0.0.1:{self.door.port}"

    async def __aenter__(self):
        self.channel = grpc.aio.insecure_channel(self.place)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        self.door.shut(0)
        await self.serving

    async def until_asked(self, count):
        await until(lambda: len(self.service.calls) >= count)


async def code_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


@pytest.mark.parametrize("loop", LOOPS)
def test_many_calls_are_answered_each_with_its_own(loop):
    async def main():
        async with House(PuppetService(is_prompt=True)) as house:
            calls = [house.stub.ModelInfer(wish(str(i))) for i in range(200)]
            assert [(await call).id for call in calls] == [str(i) for i in range(200)]
            assert (await house.stub.ServerLive(pb.ServerLiveRequest())).live
            assert {ticket.call.budget_ns for ticket in house.service.tickets} == {None}
            assert len({ticket.call.client for ticket in house.service.tickets}) == 1

    run(main(), loop)


def test_a_cancelled_call_leaves_the_queue():
    async def main():
        async with House(PuppetService()) as house:
            call = house.stub.ModelInfer(wish())
            await house.until_asked(1)
            call.cancel()
            await until(lambda: house.service.tickets[0].is_cancelled)

    run(main())


def test_a_deadline_is_a_budget_and_its_end_takes_the_call_back():
    async def main():
        async with House(PuppetService()) as house:
            call = house.stub.ModelInfer(wish(), timeout=0.2)
            code, _ = await code_of(call)
            assert code is grpc.StatusCode.DEADLINE_EXCEEDED
            assert 0 < house.service.calls[0].budget_ns <= 200_000_000
            await until(lambda: house.service.tickets[0].is_cancelled)

    run(main())


def test_a_client_that_goes_away_takes_back_all_that_waits():
    async def main():
        async with House(PuppetService()) as house:
            async with grpc.aio.insecure_channel(house.place) as channel:
                stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                stream = stub.ModelStreamInfer()
                for identity in "abc":
                    await stream.write(wish(identity))
                await house.until_asked(3)
            await until(lambda: all(ticket.is_cancelled for ticket in house.service.tickets))

    run(main())


def test_who_is_turned_away_is_told_when_to_come_back():
    async def main():
        service = PuppetService()
        service.refusal = TooBusy("Exceeds maximum queue size", retry_after_ns=7_000_000)
        async with House(service) as house:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await house.stub.ModelInfer(wish())
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert caught.value.details() == "Exceeds maximum queue size"
            assert tuple(caught.value.trailing_metadata()) == (("grpc-retry-pushback-ms", "7"),)

    run(main())


def test_errors_of_every_kind_have_code_and_text():
    async def main():
        async with House(PuppetService()) as house:
            code, text = await code_of(house.stub.ModelInfer(wish(model="nope")))
            assert (code, text) == (
                grpc.StatusCode.NOT_FOUND,
                "Request for unknown model: 'nope' is not found",
            )
            code, _ = await code_of(house.stub.ModelConfig(pb.ModelConfigRequest(name="nope")))
            assert code is grpc.StatusCode.NOT_FOUND
            unknown = house.channel.unary_unary("/inference.GRPCInferenceService/Nothing")
            code, _ = await code_of(unknown(b""))
            assert code is grpc.StatusCode.UNIMPLEMENTED
            call = house.stub.ModelInfer(wish())
            await house.until_asked(1)
            house.service.answer(XirangError("what it was: 息壤 100 %"))
            assert (await code_of(call))[1] == "what it was: 息壤 100 %"

    run(main())


@pytest.mark.parametrize("coding", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_read_within_the_bound(coding):
    async def main():
        async with House(PuppetService(is_prompt=True)) as house:
            small = await house.stub.ModelInfer(wish(size=MIB // 2), compression=coding)
            assert list(small.outputs[0].shape) == [1, MIB // 2]
            bomb = house.stub.ModelInfer(wish(size=2 * MIB), compression=coding)
            assert (await code_of(bomb))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert len(house.service.tickets) == 1

    run(main())


def test_a_message_beyond_the_bound_is_refused_and_the_connection_lives():
    async def main():
        async with House(PuppetService(is_prompt=True)) as house:
            call = house.stub.ModelInfer(wish(size=MIB + 1))
            assert (await code_of(call))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await house.stub.ModelInfer(wish())

    run(main())


def test_a_stream_is_answered_in_any_order_and_ends_when_all_are():
    async def main():
        async with House(PuppetService()) as house:
            stream = house.stub.ModelStreamInfer()
            for identity in "ab":
                await stream.write(wish(identity))
            await stream.write(wish("c", model="nope"))
            await stream.done_writing()
            await house.until_asked(2)
            house.service.calls.rotate()
            while house.service.calls:
                house.service.answer()
            answers = [answer async for answer in stream]
            good = [a.infer_response.id for a in answers if not a.error_message]
            (bad,) = (a for a in answers if a.error_message)
            assert (good, bad.infer_response.id) == (["b", "a"], "c")

    run(main())


def test_a_stream_does_not_take_more_than_it_may_hold(monkeypatch):
    monkeypatch.setattr(grpcio, "UNANSWERED_MAX", 4)
    monkeypatch.setattr(talk, "UNANSWERED_MAX", 4)

    async def main():
        async with House(PuppetService()) as house:
            stream = house.stub.ModelStreamInfer()
            for number in range(8):
                await stream.write(wish(str(number)))
            await house.until_asked(4)
            for _ in range(50):
                await house.stub.ServerLive(pb.ServerLiveRequest())
            assert len(house.service.calls) == 4
            for number in range(8):
                await house.until_asked(1)
                house.service.answer()
                assert (await stream.read()).infer_response.id == str(number)
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF

    run(main())


def test_shutting_lets_what_is_in_end_and_closes_idle_streams():
    async def main():
        async with House(PuppetService()) as house:
            idle, busy = house.stub.ModelStreamInfer(), house.stub.ModelStreamInfer()
            lone = house.stub.ModelInfer(wish("lone"))
            await idle.write(wish("first"))
            await house.until_asked(2)
            while house.service.calls:
                house.service.answer()
            assert (await idle.read()).infer_response.id == "first"
            assert (await lone).id == "lone"
            await busy.write(wish("busy"))
            await house.until_asked(1)
            house.door.shut(DEADLINE_S)
            assert await idle.read() is grpc.aio.EOF
            assert not house.serving.done()
            house.service.answer()
            assert (await busy.read()).infer_response.id == "busy"
            assert await busy.read() is grpc.aio.EOF
            await house.serving

    run(main())


def test_a_port_is_not_shared():
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(InvalidSetting, match=f"cannot listen on 127.0.0.1:{port}"):
                House(PuppetService(), port=port)

    run(main())


def test_over_tls(tmp_path):
    chain, key = certificate(tmp_path)

    async def main():
        house = House(PuppetService(is_prompt=True), certificate=(str(chain), str(key)))
        trusted = grpc.ssl_channel_credentials(chain.read_bytes())
        async with house, grpc.aio.secure_channel(house.place, trusted) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            assert (await stub.ModelInfer(wish("a"))).id == "a"

    run(main())


def test_tools_find_the_services_by_reflection():
    async def main():
        async with House(PuppetService()) as house:
            await asyncio.to_thread(reflect, house.place)

    def reflect(place):
        with contextlib.closing(grpc.insecure_channel(place)) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            assert "inference.GRPCInferenceService" in database.get_services()
            file = database.FindFileContainingSymbol("inference.GRPCInferenceService")
            assert "ModelInferRequest" in [message.name for message in file.message_type]
            config = database.FindFileByName(file.dependency[0])
            assert "ModelConfig" in [message.name for message in config.message_type]

    run(main())


def test_a_reflection_request_that_is_none_is_refused():
    async def main():
        async with House(PuppetService()) as house:
            path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            stream = house.channel.stream_stream(path)()
            await stream.write(b"\xff")
            assert (await code_of(stream.read()))[0] is grpc.StatusCode.INVALID_ARGUMENT

    run(main())
