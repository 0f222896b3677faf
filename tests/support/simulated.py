"""Runs the core on the virtual clock under all checkers, for the tests in tests/simulation."""

import hashlib
from dataclasses import dataclass
from itertools import islice
from random import Random

from xirang.core.policy import Policy
from xirang.lab.checkers import all_checkers
from xirang.lab.simulator import Law, Service, Silent, Simulator
from xirang.lab.simulator_result import Result, Tally
from xirang.lab.workload import Choice, Demands, Poisson, Workload, mixed

MS = 1_000_000
GPU = Law(call_ns=5 * MS, row_ns=0.25 * MS)
GPU_BATCH = 64
GPU_CAPACITY = GPU_BATCH / (5 + 0.25 * GPU_BATCH) * 1000  # requests a second
MINILM = Law(call_ns=2.07 * MS, element_ns=0.132 * MS, square_ns=120.0)
FOREVER_NS = 10**15


class Log(Silent):
    """A digest of every decision, in order; the decisions themselves if asked to keep them."""

    def __init__(self, *, scale=1):
        self.decisions = []
        self._scale = scale

    def on_start(self, run):
        ids = tuple(request.id for request in run.requests)
        started = run.start_ns // self._scale
        self.decisions.append((started, run.model, run.instance, ids, run.trigger.value))

    def on_expire(self, request, now_ns):
        self.decisions.append((now_ns // self._scale, "expired", request.id))

    def digest(self):
        return hashlib.sha256(repr(self.decisions).encode()).hexdigest()


@dataclass
class Played:
    """What a simulation left behind."""

    result: Result
    tally: Tally
    log: Log
    simulator: Simulator


def play(models, requests, *, devices=None, following=None, scale=1, checked=True):
    """Run requests through models: name to (policy, law) or (policy, law, service)."""
    parts = {}
    for name, (policy, law, *service) in models.items():
        lengths = [8, 32, 128, 512] if law.element_ns or law.square_ns else [1]
        cost = law.learned(rows_max=policy.rows_max, lengths=lengths)
        parts[name] = (policy, cost, service[0] if service else Service(law))
    policies = {name: policy for name, (policy, _, _) in parts.items()}
    if devices is None:
        devices = {policy.device: policy.instances for policy in policies.values()}
    checkers = all_checkers(policies, {name: cost for name, (_, cost, _) in parts.items()}, devices)
    tally, log = Tally(parallelism=sum(devices.values())), Log(scale=scale)
    watchers = (tally, log, *checkers) if checked else (tally, log)
    simulator = Simulator(parts, devices=devices, watchers=watchers)
    simulator.run(requests, following=following)
    simulator.scheduler.check_integrity()
    if checked:
        checkers[0].finish()
    return Played(tally.result(), tally, log, simulator)


def gpu_policy(**fields):
    """The fixed-shape model of the design: batches of 64, as much waiting as budgets allow."""
    values = {
        "max_batch_size": GPU_BATCH,
        "efficiency": 1.0,
        "window_ns_max": FOREVER_NS,
        "depth_max": 1_000_000,
    }
    return Policy(**(values | fields))


def play_gpu(*, load, requests, seed=1, budget_ms=50, service=None, **fields):
    """Poisson arrivals at a share of the capacity of the fixed-shape model."""
    workload = Workload(Poisson(load * GPU_CAPACITY), Demands(budgets_ns=Choice((budget_ms * MS,))))
    models = {"model": (gpu_policy(**fields), GPU, *([service] if service else []))}
    return play(models, islice(workload.requests(seed=seed), requests))


def some(workloads, *, seed, requests):
    """The first requests of a mix."""
    return islice(mixed(workloads, seed=seed), requests)


def service(law, *, seed=0, **fields):
    """A seeded execution."""
    return Service(law, random=Random(f"{seed}/service"), **fields)
