"""Every figure of docs/quality-of-service.md; `make bench-qos`."""

import argparse
import sys
from time import perf_counter

from benchmarks.figures import Figure, print_figures
from benchmarks.qos import live, refusals, simulated, soak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soak-seconds", type=float, default=20.0, help="0: none")
    parser.add_argument("--only-soak", action="store_true")
    arguments = parser.parse_args()
    parts = [] if arguments.only_soak else [simulated.measure, live.measure, refusals.measure]
    if arguments.soak_seconds:
        parts.append(lambda: soak.measure(arguments.soak_seconds))
    figures: list[Figure] = []
    for part in parts:
        began = perf_counter()
        found = part()
        figures += found
        print_figures(found)
        print(f"       {perf_counter() - began:.0f} s", flush=True)
    if not all(figure.is_met for figure in figures):
        print(f"{sum(not figure.is_met for figure in figures)} short")
        if arguments.only_soak:
            sys.exit(1)  # these figures do not hang on how fast the machine is


if __name__ == "__main__":
    main()
