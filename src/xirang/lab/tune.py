"""The search behind `xirang tune`: settings that keep a promise at the least device time.

Coordinate descent in the simulator: one setting at a time takes every value of its ladder, the
best stays, until a whole round changes nothing. All candidates see the same arrivals and the same
noise (common random numbers), so that small differences between them are differences of the
settings. What is found is then held against arrivals that the search has not seen.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xirang.core.policy import Policy
from xirang.lab.simulator_result import Result

MS = 1_000_000
ROUNDS_MAX = 4
GAIN_MIN = 0.005
"""A setting changes only for so much less device time: below lies chance."""

ON_TIME_GAIN_MIN = 0.002
"""The same for the share on time, where the promise is not kept."""

BARE_KEY = re.compile(r"[\w-]+", re.ASCII)
"""What TOML takes for a key without quotes."""

Evaluate = Callable[[Policy], Result]

LADDERS: dict[str, tuple[Any, ...]] = {
    "efficiency": (0.0, 0.25, 0.5, 0.75, 1.0),
    "window_ns_max": tuple(ms * MS for ms in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
    "max_batch_size": (4, 8, 16, 32, 64, 128, 256),
    "elements_max": (None, 64, 128, 256, 512, 1024, 4096, 16_384),
}
"""Fields of a policy, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A policy and what it came to."""

    policy: Policy
    result: Result

    def keeps(self, promise: float) -> bool:
        """Whether so large a share was answered on time."""
        return self.result.on_time >= promise


def search(
    start: Policy, evaluate: Evaluate, *, promise: float, budget_ns: int, ladders: Any = None
) -> Iterator[Tried]:
    """Ever better policies, the start first; the last one is the best that was found.

    Args:
        start: The settings to begin with.
        evaluate: Simulates a policy.
        promise: Share of the requests that must be answered on time.
        budget_ns: The shortest latency budget: no window is longer.
        ladders: Field to the values to try; `LADDERS` by default.
    """
    best = Tried(start, evaluate(start))
    seen = {start}
    yield best
    for _ in range(ROUNDS_MAX):
        before = best.policy
        for field, values in (ladders or LADDERS).items():
            for policy in _variants(best.policy, field, values, budget_ns):
                if policy in seen:
                    continue
                seen.add(policy)
                tried = Tried(policy, evaluate(policy))
                if is_better(tried, best, promise=promise):
                    best = tried
                    yield best
        if best.policy == before:
            return


def is_better(one: Tried, other: Tried, *, promise: float) -> bool:
    """Whether a policy is worth leaving another for.

    One that keeps the promise beats one that does not; of two that keep it the one with less device
    time for each request on time; of two that do not the one with more on time.
    """
    if one.keeps(promise) != other.keeps(promise):
        return one.keeps(promise)
    if not one.keeps(promise):
        return one.result.on_time > other.result.on_time + ON_TIME_GAIN_MIN
    limit = (1.0 - GAIN_MIN) * other.result.device_ms_per_on_time
    return one.result.device_ms_per_on_time < limit


def loadable(policy: Policy, *, budget_ns: int) -> Policy:
    """A policy with a window that is shorter than the budget: a longer one is refused at load."""
    return replace(policy, window_ns_max=max(0, min(policy.window_ns_max, budget_ns - MS)))


def settings_of(policy: Policy) -> dict[str, float | int]:
    """A policy in the words of a configuration file."""
    return {
        "efficiency": policy.efficiency,
        "window_ms": policy.window_ns_max / MS,
        "max_batch_size": policy.max_batch_size,
        "max_batch_elements": policy.elements_max or 0,
    }


def toml_of(policy: Policy, *, model: str = "") -> str:
    """The lines for a configuration file."""
    lines = [f"[models.{_key(model)}]"] if model else []
    lines += [f"{name} = {value:g}" for name, value in settings_of(policy).items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def _variants(
    policy: Policy, field: str, values: Sequence[Any], budget_ns: int
) -> Iterator[Policy]:
    for value in values:
        if field == "window_ns_max" and value >= budget_ns:
            return  # a window as long as the budget would be refused at load
        yield replace(policy, **{field: value})
