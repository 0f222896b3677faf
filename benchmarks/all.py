"""Every figure of docs/benchmarks.md, one part after the other; the lines with goals come last."""

import argparse
import json
import os
import platform
from pathlib import Path

from benchmarks import deadlines, micro_scheduler, minilm, overhead
from benchmarks.figures import Figure, print_figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2048, help="of MiniLM, a run")
    parser.add_argument("--seconds", type=float, default=15.0, help="of open-loop load, a run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}")
    print("\nscheduler core, no server", flush=True)
    figures += micro_scheduler.measure()
    print("\ntiny model: what the server costs", flush=True)
    figures += overhead.measure(seconds=6.0)
    print("\nMiniLM, mixed lengths: lognormal, median 30, sigma 0.92, 3 to 512 tokens", flush=True)
    figures += minilm.measure(arguments.requests, arguments.seconds)
    print("\nMiniLM under deadlines: budgets of 100 and 250 ms, live (as the simulator predicts)")
    figures += deadlines.measure(seconds=4.0)
    print()
    print_figures(figures)
    if arguments.json is not None:
        rows = {f.name: {"value": f.value, "goal": f.goal, "ok": f.is_met} for f in figures}
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
