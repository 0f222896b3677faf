"""What the core itself costs: microseconds a request and a launch, without any server around it.

Run `python -m benchmarks.micro_scheduler`.
"""

from collections.abc import Callable
from random import Random
from time import perf_counter

from benchmarks.figures import Figure, print_figures
from xirang.core.cost import CostModel, Sample
from xirang.core.policy import Batching, Policy
from xirang.core.request import Request
from xirang.core.run import Done, Run
from xirang.core.scheduler import Scheduler

REQUEST_GOAL_US = 12.0
LAUNCH_GOAL_US = 60.0
MODELS = 16
ROUNDS = 5


def measure() -> list[Figure]:
    """All figures; each is the least disturbed of some rounds."""
    rows = [
        ("scheduler core a request, 64 lanes, saturated", saturated_us(), REQUEST_GOAL_US),
        ("scheduler core a request, 64 lanes, each a launch", light_us(), REQUEST_GOAL_US),
        ("scheduler core a request, 1 lane", closed_us(Batching.FIRST_COME), REQUEST_GOAL_US),
        ("scheduler core a request, mixed lengths", closed_us(Batching.OPTIMAL), REQUEST_GOAL_US),
        ("scheduler core a launch, 256 mixed lengths wait", launch_us(256), LAUNCH_GOAL_US),
    ]
    return [Figure(name, value, goal, False, "µs") for name, value, goal in rows]


def main() -> None:
    print_figures(measure())


def saturated_us() -> float:
    """Sixteen models on two devices, priorities and lengths mixed, a queue that never empties."""
    return _best(lambda: _drive(gap_ns=9_000, requests=8_000))


def light_us() -> float:
    """The same lanes with mostly idle devices: each request is a launch of its own."""
    return _best(lambda: _drive(gap_ns=2_000_000, requests=4_000))


def closed_us(batching: Batching) -> float:
    """One model, 64 requests always waiting: submit, poll, complete."""
    return _best(lambda: _refill(batching))


def launch_us(waiting: int) -> float:
    """One decision with so many requests of MiniLM-like lengths waiting."""
    return _best(lambda: _launch(waiting))


def _best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))  # the least disturbed round


def _drive(*, gap_ns: int, requests: int) -> float:
    random = Random(7)
    scheduler = Scheduler(devices={"a": 1, "b": 1})
    for i in range(MODELS):
        policy = Policy(device="ab"[i % 2], batching=Batching.OPTIMAL, can_pad=True)
        scheduler.add_model(f"m{i}", policy, learned(call_ns=100_000.0, element_ns=500.0))
    stream = [
        Request(
            id=i,
            model=f"m{random.randrange(MODELS)}",
            arrival_ns=i * gap_ns,
            deadline_ns=i * gap_ns + 200_000_000,
            priority=random.choice((1, 3)),
            length=random.choice((16, 64)),
        )
        for i in range(requests)
    ]
    running: dict[str, tuple[int, Run]] = {}
    begin = perf_counter()
    for request in stream:
        now_ns = request.arrival_ns
        for device, (end_ns, run) in list(running.items()):
            if end_ns <= now_ns:
                del running[device]
                done = Done(ran_ns=end_ns - run.start_ns)
                scheduler.complete(run.id, now_ns=now_ns, outcome=done)
        scheduler.submit(request, now_ns=now_ns)
        for action in scheduler.poll(now_ns=now_ns):
            if isinstance(action, Run):
                device = "ab"[int(action.model[1:]) % 2]
                running[device] = (now_ns + action.predicted_ns, action)
        scheduler.wakeup_ns()
    return (perf_counter() - begin) / requests * 1e6


def _refill(batching: Batching) -> float:
    random = Random(7)
    scheduler = Scheduler(devices={"cpu": 1})
    policy = Policy(batching=batching, can_pad=True, max_batch_size=32, elements_max=2048)
    scheduler.add_model("m", policy, learned(call_ns=2_070_000.0, element_ns=132_000.0))
    stream = [
        Request(i, "m", i * 1000, i * 1000 + 10**12, length=length(random)) for i in range(8_000)
    ]
    begin = perf_counter()
    now_ns = 0
    for request in stream[:64]:
        scheduler.submit(request, now_ns=request.arrival_ns)
    sent = 64
    while sent < len(stream):
        (run,) = scheduler.poll(now_ns=now_ns)
        now_ns += run.predicted_ns
        scheduler.complete(run.id, now_ns=now_ns, outcome=Done(ran_ns=run.predicted_ns))
        for request in stream[sent : sent + len(run.requests)]:
            scheduler.submit(request, now_ns=now_ns)
            scheduler.wakeup_ns()
        sent += len(run.requests)
    return (perf_counter() - begin) / sent * 1e6


def _launch(waiting: int) -> float:
    random = Random(7)
    spent = 0.0
    for _ in range(10):
        scheduler = Scheduler(devices={"cpu": 1})
        policy = Policy(can_pad=True, max_batch_size=64, elements_max=2048)
        scheduler.add_model("m", policy, learned(call_ns=2_070_000.0, element_ns=132_000.0))
        for i in range(waiting):
            scheduler.submit(Request(i, "m", i, i + 10**10, length=length(random)), now_ns=i)
        begin = perf_counter()
        scheduler.poll(now_ns=waiting)
        spent += perf_counter() - begin
    return spent / 10 * 1e6


def learned(*, call_ns: float, element_ns: float) -> CostModel:
    """A cost model that knows this law."""
    grid = [(rows, size) for rows in (1, 8, 32) for size in (8, 64, 256)]
    cost = CostModel()
    cost.fit([Sample(r, n, int(call_ns + element_ns * r * n)) for r, n in grid])
    return cost


def length(random: Random) -> int:
    """A text's tokens, MiniLM-like."""
    return min(512, max(3, round(random.lognormvariate(3.4, 0.92))))


if __name__ == "__main__":
    main()
