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


@st.composite
def crowded(draw, *, height_max: int = 24, instants_max: int = 7) -> Lifetimes:
    """Lifetimes that fill a range at all times: as much is born as dies, in other pieces."""
    height, rows = draw(st.integers(2, height_max)), []
    living: list[tuple[int, int]] = []
    for now in range(draw(st.integers(1, instants_max)) + 1):
        stays = [(block, draw(st.booleans())) for block in living]
        rows += [(born, now, size) for (born, size), is_left in stays if not is_left]
        living = [block for block, is_left in stays if is_left]
        while (free := height - sum(size for _, size in living)) > 0:
            living.append((now, draw(st.integers(1, free))))
    return of_rows([*rows, *((born, now + 1, size) for born, size in living)])
