"""Who is owed a run: what lanes brought and were given, over ten seconds."""

from xirang.core.queueing.shares import MEMORY_NS, Shares

LONG, SHORT = (2, 30), (2, 20)


def shares(**ns):
    made = Shares()
    for key, name in ((LONG, "long"), (SHORT, "short")):
        made.of(key).brought_ns, made.of(key).given_ns = ns[name]
    return made


def test_who_got_a_twentieth_of_its_part_is_not_starved():
    assert shares(long=(100, 5), short=(100, 95)).starved([LONG, SHORT], now_ns=0) is None


def test_who_got_less_is():
    assert shares(long=(100, 4), short=(100, 196)).starved([LONG, SHORT], now_ns=0) == LONG


def test_only_who_waits_is_owed_anything():
    assert shares(long=(100, 0), short=(100, 100)).starved([SHORT], now_ns=0) is None


def test_of_several_the_one_that_got_least():
    made = shares(long=(100, 2), short=(100, 1))
    made.of((1, 10)).given_ns = 500
    assert made.starved([LONG, SHORT], now_ns=0) == SHORT


def test_nobody_was_given_anything_yet():
    assert shares(long=(100, 0), short=(100, 0)).starved([LONG, SHORT], now_ns=0) is None


def test_what_was_long_ago_fades():
    made = shares(long=(100, 0), short=(100, 100))
    made.starved([], now_ns=10 * MEMORY_NS)
    made.of(LONG).brought_ns += 100
    made.of(LONG).given_ns += 100
    assert made.starved([LONG], now_ns=10 * MEMORY_NS) is None
    assert made.starved([SHORT], now_ns=10 * MEMORY_NS) == SHORT
