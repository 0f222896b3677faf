"""Sequences of requests that show what a dynamic batcher does with them, and what came of one.

Instants stand 30 ms apart and more, so that the answer does not hang on how busy a machine is. A
request says for how long it keeps its run busy: a run takes as long as its slowest request.
"""

from tests.support.batcher import Ask, Sequence


def _steps(*at_ms: int, **fields: int) -> tuple[Ask, ...]:
    return tuple(Ask(each, **fields) for each in at_ms)


def _burst(*rows: int, lengths: str = "", priorities: str = "") -> tuple[Ask, ...]:
    """Requests that are sent while nothing may run yet; all of them are slow."""
    return tuple(
        Ask(
            20 * i,
            busy_ms=60,
            rows=held,
            length=4 + "abc".index(lengths[i]) if lengths else 4,
            priority=int(priorities[i]) if priorities else 0,
        )
        for i, held in enumerate(rows)
    )


_ONES = (1,) * 12
_DELAY = "max_queue_delay_microseconds: 150000"
_LONG_DELAY = "max_queue_delay_microseconds: 600000"
_LEVELS = "priority_levels: 3 default_priority_level: 2"


def _busy(first_ms: int, *rest: Ask) -> tuple[Ask, ...]:
    """One that keeps an instance busy, and those who come meanwhile."""
    return (Ask(0, busy_ms=first_ms), *rest)


HELD = (
    Sequence("full", "", _burst(*_ONES), held=12),
    Sequence("full, delayed", _LONG_DELAY, _burst(*_ONES), held=12),
    Sequence("preferred", "preferred_batch_size: [4]", _burst(*_ONES), held=12),
    Sequence("preferred 2 and 6", "preferred_batch_size: [2, 6]", _burst(*_ONES), held=12),
    Sequence(
        "preferred 3 and 6 with rows",
        "preferred_batch_size: [3, 6]",
        _burst(1, 2, 2, 2, 3, 1, 6, 4, 2, 1, 5, 1),
        held=12,
    ),
    Sequence(
        "preferred 4 with rows, delayed",
        f"preferred_batch_size: [4] {_LONG_DELAY}",
        _burst(3, 2, 1, 1, 3, 5, 1, 2, 2, 7, 1, 1),
        held=12,
    ),
    Sequence("rows that do not fit", "", _burst(3, 3, 3, 8, 1, 7, 2, 2, 4, 5, 5, 1), held=12),
    Sequence("shapes", "", _burst(*_ONES, lengths="aaabbaaaaaca"), held=12),
    Sequence("shapes, delayed", _LONG_DELAY, _burst(*_ONES, lengths="aabbbaaacccc"), held=12),
    Sequence("ragged", "", _burst(*_ONES, lengths="aaabbaaaaaca"), held=12, is_ragged=True),
    Sequence(
        "levels", _LEVELS, _burst(*_ONES, priorities="321032100913"), held=12, is_watched=True
    ),
    Sequence(
        "levels with shapes",
        _LEVELS,
        _burst(*_ONES, priorities="321032100213", lengths="aabbaabbabab"),
        held=12,
        is_watched=True,
    ),
    Sequence(
        "levels with preferred",
        f"{_LEVELS} preferred_batch_size: [5]",
        _burst(*_ONES, priorities="333222111321"),
        held=12,
        is_watched=True,
    ),
)

TIMED = (
    Sequence("alone", _DELAY, _steps(0)),
    Sequence("no delay", "", _steps(0, 120, 240)),
    Sequence("within the delay", _DELAY, _steps(0, 40, 80, 220, 260)),
    Sequence("preferred in time", f"preferred_batch_size: [4] {_DELAY}", _steps(0, 30, 60, 90)),
    Sequence(
        "preferred, others wait",
        f"preferred_batch_size: [2, 4] {_DELAY}",
        _steps(0, 30, 60, 250, 290),
    ),
    Sequence("shape cuts", _DELAY, (Ask(0), Ask(40, length=5), Ask(80, length=5), Ask(120))),
    Sequence("more rows than preferred", f"preferred_batch_size: [2] {_DELAY}", _steps(0, rows=3)),
    Sequence("busy", "", _busy(250, *_steps(40, 70, 100, 130, 160))),
    Sequence("busy, delayed", _DELAY, (Ask(0, 400), *_steps(180, 220, 260, 400, 440))),
    Sequence(
        "busy, preferred",
        "preferred_batch_size: [4]",
        _busy(300, *_steps(40, 70, 100, 130, 160, 190)),
    ),
    Sequence(
        "busy, preferred 2 and 4",
        "preferred_batch_size: [2, 4]",
        _busy(400, *_steps(40, 70, 100, 130, 160, 190, 220, 250)),
    ),
    Sequence(
        "busy, preferred, delayed",
        f"preferred_batch_size: [4] {_DELAY}",
        (Ask(0, 600), *_steps(200, 230, 260, 290, 320, 350)),
    ),
    Sequence(
        "busy for long, preferred, delayed",
        "preferred_batch_size: [3] max_queue_delay_microseconds: 60000",
        (Ask(0, 700), *_steps(100, 130, 160, 190, 220, 320, 400, 430)),
    ),
    Sequence(
        "busy, shapes",
        "",
        _busy(300, Ask(40), Ask(70, length=5), Ask(100), Ask(130), Ask(160, length=5)),
    ),
    Sequence(
        "busy, many shapes",
        "",
        _busy(400, *(Ask(40 + 30 * i, length=4 + i % 2) for i in range(8))),
    ),
    Sequence(
        "two instances",
        "",
        (
            Ask(0, 300),
            Ask(40, 1300),
            *_steps(80, 120, 160, 200, 240, busy_ms=600),
            *_steps(600, 660),
        ),
        instances=2,
    ),
    Sequence(
        "answers in order",
        "preserve_ordering: true",
        (Ask(0, 400), Ask(50, 50), Ask(150, 50), Ask(600)),
        instances=2,
        is_watched=True,
    ),
    Sequence(
        "answers as they come",
        "",
        (Ask(0, 500), Ask(50, 50), Ask(250, 50)),
        instances=2,
        is_watched=True,
    ),
    Sequence(
        "timeout",
        "default_queue_policy { default_timeout_microseconds: 100000 }",
        _busy(300, Ask(40), Ask(80), Ask(900), Ask(1000)),
    ),
    Sequence(
        "timeout, delay",
        "default_queue_policy { timeout_action: DELAY allow_timeout_override: true "
        "default_timeout_microseconds: 3000000 }",
        _busy(
            300,
            Ask(40, busy_ms=60, timeout_ms=100),
            Ask(80, busy_ms=60, timeout_ms=100),
            Ask(240, busy_ms=60, length=5),
            Ask(270, busy_ms=60, length=5),
        ),
        is_watched=True,
    ),
    Sequence(
        "timeout of its own",
        "default_queue_policy { allow_timeout_override: true "
        "default_timeout_microseconds: 1500000 }",
        _busy(300, Ask(40, timeout_ms=100), Ask(80), Ask(120, timeout_ms=900)),
    ),
    Sequence(
        "timeout that may not be",
        "default_queue_policy { default_timeout_microseconds: 1500000 }",
        _busy(300, Ask(40, timeout_ms=100), Ask(80)),
    ),
    Sequence(
        "timeout without a default",
        "default_queue_policy { allow_timeout_override: true }",
        _busy(300, Ask(40, timeout_ms=100), Ask(80)),
    ),
    Sequence(
        "timeout while delayed",
        "max_queue_delay_microseconds: 300000 "
        "default_queue_policy { default_timeout_microseconds: 100000 }",
        _steps(0, 40),
    ),
    Sequence(
        "queue of two",
        "default_queue_policy { max_queue_size: 2 }",
        _busy(300, *_steps(40, 80, 120, 160)),
    ),
    Sequence(
        "levels, busy",
        _LEVELS,
        _busy(
            300,
            Ask(40, priority=3, busy_ms=60, length=5),
            Ask(80, busy_ms=60, length=5),
            Ask(120, priority=1, busy_ms=60),
        ),
        is_watched=True,
    ),
    Sequence(
        "levels, delayed",
        f"{_LEVELS} {_DELAY}",
        (Ask(0, priority=3), Ask(40, priority=1), Ask(80, priority=7), Ask(120, length=5)),
    ),
    Sequence(
        "policies by level",
        f"{_LEVELS} default_queue_policy {{ default_timeout_microseconds: 100000 }} "
        "priority_queue_policy { key: 1 value { max_queue_size: 1 } } "
        "priority_queue_policy { key: 3 value { timeout_action: DELAY allow_timeout_override: true "
        "default_timeout_microseconds: 3000000 } }",
        _busy(
            350,
            Ask(40, priority=1),
            Ask(70, priority=1),
            Ask(100, priority=2),
            Ask(130, priority=3, length=5, timeout_ms=60),
            Ask(160, priority=3, length=5, timeout_ms=60),
            Ask(300, priority=3),
        ),
    ),
)

SEQUENCES = (*HELD, *TIMED)
