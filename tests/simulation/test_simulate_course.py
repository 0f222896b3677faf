"""The course of the controller, sampled while a simulation runs."""

from itertools import islice

import pytest
from tests.support.simulated import GPU, GPU_CAPACITY, MS, gpu_policy, service

from xirang.core.scheduler import Scheduler
from xirang.lab.simulator import Simulator
from xirang.lab.simulator_course import SAMPLES, Course
from xirang.lab.workload import Choice, Demands, Switching, Workload


def course_of(arrivals, requests):
    policy = gpu_policy()
    scheduler = Scheduler(devices={"cpu": 1})
    course = Course(scheduler.snapshot, requests=requests)
    simulator = Simulator(
        {"model": (policy, GPU.learned(rows_max=64, lengths=[1]), service(GPU))},
        devices={"cpu": 1},
        watchers=[course],
        scheduler=scheduler,
    )
    workload = Workload(arrivals, Demands(budgets_ns=Choice((50 * MS,))))
    simulator.run(islice(workload.requests(seed=1), requests))
    return course.moments


def test_a_few_hundred_moments_in_order():
    moments = course_of(Switching(0.3 * GPU_CAPACITY, swing=0.0), 5000)
    assert 0.5 * SAMPLES < len(moments) <= SAMPLES + 10
    times = [moment.at_s for moment in moments]
    assert times == sorted(times)
    assert len(course_of(Switching(0.3 * GPU_CAPACITY, swing=0.0), 20)) <= 20


@pytest.mark.slow
def test_demand_follows_a_square_wave_and_the_window_goes_against_it():
    rate = 0.5 * GPU_CAPACITY
    arrivals = Switching(rate, swing=0.6, dwell_s=10.0, is_random=False)
    moments = course_of(arrivals, int(rate * 20))
    high = [moment for moment in moments if 6 < moment.at_s < 10]
    low = [moment for moment in moments if 16 < moment.at_s < 20]
    assert min(moment.demand for moment in high) > 1.5 * max(moment.demand for moment in low)
    assert max(moment.window_ms for moment in high) <= min(moment.window_ms for moment in low)
