"""Feeds decide who sends next; the timer rings once and not before its time."""

import asyncio
import sys
import time

import pytest

from xirang.lab.load.client import Connection, Target
from xirang.lab.load.feed import RETRY_PAUSE_S, ClosedFeed, OpenFeed
from xirang.lab.load.timer import Timer


class Recorder:
    """A sender on a hand-set clock that only notes what it is told to send."""

    def __init__(self):
        self.clock_ns = 0
        self.sent = []
        self.opened = []

    def now_ns(self):
        return self.clock_ns

    def connect(self):
        self.opened.append(Connection(Target("x"), None))
        return self.opened[-1]

    def send(self, connection, due_ns):
        self.sent.append((self.opened.index(connection), due_ns))


def test_closed_clients_send_again_until_the_window_ends():
    sender = Recorder()
    feed = ClosedFeed(sender, clients=2, warmup_ns=5, end_ns=20, request_count=None)
    feed.start()
    assert sender.sent == [(0, 0), (1, 0)]
    sender.clock_ns = 19
    feed.free(sender.opened[0])
    assert sender.sent[-1] == (0, 19)
    sender.clock_ns = 20
    feed.free(sender.opened[1])
    assert feed.exhausted
    assert len(sender.sent) == 3


def test_the_warm_up_does_not_use_up_the_request_count():
    sender = Recorder()
    feed = ClosedFeed(sender, clients=1, warmup_ns=5, end_ns=100, request_count=2)
    feed.start()
    for sender.clock_ns in (4, 5, 6, 7):
        feed.free(sender.opened[0])
    assert [due for _, due in sender.sent] == [0, 4, 5, 6]
    assert feed.exhausted


def test_a_client_without_an_answer_pauses_and_a_closed_feed_stays_silent():
    async def main(close):
        sender = Recorder()
        feed = ClosedFeed(sender, clients=1, warmup_ns=0, end_ns=100, request_count=None)
        feed.start()
        feed.broken(sender.opened[0])
        assert (feed.resting, len(sender.sent)) == (1, 1)
        if close:
            feed.close()
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(2 * RETRY_PAUSE_S, later.set)
        await later.wait()
        return feed.resting, len(sender.sent)

    assert asyncio.run(main(close=False)) == (0, 2)
    assert asyncio.run(main(close=True)) == (0, 1)


def test_open_requests_wait_in_order_for_a_connection_and_the_longest_idle_one_is_taken():
    async def main():
        sender = Recorder()
        sender.clock_ns = 10
        feed = OpenFeed(sender, due_ns=[1, 2, 3, 4], connections=2)
        feed.start()
        assert feed.exhausted
        assert sender.sent == [(0, 1), (1, 2)]
        assert (list(feed.waiting), feed.waiting_max) == ([3, 4], 2)
        feed.free(sender.opened[1])
        feed.broken(sender.opened[0])
        assert sender.sent[2:] == [(1, 3), (0, 4)]
        feed.close()

    asyncio.run(main())


@pytest.mark.parametrize("platform", [sys.platform, "elsewhere"])
def test_a_timer_rings_after_its_delay_and_only_for_the_latest_arming(platform, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)

    async def main():
        rung = []
        done = asyncio.Event()

        def ring():
            rung.append(time.perf_counter_ns())
            done.set()

        timer = Timer(ring)
        start_ns = time.perf_counter_ns()
        timer.arm(1_000_000)
        timer.arm(5_000_000)
        await asyncio.wait_for(done.wait(), 10)
        timer.arm(60_000_000_000)
        timer.close()
        assert len(rung) == 1
        assert rung[0] - start_ns >= 4_000_000  # asyncio's own clock may round by one tick

    asyncio.run(main())
