"""Several models, several devices, unlike requests: what must hold whatever the rest looks like."""

from itertools import islice, pairwise

from benchmarks.figures import Figure
from benchmarks.simulated.world import (
    FOREVER_NS,
    IMAGES,
    IMAGES_BUDGET,
    IMAGES_CAPACITY,
    MS,
    images_policy,
    play,
    play_images,
)
from xirang.core.policy import Policy
from xirang.lab.simulator import Law, Service
from xirang.lab.simulator_result import Result
from xirang.lab.workload import Choice, Demands, Poisson, Workload, mixed

MODELS = 8


def measure() -> list[Figure]:
    """All figures."""
    return [
        *eight_models(),
        *flat_time(),
        *rare_and_long(),
        *more_devices(),
        *priorities(),
        *scale(),
    ]


def eight_models() -> list[Figure]:
    """Eight models take turns on one device, each as patient as its budgets allow."""
    figures = []
    for load in (0.1, 0.3, 0.5):
        rate = load * IMAGES_CAPACITY / MODELS
        names = [f"m{i}" for i in range(MODELS)]
        budgets = Choice((100 * MS,))
        workloads = [Workload(Poisson(rate), Demands(name, budgets_ns=budgets)) for name in names]
        requests = islice(mixed(workloads, seed=1), 16_000)
        models = {name: (images_policy(), Service(IMAGES)) for name in names}
        result = play(models, requests, devices={"cpu": 1}).result
        figures.append(Figure(f"8 models on a device, load {load}: on time", result.on_time, 0.998))
    return figures


def flat_time() -> list[Figure]:
    """A hundred requests a second; a run of up to 32 takes 100 ms whatever its size."""
    requests = Workload(Poisson(100), Demands(budgets_ns=Choice((250 * MS,)))).requests(seed=1)
    policy = Policy(max_batch_size=32, window_ns_max=FOREVER_NS, depth_max=10**6)
    result = play({"model": (policy, Service(Law(100 * MS)))}, islice(requests, 10_000)).result
    return [
        Figure("100 req/s, 100 ms a run: mean batch", result.batch_mean, 9),
        Figure("100 req/s, 100 ms a run: p99", result.latency_p99_ms / 1000, 0.25, False, "s"),
    ]


def rare_and_long() -> list[Figure]:
    """Sixty requests a second, one in twenty takes 150 ms; who is admitted is answered in time."""
    lengths = Choice((4, 150), (0.95, 0.05))
    demands = Demands(lengths=lengths, budgets_ns=Choice((400 * MS,)))
    requests = islice(Workload(Poisson(60), demands).requests(seed=1), 10_000)
    policy = Policy(can_pad=True, window_ns_max=FOREVER_NS, depth_max=10**6)
    result = play({"model": (policy, Service(Law(0.1 * MS, element_ns=1 * MS)))}, requests).result
    late = result.late + result.expired
    return [Figure("60 req/s, 5 % take 150 ms: accepted and late", late, 0, False, "requests")]


def more_devices() -> list[Figure]:
    """The least gain in goodput from one more instance; it must not be a loss."""
    gains = []
    for load in (0.7, 1.0, 1.5, 2.5):
        shares = [
            play_images(load, count=6000, seed=1, instances=instances).result.on_time
            for instances in (1, 2, 3, 4)
        ]
        gains += [more - fewer for fewer, more in pairwise(shares)]
    return [Figure("one more device: least gain of goodput", 100 * min(gains), 0.0, True, "points")]


def priorities() -> list[Figure]:
    """The least lead of a priority over the next lower one, over loads."""
    leads = []
    for load in (0.7, 0.95, 1.1, 1.5):
        demands = Demands(
            budgets_ns=Choice((60 * MS,)), priorities=Choice((1, 2, 3), (0.2, 0.5, 0.3))
        )
        requests = Workload(Poisson(load * IMAGES_CAPACITY), demands).requests(seed=2)
        played = play({"model": (images_policy(), Service(IMAGES))}, islice(requests, 8000))
        shares = played.result.on_time_by_priority
        leads += [shares[1] - shares[2], shares[2] - shares[3]]
    return [Figure("a higher priority: least lead of goodput", 100 * min(leads), 0, True, "points")]


def scale() -> list[Figure]:
    """The same world three times slower: what changes is what the two seconds of memory span."""
    moved = []
    for load in (0.3, 0.7, 1.2):
        usual, slow = _scaled(load, 1), _scaled(load, 3)
        moved.append(abs(usual.on_time - slow.on_time))
        moved.append(abs(usual.batch_mean / slow.batch_mean - 1))
    return [Figure("a world 3x slower: largest change", 100 * max(moved), 1.0, False, "%")]


def _scaled(load: float, factor: int) -> Result:
    demands = Demands(budgets_ns=Choice((IMAGES_BUDGET,)))
    requests = list(
        islice(Workload(Poisson(load * IMAGES_CAPACITY), demands).requests(seed=1), 6000)
    )
    for request in requests:
        request.arrival_ns *= factor
        request.deadline_ns = request.arrival_ns + IMAGES_BUDGET * factor
    law = Law(IMAGES.call_ns * factor, IMAGES.row_ns * factor)
    return play({"model": (images_policy(), Service(law))}, requests).result
