"""What is simulated: two laws, who asks, and one way to play them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from random import Random

from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.lab.policies.known import Contender
from xirang.lab.simulator import Law, Service, Simulator
from xirang.lab.simulator_result import Result, Tally
from xirang.lab.workload import Arrivals, Choice, Demands, Lognormal, Poisson, Workload

MS = 1_000_000

IMAGES = Law(call_ns=5 * MS, row_ns=0.25 * MS)
"""One shape, and batching pays: 64 rows take four times as long as one."""
IMAGES_BATCH = 64
IMAGES_CAPACITY = IMAGES_BATCH / (5 + 0.25 * IMAGES_BATCH) * 1000  # requests a second
IMAGES_BUDGET = 50 * MS

TEXTS = Law(call_ns=2.07 * MS, element_ns=0.132 * MS, square_ns=120.0)
"""A small text encoder as measured on two cores: work for each token, little for the call."""
TEXT_LENGTHS = Lognormal(30, 0.92, 3, 512)
TEXT_BUDGETS = Choice((200 * MS, 500 * MS, 1000 * MS), (0.5, 0.3, 0.2))
TEXT_POLICY = Policy(can_pad=True, elements_max=2048, window_ns_max=10**15, depth_max=10**6)

FOREVER_NS = 10**15


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it, and what it came of."""

    requests: list[Request]
    result: Result


def images_policy(**fields) -> Policy:
    """As much waiting as budgets allow."""
    values = {"max_batch_size": IMAGES_BATCH, "window_ns_max": FOREVER_NS, "depth_max": 10**6}
    return Policy(**(values | {"efficiency": 1.0} | fields))


def play(
    models: Mapping[str, tuple[Policy, Service]],
    requests: Iterable[Request],
    *,
    devices: dict[str, int] | None = None,
    contender: Contender | None = None,
) -> Played:
    """Run requests through models to their end, under our scheduler or somebody else's policy."""
    requests = list(requests)
    devices = devices or {policy.device: policy.instances for policy, _ in models.values()}
    parts = {}
    for name, (policy, service) in models.items():
        lengths = [8, 32, 128, 512] if service.law.element_ns else [1]
        cost = service.law.learned(rows_max=policy.rows_max, lengths=lengths)
        parts[name] = (policy, cost, service)
    tally = Tally(parallelism=sum(devices.values()))
    scheduler = contender.schedules(devices=devices) if contender else None
    Simulator(parts, devices=devices, watchers=(tally,), scheduler=scheduler).run(requests)
    return Played(requests, tally.result())


def play_images(
    load: float,
    *,
    count: int,
    seed: int,
    trouble: dict | None = None,
    arrivals: Arrivals | None = None,
    **fields,
) -> Played:
    """One shape with equal budgets at a share of what the device can do."""
    demands = Demands(budgets_ns=Choice((IMAGES_BUDGET,)))
    workload = Workload((arrivals or Poisson(1)).at_rate(load * IMAGES_CAPACITY), demands)
    service = Service(IMAGES, random=Random(f"{seed}/service"), **(trouble or {}))
    models = {"model": (images_policy(**fields), service)}
    return play(models, islice(workload.requests(seed=seed), count))
