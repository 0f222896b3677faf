"""The judge of the dynamic batcher: the same sequences to a genuine server, to ours, to the core.

Ours is asked over the wire, and on the virtual clock. A busy machine may shift instants, so a
sequence that does not agree is played again, twice at most, on both.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.batcher import RECORDED, Outcome, Sequence, played, recorded

from benchmarks.triton.play import lay_out, play
from benchmarks.triton.sequences import SEQUENCES
from benchmarks.triton.servers import LAUNCHER, Genuine, Ours, absent, launcher, version_of

TRIES = 3
PLAYS_MAX = 7
AGREEING = 3
PLAY_S = 30
HOLD = "TRITONSERVER_DELAY_SCHEDULER"

Start = Callable[..., AbstractContextManager[Any]]


def outcomes(start: Start, sequences: Iterable[Sequence]) -> dict[str, Outcome]:
    """What a server makes of sequences; one that holds requests back is started for each hold."""
    found = {}
    for held, group in groupby(sequences, lambda sequence: sequence.held):
        own = list(group)
        with tempfile.TemporaryDirectory() as folder:
            repository = lay_out(own, Path(folder) / "models")
            environment = {HOLD: str(held)} if held else {}
            with start(repository, environment=environment) as server:
                for sequence in own:
                    playing = asyncio.wait_for(play(sequence, server.http), PLAY_S)
                    found[sequence.name] = asyncio.run(playing)
    return found


def judge(sequences: list[Sequence]) -> bool:
    """Hold ours against the genuine server; whether all agree."""
    left, agreed = sequences, 0
    for attempt in range(1, TRIES + 1):
        genuine, ours = outcomes(Genuine, left), outcomes(Ours, left)
        differing = []
        for sequence in left:
            name = sequence.name
            told = {"wire": ours[name], "virtual clock": played(sequence)}
            faults = [f"{who}: {each}" for who, each in told.items() if each != genuine[name]]
            if not faults:
                agreed += 1
                print(f"ok     {name} (try {attempt})", flush=True)
            else:
                differing.append(sequence)
                if attempt == TRIES:
                    print(f"short  {name}\n  genuine: {genuine[name]}\n  " + "\n  ".join(faults))
        left = differing
    state = "ok   " if not left else "short"
    print(f"{state}  sequences that agree with the genuine server: {agreed} of {len(sequences)}")
    return not left


def record(sequences: list[Sequence]) -> None:
    """Write down what the genuine server says of these, if it says the same three times."""
    seen: dict[str, Counter[Outcome]] = {sequence.name: Counter() for sequence in sequences}
    for _ in range(PLAYS_MAX):
        left = [s for s in sequences if max(seen[s.name].values(), default=0) < AGREEING]
        for name, outcome in outcomes(Genuine, left).items():
            seen[name][outcome] += 1
    known = {sequence.name: (sequence, outcome) for sequence, outcome in recorded()}
    for sequence in sequences:
        ((outcome, times),) = seen[sequence.name].most_common(1)
        known.pop(sequence.name, None)
        if times >= AGREEING:
            known[sequence.name] = (sequence, outcome)
        else:
            print(f"left out: {sequence.name}", *map(str, seen[sequence.name]), sep="\n  ")
    told = [
        {"sequence": asdict(sequence), "outcome": asdict(known[sequence.name][1])}
        for sequence in SEQUENCES
        if sequence.name in known
    ]
    RECORDED.write_text(json.dumps({"server": _version(), "sequences": told}) + "\n")
    print(f"{len(told)} of {len(SEQUENCES)} sequences: {RECORDED}")


def _version() -> str:
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "models"
        repository.mkdir()
        with Genuine(repository) as server:
            return version_of(server.http)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the table of the tests anew")
    parser.add_argument("--only", action="append", default=[], help="a sequence's name; again")
    arguments = parser.parse_args()
    only = [each for each in SEQUENCES if not arguments.only or each.name in arguments.only]
    if not launcher():
        print(absent(LAUNCHER, "a genuine Triton server"))
        return 0
    if arguments.record:
        record(only)
        return 0
    return 0 if judge(only) else 1


if __name__ == "__main__":
    sys.exit(main())
