"""One function off at a time, and back on in the opposite order."""

from xirang.core.admission.switches import ORDER, STEP_NS, Switches
from xirang.core.event import Function


def test_functions_go_in_order_and_come_back_in_the_opposite_one():
    switches, seen = Switches(), []
    for i in range(len(ORDER) + 2):
        switches.step(now_ns=i * STEP_NS, level=3)
        seen.append(switches.off)
    assert seen[0] == (Function.TRACING,)
    assert seen[len(ORDER) - 1] == seen[-1] == ORDER
    start_ns = (len(ORDER) + 2) * STEP_NS
    back = []
    for i in range(len(ORDER)):
        switches.step(now_ns=start_ns + i * STEP_NS, level=2)
        back.append(switches.off)
    assert back[0] == ORDER[:-1]
    assert back[-1] == ()


def test_between_steps_nothing_moves():
    switches = Switches()
    assert switches.step(now_ns=0, level=3)
    assert not switches.step(now_ns=STEP_NS - 1, level=3)
    assert switches.off == (Function.TRACING,)


def test_below_the_third_level_all_stays_on():
    switches = Switches()
    assert not any(switches.step(now_ns=i * STEP_NS, level=2) for i in range(10))
    assert switches.off == ()
