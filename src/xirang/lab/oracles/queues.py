"""Queues whose mean latency is known exactly: one request a run, and batches of all that wait.

A request waits only for the device in both, never for company; times are in any one unit.
"""

from collections.abc import Callable
from math import exp

import numpy as np
import numpy.typing as npt


def single_latency(load: float, *, run: float) -> float:
    """Mean latency of Poisson arrivals that run one by one for a fixed time (M/D/1)."""
    assert 0.0 <= load < 1.0
    return run + load * run / (2 * (1 - load))


def batch_latency(
    rate: float, run: Callable[[int], float], *, rows_max: int, states: int = 400
) -> float:
    """Mean latency of Poisson arrivals where a free device takes all that wait, up to a maximum.

    The queue lengths at which runs begin are a Markov chain; time and waiting between two of them
    have known means. The bound of Inoue (arXiv 1912.06322) holds for it if there is no maximum.

    Args:
        rate: Arrivals in a unit of time.
        run: Time of a run of so many rows.
        rows_max: Most rows in a run.
        states: Queue lengths that are told apart; the longest stands for all beyond it.
    """
    waiting = np.arange(1, states + 1)
    rows = np.minimum(waiting, rows_max)
    spans = np.array([run(int(size)) for size in rows])
    steps = np.zeros((states, states))  # from a queue length at a start to that at the next
    for i in range(states):
        came = _poisson(rate * spans[i], states + 1)
        following = np.maximum(1, waiting[i] - rows[i] + np.arange(states + 1))
        np.add.at(steps[i], np.minimum(following, states) - 1, came)
        steps[i, -1] += 1.0 - came.sum()
    weights = _stationary(steps)
    area = spans * waiting + rate * spans**2 / 2  # requests in the house, over the run's time
    # Whoever leaves nobody behind is followed by a time in which nobody is there.
    idle = np.where(waiting <= rows_max, np.exp(-rate * spans) / rate, 0.0)
    return float((weights @ area) / (weights @ (spans + idle)) / rate)


def batch_latency_bound(rate: float, *, call: float, row: float) -> float:
    """Inoue's upper bound of the same for runs of call + row·rows and no maximum."""
    busy = rate * row
    light = (row + call) / (2 * (1 - busy))
    light *= 1 + 2 * rate * call + (1 - rate * call) / (1 + busy)
    heavy = 1.5 * call / (1 - busy) + row / 2 * (2 + busy) / (1 - busy**2)
    return min(light, heavy)


def _poisson(mean: float, count: int) -> npt.NDArray[np.float64]:
    chances = np.empty(count)
    chances[0] = exp(-mean)
    for i in range(1, count):
        chances[i] = chances[i - 1] * mean / i
    return chances


def _stationary(steps: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    balance = steps.T - np.eye(len(steps))
    balance[-1] = 1.0  # one of the balances follows from the others; the weights sum to one
    weights: npt.NDArray[np.float64] = np.linalg.solve(balance, np.eye(len(steps))[-1])
    return weights
