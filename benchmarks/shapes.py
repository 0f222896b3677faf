"""Any shape in, the right answer out: answers, verdicts, padding, assembly and hostile requests.

Run `python -m benchmarks.shapes` after `make models`. Every real model of docs/models.md is loaded
and probed as a server would do, its real requests are drawn into runs at random, and each answer
is held against the model run alone on that request.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from xml.etree import ElementTree

from benchmarks import micro_shapes, shapes_answers, shapes_padding
from benchmarks.figures import Figure, print_figures
from benchmarks.shapes_answers import Found

REQUESTS = 10_000
FUZZED = "tests/e2e/test_fuzzed_shapes.py"
WORKERS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=500, help="of each model")
    parser.add_argument("--only", default="", metavar="MODEL", help="answers of one model, no more")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    begun = perf_counter()
    figures: list[Figure] = []
    if not arguments.only:
        print("assembly and split, while nothing else runs", flush=True)
        figures += micro_shapes.measure()
        figures += shapes_padding.measure()
        print_figures(figures)
    print("\nmodels: runs of random requests against each request alone", flush=True)
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        names = [arguments.only] if arguments.only else shapes_answers.names()
        running = [pool.submit(shapes_answers.measure, name, arguments.batches) for name in names]
        fuzzing = None if arguments.only else pool.submit(fuzzed)
        own = list(_answers(running, arguments.batches))
        if fuzzing is not None:
            own += fuzzing.result()
            print_figures(own[-2:])
    figures += own
    short = [figure for figure in figures if not figure.is_met]
    print(f"\n{len(figures) - len(short)} of {len(figures)} ok, {perf_counter() - begun:.0f} s")
    print_figures(short)
    if arguments.json is not None:
        rows = {f.name: {"value": f.value, "goal": f.goal, "ok": f.is_met} for f in figures}
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def fuzzed() -> list[Figure]:
    """Well-formed and spoiled requests at a real server: whether the test passed, and how many."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--timeout=900", FUZZED]
        command += ["--hypothesis-profile=long", f"--junitxml={report}", "-p", "no:cacheprovider"]
        status = subprocess.run(command, capture_output=True, check=False).returncode
        found = ElementTree.parse(report).findall(".//property[@name='requests']")
    return [
        Figure("fuzzed requests", sum(int(each.get("value", "0")) for each in found), REQUESTS),
        Figure("… wrongly answered, or the server was lost", float(status != 0), 0, False),
    ]


def _answers(running: list[Future[Found]], batches: int) -> Iterator[Figure]:
    """Each model's figures as they come, then those of all."""
    found: list[Found] = []
    for future in running:
        found.append(one := future.result())
        right = Figure(f"{one.name}: right runs of {one.runs}", one.right, min(batches, one.runs))
        print(f"{right.line()}   {one.words()}", flush=True)
        yield right
    planted = [one for one in found if one.name.startswith("unsafe")]
    sums = [Figure("right verdicts", sum(o.is_verdict_right for o in found), len(found))]
    if planted:
        caught = sum(one.is_verdict_right for one in planted)
        sums.append(Figure("planted unsafe models caught", caught, len(planted)))
    print_figures(sums)
    yield from sums


if __name__ == "__main__":
    main()
