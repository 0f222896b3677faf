"""An arena says what is idle, and what of it waits to be given back."""

from xirang.core.memory.arena import Arena, ArenaSnapshot
from xirang.core.memory.broker import Share


def test_the_surplus_that_recent_runs_needed_does_not_wait():
    place = Arena(0, Share("a", 4, 8), reserved=16, committed=8, leased=2, recent=5)
    assert place.idle == 6
    assert place.waiting == 3


def test_a_large_lease_keeps_more_than_recent_runs_did():
    place = Arena(0, Share("a", 4, 8), reserved=16, committed=8, leased=7, recent=5)
    assert place.waiting == 1


def test_a_snapshot_is_in_bytes():
    place = Arena(0, Share("a", 4, 8), reserved=16, committed=8, leased=2, recent=5)
    assert place.snapshot(10) == ArenaSnapshot("a", 160, 80, 20, 60, 30)
