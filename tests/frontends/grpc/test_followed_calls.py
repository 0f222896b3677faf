"""Calls over gRPC that are followed: alone and in streams, well answered or not."""

from random import Random

import pytest
from tests.frontends.grpc.calls import wish
from tests.frontends.puppets import PuppetService, echo_model

from xirang.errors import Expired, TooBusy
from xirang.frontends.extensions import Extensions
from xirang.frontends.grpc.servicer import INFER_PATH, STREAM_PATH, Envelope, Servicer
from xirang.frontends.grpc.status import Code
from xirang.frontends.grpc.stream import InferStream
from xirang.observe.sampling import Sampler
from xirang.observe.witness import Witness

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = Envelope({b"traceparent": f"00-{TRACE}-b7ad6b7169203331-01".encode()})
UNSAMPLED = Envelope({b"traceparent": f"00-{TRACE}-b7ad6b7169203331-00".encode()})


class Left(list):
    """An outlet whose end is the test."""

    put = list.append


@pytest.fixture
def service():
    return PuppetService(echo_model())


@pytest.fixture
def spans():
    return Left()


@pytest.fixture
def servicer(service, spans):
    witness = Witness(
        Sampler(0.0, random=Random(1)),
        Sampler(0.0, random=Random(2)),
        now_ns=service.now_ns,
        random=Random(3),
        is_off=service.is_off,
    )
    witness.leave_at(spans=spans)
    return Servicer(service, extensions=Extensions(witness=witness))


def ask(servicer, envelope, identity="mine"):
    """The replies of one call."""
    replies = []
    servicer.infer(wish(identity).SerializeToString(), envelope, replies.append)
    return replies


def test_a_call_is_traced_as_its_caller_is(service, servicer, spans):
    replies = ask(servicer, SAMPLED)
    service.answer()
    (sighting,) = spans
    assert (sighting.door, sighting.place, sighting.status) == ("grpc", INFER_PATH, 0)
    assert (sighting.model, sighting.identity) == ("echo", "mine")
    assert sighting.context.trace_id.hex() == TRACE
    assert sighting.sent_bytes == len(replies[0])
    assert sighting.received_bytes > 0
    for envelope in (UNSAMPLED, Envelope()):
        ask(servicer, envelope)
        service.answer()
    assert len(spans) == 1


def test_what_goes_wrong_is_seen_as_the_client_sees_it(service, servicer, spans):
    ask(servicer, SAMPLED)
    service.answer(Expired("too late"))
    service.refusal = TooBusy("full", retry_after_ns=1)
    (refused,) = ask(servicer, SAMPLED)
    assert [sighting.status for sighting in spans] == [Code.DEADLINE_EXCEEDED, refused.code]


def test_a_call_that_is_taken_back_ends_what_is_seen_of_it(service, servicer, spans):
    ticket = servicer.infer(wish("mine").SerializeToString(), SAMPLED, lambda _: None)
    ticket.cancel()
    (sighting,) = spans
    assert sighting.status == Code.CANCELLED


def test_each_request_of_a_stream_is_one_of_its_own(service, servicer, spans):
    stream = InferStream(servicer, lambda _: None, lambda: None, lambda: None)
    for identity in "ab":
        stream.receive(wish(identity).SerializeToString(), SAMPLED)
    service.answer()
    service.answer()
    assert [(each.place, each.identity) for each in spans] == [
        (STREAM_PATH, "a"),
        (STREAM_PATH, "b"),
    ]
    assert len({each.context.span_id for each in spans}) == 2
