"""Messages and descriptors over a socket pair: whole, in order, each descriptor with its own."""

import os
import socket
import threading

import pytest
from hypothesis import given, settings, strategies as st

from xirang.backends.isolated.channel import Channel
from xirang.backends.isolated.conversation import Conversation
from xirang.backends.isolated.messages import Ask, AskOther, OtherTold, Response
from xirang.backends.isolated.segment import mapped, written
from xirang.backends.requests import About, InnerCall


def pair():
    return [Channel(end) for end in socket.socketpair()]


def file_of(text):
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    return reading


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40_000), st.booleans()), max_size=12))
def test_what_is_sent_comes_whole_and_with_its_descriptor(messages):
    """However they are cut or glued on the way."""
    ours, theirs = pair()
    sent = []

    def send():
        for number, (length, has_descriptor) in enumerate(messages):
            ask = Ask([], int(has_descriptor), ["x" * length, str(number)], False)
            sent.append(ask)
            ours.send(ask, file_of(b"%d" % number) if has_descriptor else None)

    sender = threading.Thread(target=send)
    sender.start()
    for number, (_, has_descriptor) in enumerate(messages):
        message, descriptor = theirs.receive()
        assert message.wanted[1] == str(number)
        assert (descriptor is not None) == has_descriptor
        if descriptor is not None:
            assert os.read(descriptor, 9) == b"%d" % number
            os.close(descriptor)
    sender.join()
    assert not theirs.has_more()
    ours.close()
    with pytest.raises(EOFError):
        theirs.receive()
    theirs.close()


def test_who_waits_for_too_long_is_told():
    ours, theirs = pair()
    ours.wait_at_most(0.01)
    with pytest.raises(TimeoutError):
        ours.receive()
    ours.close()
    theirs.close()


def test_threads_that_ask_at_once_each_get_their_own_answer():
    """And the task that comes in between goes to who waits for tasks."""
    ours, theirs = pair()
    conversation = Conversation(theirs)
    conversation.is_shared = True
    found = {}

    def ask(number):
        found[number] = conversation.call(InnerCall(str(number), "", {}, ["y"], About()))

    threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    asked = []
    for _ in threads:
        message, descriptor = ours.receive()
        assert isinstance(message, AskOther)
        mapped(descriptor, message.size_bytes)
        asked.append(message)
    ours.send(Ask([], 0, ["task"], False))
    for message in reversed(asked):
        if message.model == "3":
            ours.send(OtherTold(message.number, [], 0, Response(0, "no", 3)))
            continue
        segment, placed, descriptor = written([])
        ours.send(OtherTold(message.number, placed, segment.size_bytes, Response(0)), descriptor)
    for thread in threads:
        thread.join()
    assert str(found.pop(3)) == "no"
    assert found == {number: {} for number in range(8) if number != 3}
    task, _ = conversation.next_task()
    assert task.wanted == ["task"]
    ours.close()
    with pytest.raises(EOFError):
        conversation.next_task()
    theirs.close()
