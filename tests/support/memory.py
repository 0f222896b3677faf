"""Lifetimes for tests: the problems of tests/data/memory, and made-up ones."""

import csv
from pathlib import Path

from hypothesis import strategies as st

from xirang.core.memory.lifetime import Lifetimes, of_rows

FOLDER = Path(__file__).parent.parent / "data" / "memory"
HARD = tuple("ABCDEFGHIJK")
GRAPHS = tuple(sorted(path.stem for path in FOLDER.glob("zoo_*.csv")))


def problem(name: str) -> Lifetimes:
    with (FOLDER / f"{name}.csv").open() as file:
        return of_rows(
            (int(row["lower"]), int(row["upper"]), int(row["size"])) for row in csv.DictReader(file)
        )


def lifetimes(*, blocks_max: int = 12, size_min: int = 0, size_max: int = 9) -> st.SearchStrategy:
    block = st.tuples(st.integers(0, 8), st.integers(1, 6), st.integers(size_min, size_max)).map(
        lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
    )
    return st.lists(block, min_size=1, max_size=blocks_max).map(of_rows)
