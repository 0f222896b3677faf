"""Streams from bytes to bytes: answers as they are ready, faults inside, and reflection."""

import pytest
from grpc_reflection.v1alpha import reflection_pb2
from tests.frontends.grpc.calls import wish
from tests.frontends.puppets import PuppetService, echo_model
from tritonclient.grpc import service_pb2 as pb

from xirang.errors import Expired
from xirang.frontends.grpc.servicer import Envelope, Servicer
from xirang.frontends.grpc.status import Code
from xirang.frontends.grpc.stream import InferStream, streams_of


@pytest.fixture
def service():
    return PuppetService(echo_model(version="3"))


@pytest.fixture
def servicer(service):
    return Servicer(service)


class Wire:
    """A client's end of a stream."""

    def __init__(self, servicer):
        self.sent = []
        self.answered = 0
        self.is_finished = False
        self.stream = InferStream(servicer, self.take, self.count, self.finish)

    def take(self, message):
        self.sent.append(pb.ModelStreamInferResponse.FromString(message))

    def count(self):
        self.answered += 1

    def finish(self):
        assert not self.is_finished
        self.is_finished = True

    def send(self, message, envelope=None):
        encoded = message if isinstance(message, bytes) else message.SerializeToString()
        self.stream.receive(encoded, envelope or Envelope())

    def take_all(self):
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def wire(servicer):
    return Wire(servicer)


def test_answers_of_a_stream_come_as_they_are_ready(service, wire):
    for identity in "abc":
        wire.send(wish(identity))
    first, second, third = service.calls
    for call in (third, first, second):
        call.reply(service.echo(call))
    assert [each.infer_response.id for each in wire.sent] == ["c", "a", "b"]
    for response in wire.sent:
        assert response.infer_response.parameters["triton_final_response"].bool_param
        assert not response.error_message


def test_an_error_is_told_inside_the_stream_which_goes_on(service, wire):
    wire.send(wish("a", model="nope"))
    wire.send(b"\xff\xff")
    wire.send(wish("b"))
    service.answer(Expired("Request timeout expired"))
    wire.send(wish("c"))
    service.answer()
    unknown, broken, expired, good = wire.take_all()
    assert "'nope' is not found" in unknown.error_message
    assert unknown.infer_response.id == "a"
    assert "not a ModelInferRequest" in broken.error_message
    assert expired.error_message == "Request timeout expired"
    assert expired.infer_response.id == "b"
    assert good.infer_response.id == "c"
    assert not good.error_message


def test_a_stream_ends_when_all_are_answered(service, wire):
    wire.send(wish("a"))
    wire.stream.end()
    assert not wire.is_finished
    service.answer()
    assert wire.is_finished
    wire.stream.end()


def test_a_stream_without_requests_ends_at_once(wire):
    wire.stream.end()
    assert wire.is_finished


def test_who_abandons_a_stream_takes_back_what_waits(service, wire):
    for identity in "ab":
        wire.send(wish(identity))
    service.answer()
    wire.stream.abandon()
    assert [ticket.is_cancelled for ticket in service.tickets] == [False, True]
    assert [each.infer_response.id for each in wire.sent] == ["a"]


def test_each_request_of_a_stream_has_what_is_left_of_the_deadline(service, wire):
    wire.send(wish(), Envelope(time_left_ns=9))
    wire.send(wish(), Envelope(time_left_ns=4))
    assert [call.budget_ns for call in service.calls] == [9, 4]


def test_an_answer_at_once_needs_no_ticket(service, wire):
    service.is_prompt = True
    wire.send(wish("a"))
    wire.stream.abandon()
    assert len(wire.sent) == 1
    assert not service.tickets[0].is_cancelled


def reflect(servicer, **request):
    sent = []
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    stream = streams_of(servicer)[path](sent.append, lambda: None, lambda: sent.append(None))
    message = reflection_pb2.ServerReflectionRequest(**request)
    stream.receive(message.SerializeToString(), Envelope())
    stream.abandon()
    stream.end()
    assert sent.pop() is None
    return reflection_pb2.ServerReflectionResponse.FromString(sent[0])


def test_reflection_lists_the_services(servicer):
    listed = reflect(servicer, list_services="*").list_services_response.service
    assert {
        "inference.GRPCInferenceService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    } <= {service.name for service in listed}


def test_reflection_gives_files_and_says_what_it_has_not(servicer):
    symbol = "inference.GRPCInferenceService.ModelInfer"
    by_symbol = reflect(servicer, file_containing_symbol=symbol)
    by_name = reflect(servicer, file_by_filename="xirang/inference/GRPCInferenceService.proto")
    (file,) = by_symbol.file_descriptor_response.file_descriptor_proto
    assert by_name.file_descriptor_response.file_descriptor_proto == [file]
    assert b"raw_input_contents" in file
    for lacking in (
        {"file_by_filename": "none"},
        {"file_containing_symbol": "none"},
        {"all_extension_numbers_of_type": "none"},
        {},
    ):
        assert reflect(servicer, **lacking).error_response.error_code == Code.NOT_FOUND
