"""One device, one shape, equal budgets: against a clairvoyant, and with slow runs in between."""

from statistics import mean

from benchmarks.figures import Figure
from benchmarks.simulated.world import (
    IMAGES,
    IMAGES_BATCH,
    IMAGES_BUDGET,
    Played,
    play_images,
)
from xirang.lab.oracles.clairvoyant import fewest_runs, most_on_time

SEEDS = (1, 2, 3)
RUN_NS = [round(IMAGES.run_ns(rows=rows, length=1)) for rows in range(1, IMAGES_BATCH + 1)]


def measure() -> list[Figure]:
    """All figures; the worst of the seeds."""
    return [*overload(), *thrift(), *outliers(), *blips()]


def overload() -> list[Figure]:
    """On-time answers ÷ the most that any plan could give."""
    figures = []
    for load in (0.9, 1.0, 1.1, 1.2, 1.5, 2.0):
        share = min(on_time_ratio(play_images(load, count=6000, seed=seed)) for seed in SEEDS)
        figures.append(Figure(f"on time ÷ clairvoyant, load {load}", share, 0.96))
    return figures


def thrift() -> list[Figure]:
    """The fewest runs that answer all on time ÷ the runs it took; 0 if somebody was late."""
    figures = []
    for load in (0.02, 0.1, 0.3, 0.5, 0.6, 0.7):
        share = min(batch_ratio(play_images(load, count=6000, seed=seed)) for seed in SEEDS)
        figures.append(Figure(f"mean batch ÷ clairvoyant, load {load}, all on time", share, 0.95))
    return figures


def outliers() -> list[Figure]:
    """One run in fifty takes three times as long."""
    figures = []
    for load in (0.1, 0.3, 0.5, 0.7):
        trouble = {"outliers": 0.02, "outlier_factor": 3.0}
        played = [play_images(load, count=8000, seed=seed, trouble=trouble) for seed in SEEDS]
        share = mean(one.result.on_time for one in played)
        figures.append(Figure(f"on time, 2 % of runs 3x, load {load}", share, 0.995))
    return figures


def blips() -> list[Figure]:
    """What one slow run costs of 20,000 requests, in points of goodput."""
    figures = []
    for load, factor in ((0.8, 3.0), (0.7, 5.0)):
        for efficiency in (0.0, 1.0):
            lost = max(_lost(load, factor, efficiency, seed) for seed in SEEDS[:2])
            name = f"one {factor:.0f}x run at {load}, efficiency {efficiency:.0f}: goodput lost"
            figures.append(Figure(name, 100 * lost, 1.0, False, "points"))
    return figures


def on_time_ratio(played: Played) -> float:
    arrivals_ns = [request.arrival_ns for request in played.requests]
    best = most_on_time(arrivals_ns, budget_ns=IMAGES_BUDGET, run_ns=RUN_NS)
    return played.result.on_time * played.result.requests / best


def batch_ratio(played: Played) -> float:
    arrivals_ns = [request.arrival_ns for request in played.requests]
    fewest = fewest_runs(arrivals_ns, budget_ns=IMAGES_BUDGET, run_ns=RUN_NS)
    assert fewest is not None, "even a clairvoyant would be late"
    return fewest / played.result.runs if played.result.on_time == 1.0 else 0.0


def _lost(load: float, factor: float, efficiency: float, seed: int) -> float:
    calm, hit = (
        play_images(load, count=20_000, seed=seed, efficiency=efficiency, trouble={"blips": blip})
        for blip in ({}, {100: factor})
    )
    return calm.result.on_time - hit.result.on_time
