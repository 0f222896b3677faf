"""`@xirang.batch`: write a function over a list, call it with one item at a time.

    python examples/decorator.py

The same decorator works inside FastAPI or any other asyncio program: decorate the function, and
await it in each request. Plain functions run in a thread beside the loop, coroutines on the loop.
"""

import asyncio

import numpy as np

import xirang

WEIGHTS = np.random.default_rng(0).standard_normal((256, 10))
sizes = []


@xirang.batch(max_batch_size=32, budget_ms=200)
def classify(rows):
    """One matrix product for the whole list; returns one class a row."""
    sizes.append(len(rows))
    return list((np.stack(rows) @ WEIGHTS).argmax(axis=1))


@xirang.batch()
async def inverse(numbers):
    """A fault stays with its own caller: the list is tried in halves."""
    return [1 / number for number in numbers]


async def main():
    """A hundred callers at once, then three of whom one is wrong."""
    rows = np.random.default_rng(1).standard_normal((100, 256))
    classes = await asyncio.gather(*(classify(row) for row in rows))
    print(f"{len(classes)} calls ran as {len(sizes)} lists of up to {max(sizes)}")
    for result in await asyncio.gather(*map(inverse, [1, 0, 4]), return_exceptions=True):
        print(repr(result))


asyncio.run(main())
