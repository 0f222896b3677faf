"""Greedy plans: blocks are placed one by one, in an order that is a guess.

No order is best for all graphs, each costs about a millisecond, so all are tried. By size is the
order of Pisarchyk and Lee (arXiv 2001.03288), as is by breadth.
"""

from collections.abc import Callable, Iterator, Sequence

from xirang.core.memory.allocator import fit
from xirang.core.memory.lifetime import Lifetimes

Order = Sequence[int]


def orders_of(lifetimes: Lifetimes, neighbours: Sequence[Sequence[int]]) -> Iterator[Order]:
    """Orders worth a try; the first is the best guess."""
    sizes = lifetimes.sizes_bytes
    spans = [end - start for start, end in zip(lifetimes.starts, lifetimes.ends, strict=True)]
    crowds = [sum(sizes[other] for other in near) for near in neighbours]

    def by(key: Callable[[int], tuple[int, ...]]) -> Order:
        return sorted(range(len(sizes)), key=key)

    yield by(lambda i: (-sizes[i], -spans[i], lifetimes.starts[i]))
    yield by(lambda i: (-sizes[i] * spans[i], -sizes[i]))
    yield by(lambda i: (-spans[i], -sizes[i]))
    yield by(lambda i: (lifetimes.starts[i], -sizes[i]))
    yield by(lambda i: (-crowds[i], -sizes[i]))
    yield by(lambda i: (-crowds[i] - sizes[i], -spans[i]))
    yield _by_breadth(lifetimes)


def _by_breadth(lifetimes: Lifetimes) -> Order:
    """Those first that live when most is alive."""
    sizes = lifetimes.sizes_bytes
    sections = sorted(lifetimes.sections(), key=lambda section: -sum(sizes[i] for i in section))
    seen: dict[int, None] = {}
    for section in sections:
        seen.update(dict.fromkeys(sorted(section, key=lambda i: -sizes[i])))
    return list(seen)


def place(
    order: Order,
    lifetimes: Lifetimes,
    neighbours: Sequence[Sequence[int]],
    *,
    is_tight: bool,
) -> list[int]:
    """Offsets, each the best that is left when its turn comes."""
    sizes = lifetimes.sizes_bytes
    offsets = [-1] * len(sizes)
    for block in order:
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in neighbours[block]
            if offsets[other] >= 0
        )
        offsets[block] = fit(taken, sizes[block], is_tight=is_tight)
    return offsets
