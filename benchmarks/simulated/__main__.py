"""Every figure of docs/scheduling.md: `python -m benchmarks.simulated [PART …]`."""

import argparse
from time import perf_counter

from benchmarks import micro_scheduler
from benchmarks.figures import Figure, print_figures
from benchmarks.simulated import mixed_lengths, one_shape, others, several

PARTS = {
    "one_shape": one_shape.measure,
    "mixed_lengths": mixed_lengths.measure,
    "several": several.measure,
    "others": others.measure,
    "core": micro_scheduler.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--markdown", action="store_true", help="as the page's table")
    arguments = parser.parse_args()
    chosen = arguments.parts or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name in chosen:
        began = perf_counter()
        figures = PARTS[name]()
        if arguments.markdown:
            print("\n".join(map(row, figures)), flush=True)
            continue
        print_figures(figures)
        print(f"       {name}: {perf_counter() - began:.0f} s")


def row(figure: Figure) -> str:
    state, sign = ("ok" if figure.is_met else "short"), ("≥" if figure.is_floor else "≤")
    value, goal = (f"{n:.3g} {figure.unit}".strip() for n in (figure.value, figure.goal))
    return f"| {figure.name} | {value} | {sign} {goal} | {state} |"


if __name__ == "__main__":
    main()
