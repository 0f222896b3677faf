"""How a benchmark says what it found: one line a figure, `ok|short  name  value  goal`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure beside its goal.

    Attributes:
        name: What was measured.
        value: The figure; a ratio wherever there is something to divide by.
        goal: Its bound.
        is_floor: Whether the value must be at least the goal (else at most).
        unit: Of the value; empty for ratios.
    """

    name: str
    value: float
    goal: float
    is_floor: bool = True
    unit: str = ""

    @property
    def is_met(self) -> bool:
        return self.value >= self.goal if self.is_floor else self.value <= self.goal

    def line(self) -> str:
        sign = "≥" if self.is_floor else "≤"
        unit = f" {self.unit}" if self.unit else ""
        state = "ok   " if self.is_met else "short"
        return f"{state}  {self.name:<58} {self.value:9.3g}{unit}  {sign} {self.goal:g}{unit}"


def print_figures(figures: list[Figure]) -> None:
    for figure in figures:
        print(figure.line(), flush=True)
