"""What stands before a request on a device, and how the two kinds of lanes share it."""

from random import Random

import pytest
from tests.support.core import MS, fixed_shape, learned, request

from xirang.core.admission.levels import Thresholds
from xirang.core.device import CALM_NS, FAMILIAR_LENGTH, ROOMY, Device, Lanes
from xirang.core.policy import Policy
from xirang.core.scheduling.fast import EXPECTED_NS


def lanes_on(device, *, cost=None, **policy):
    lanes = Lanes("m", Policy(**({"instances": 2} | policy)), cost or fixed_shape(5, 1), device)
    device.add(lanes)
    return lanes


def wait(lanes, *requests):
    """Requests come in."""
    for each in requests:
        lanes.backlog.push(each)
        lanes.entered(each.rows * lanes.cost.row_ns(each.length))


@pytest.fixture
def device():
    return Device(2, Thresholds())


def test_an_empty_device_has_no_load_and_no_queue(device):
    lanes = lanes_on(device)
    assert device.load(0) == 0.0
    assert device.residual_ns(0) == 0.0
    assert lanes.queued_ns(request(1), 0) == 0.0


def test_what_runs_is_shared_among_instances_and_never_negative(device):
    device.ends_ns.update({1: 10 * MS, 2: 4 * MS})
    assert device.residual_ns(2 * MS) == pytest.approx(5 * MS)
    assert device.residual_ns(8 * MS) == pytest.approx(1 * MS)
    assert device.residual_ns(20 * MS) == 0.0


def test_only_the_more_urgent_stand_before_a_request(device):
    lanes = lanes_on(device)
    wait(lanes, *[request(id, budget_ms=50) for id in range(1, 5)])
    first = lanes.queued_ns(request(9, budget_ms=10), 0)
    last = lanes.queued_ns(request(9, budget_ms=500), 0)
    assert first == 0.0
    assert last == pytest.approx(4 * MS / 2, rel=0.05)  # it joins their run


def test_a_model_of_one_instance_has_no_use_for_the_rest_of_its_device(device):
    lanes = lanes_on(device, instances=1)
    wait(lanes, *[request(id, budget_ms=50) for id in range(1, 5)])
    assert lanes.queued_ns(request(9, budget_ms=500), 0) == pytest.approx(4 * MS, rel=0.05)
    lanes.free.clear()
    device.ends_ns[1] = 30 * MS
    assert lanes.queued_ns(request(9, budget_ms=10), 0) == pytest.approx(30 * MS)


def test_work_of_other_models_stands_before_a_request_too(device):
    lanes, other = lanes_on(device), lanes_on(device)
    wait(other, request(1, budget_ms=50))
    assert lanes.queued_ns(request(9, budget_ms=500), 0) > 0.0
    rough = lanes.look(500 * MS, now_ns=0)
    assert rough * 500 * MS >= lanes.queued_ns(request(9, budget_ms=500), 0)


def test_a_look_that_found_calm_holds_until_more_has_come_or_a_moment_has_passed(device):
    lanes = lanes_on(device)
    assert not lanes.is_calm(500 * MS, 0), "nobody has looked"
    assert lanes.look(500 * MS, now_ns=0) < ROOMY
    assert lanes.is_calm(499 * MS, CALM_NS - 1)
    assert not lanes.is_calm(499 * MS, CALM_NS)
    assert not lanes.is_calm(100 * MS, 0), "others may have less time"
    wait(lanes, *[request(id, budget_ms=500) for id in range(1, 250)])
    assert not lanes.is_calm(499 * MS, 0)
    assert lanes.look(500 * MS, now_ns=MS) >= ROOMY
    assert not lanes.is_calm(499 * MS, MS)


def test_calm_ends_when_the_level_changes_and_before_the_queue_is_full(device):
    lanes = lanes_on(device, depth_max=3)
    lanes.look(500 * MS, now_ns=0)
    lanes.alarm()
    assert not lanes.is_calm(500 * MS, 0)
    lanes.look(500 * MS, now_ns=0)
    wait(lanes, *[request(id, budget_ms=500) for id in range(1, 3)])
    assert lanes.is_calm(500 * MS, 0)
    wait(lanes, request(3, budget_ms=500))
    assert not lanes.is_calm(500 * MS, 0)


def test_what_is_calm_would_be_admitted_by_a_close_look_too(device):
    lanes, generator = lanes_on(device), Random(5)
    for id in range(1, 400):
        budget_ms = generator.choice((100, 400, 900))
        waiting = request(id, budget_ms=budget_ms)
        now_ns = id * CALM_NS // 20
        is_calm = lanes.is_calm(budget_ms * MS, now_ns)
        assert not is_calm or lanes.queued_ns(waiting, now_ns) < 0.5 * budget_ms * MS
        if not is_calm:
            lanes.look(budget_ms * MS, now_ns=now_ns)
        wait(lanes, waiting)


def test_where_not_all_can_be_on_time_the_less_worthy_do_not_count(device):
    lanes = lanes_on(device)
    wait(lanes, *[request(id, budget_ms=50, priority=3) for id in range(1, 21)])
    high = request(99, budget_ms=500, priority=1)
    assert lanes.queued_ns(high, 0) > 0.0
    assert lanes.pressed_ns(high, lanes.queued_ns(high, 0), 0) == 0.0


def test_the_fast_lane_waits_only_for_what_runs_and_for_itself(device):
    lanes = lanes_on(device)
    wait(lanes, *[request(id) for id in range(1, 21)])
    fast = lanes.fast_lane()
    assert fast is lanes.fast_lane()
    assert fast.free is lanes.free
    assert fast.queued_ns(request(99), 0) == 0.0
    before_ns = device.waiting_ns
    wait(fast, request(50, budget_ms=1))
    assert device.waiting_ns == before_ns
    assert fast.queued_ns(request(99), 0) > 0.0
    lanes.check_integrity()


def test_runs_are_cut_shorter_only_while_fast_requests_are_expected(device):
    lanes = lanes_on(device, cost=learned(2e6, 0, 1e5), can_pad=True, elements_max=4096)
    assert lanes.policy_at(0) is lanes.policy
    device.fast.on_arrival(0)
    shorter = lanes.policy_at(1)
    assert shorter.elements_max == 128  # (10 - 1) × 2 ms ÷ 0.1 ms, a power of two
    assert shorter.elements_max * 0.1 <= 18
    assert lanes.policy_at(EXPECTED_NS + 1) is lanes.policy
    assert lanes.fast_lane().policy_at(1) is lanes.policy
    assert FAMILIAR_LENGTH == 64


def test_a_bound_that_is_shorter_already_stays(device):
    lanes = lanes_on(device, cost=learned(2e6, 0, 1e5), can_pad=True, elements_max=100)
    device.fast.on_arrival(0)
    assert lanes.policy_at(1) is lanes.policy


def test_the_longest_wait_may_be_set(device):
    wait_ns = 4 * MS
    lanes = lanes_on(device, cost=learned(2e6, 0, 1e5), can_pad=True, fast_wait_ns=wait_ns)
    device.fast.on_arrival(0)
    assert lanes.policy_at(1).elements_max == 16


def test_out_of_memory_shortens_runs_for_good(device):
    lanes = lanes_on(device, can_pad=True)
    lanes.stay_within(300)
    lanes.stay_within(500)
    assert lanes.policy.elements_max == 300
    assert lanes.policy.elements_room == 300


def test_a_request_shares_its_call_with_its_company(device):
    lanes = lanes_on(device, cost=fixed_shape(5, 1))
    share_ns = lanes.backlog.prices.of(1, 1).share_within(1000 * MS)
    assert 1 * MS < share_ns < 6 * MS
