"""The policies by name, with their parameters: `eager`, `window:5`, `ours:1`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xirang.core.policy import Policy
from xirang.core.scheduler import Scheduler
from xirang.errors import InvalidSetting
from xirang.lab.policies.comparison import Comparison
from xirang.lab.policies.deadlines import Nexus, Symphony
from xirang.lab.policies.delayed import EarlyBinding, FixedWindow, MeanLatency
from xirang.lab.policies.immediate import Buckets, Clipper, HeadFit
from xirang.lab.policies.rule import Rule
from xirang.lab.simulator import Schedules

MS = 1_000_000
OURS = "ours"
DELAY_MS = 5.0


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy in a comparison.

    Attributes:
        name: As it was asked for.
        make_rule: None for the server's own scheduler.
        efficiency: For the server's own scheduler; None leaves it as it is.
    """

    name: str
    make_rule: Callable[[], Rule] | None = None
    efficiency: float | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is the server's own scheduler."""
        return self.make_rule is None

    def schedules(self, *, devices: dict[str, int]) -> Schedules:
        """A new scheduler."""
        if self.make_rule is None:
            return Scheduler(devices=devices)
        return Comparison(self.make_rule, devices=devices)

    def policy(self, policy: Policy) -> Policy:
        """The model's settings, with what the name asks for."""
        return policy if self.efficiency is None else replace(policy, efficiency=self.efficiency)


def _window(numbers: Sequence[float]) -> Callable[[], Rule]:
    delay_ms, *sizes = numbers or (DELAY_MS,)
    return lambda: FixedWindow(int(delay_ms * MS), tuple(int(size) for size in sizes))


def _ray(numbers: Sequence[float]) -> Callable[[], Rule]:
    (timeout_ms,) = numbers or (DELAY_MS,)
    return lambda: EarlyBinding(int(timeout_ms * MS))


RULES: dict[str, Callable[[Sequence[float]], Callable[[], Rule]]] = {
    "window": _window,
    "ray": _ray,
    "eager": lambda _: Rule,
    "bentoml": lambda _: MeanLatency,
    "clipper": lambda _: Clipper,
    "head-fit": lambda _: HeadFit,
    "nexus": lambda _: Nexus,
    "symphony": lambda _: Symphony,
    "buckets": lambda _: Buckets,
}
FORMS = {OURS: "ours[:EFFICIENCY]", "window": "window[:MS[:SIZE…]]", "ray": "ray[:MS]"}
PARAMETERS_MAX = {OURS: 1, "window": 16, "ray": 1}
ALL = (OURS, *sorted(RULES))


def contenders(words: str) -> list[Contender]:
    """The policies of a list with commas; `all` is every one of them."""
    names = ALL if words == "all" else tuple(dict.fromkeys(words.split(",")))
    return [contender(name) for name in names]


def contender(word: str) -> Contender:
    """One policy, or an InvalidSetting that lists the known."""
    name, *texts = word.split(":")
    if name not in ALL:
        known = ", ".join(FORMS.get(each, each) for each in ALL)
        raise InvalidSetting(f"policy {word!r}: known are {known}, or all")
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        numbers = [-1.0]
    most = 1.0 if name == OURS else 1e9
    is_right = all(0 <= number <= most for number in numbers)
    if not is_right or len(numbers) > PARAMETERS_MAX.get(name, 0):
        raise InvalidSetting(f"policy {word!r}: expected {FORMS.get(name, name)}")
    if name == OURS:
        return Contender(word, efficiency=numbers[0] if numbers else None)
    return Contender(word, RULES[name](numbers))
