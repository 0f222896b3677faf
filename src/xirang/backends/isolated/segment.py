"""Tensors in memory that two processes share: written once, read in place, never pickled.

A segment is an anonymous file that both sides map. It grows by being replaced: the new file's
descriptor travels with the message that first needs it.
"""

import mmap
import os
from collections.abc import Iterable, Sequence
from math import prod

import msgspec
import numpy as np

from xirang.memory.arena import anonymous_file
from xirang.tensors.tensor import Array

ALIGNMENT = 64
"""Bytes of a cache line; vector units like their operands there."""

SIZE_BYTES_MIN = 1 << 16

Named = tuple[str, Array]
"""A tensor and its name; in a list of rows a name comes once a row."""


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """Where one tensor lies in a segment, or in an arena.

    Attributes:
        name: Of the tensor.
        kind: Its numpy type; empty for elements that are bytes objects.
        shape: Its shape.
        offset: Where its bytes begin.
        sizes: Bytes of each element, where they are bytes objects.
        in_arena: Whether it lies in the arena of the run instead.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int
    sizes: tuple[int, ...] = ()
    in_arena: bool = False


class Segment:
    """One side's map of a shared anonymous file."""

    __slots__ = ("_map", "size_bytes")

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        """Map a file; its memory lives as long as the segment and the arrays read in place.

        Args:
            descriptor: Of the file; it may be closed then.
            size_bytes: Of the file.
        """
        self.size_bytes = size_bytes
        self._map = mmap.mmap(descriptor, size_bytes)

    def write(self, arrays: Iterable[Named]) -> list[Placed]:
        """Copy arrays in; they must fit (see `size_of`)."""
        placed, offset = [], 0
        for name, array in arrays:
            if array.dtype.kind == "O":
                elements = [bytes(element) for element in array.ravel()]
                joined = b"".join(elements)
                self._map[offset : offset + len(joined)] = joined
                sizes = tuple(map(len, elements))
                placed.append(Placed(name, "", array.shape, offset, sizes))
                offset += _aligned(len(joined))
                continue
            target = np.frombuffer(self._map, array.dtype, array.size, offset)
            target[:] = array.ravel()
            placed.append(Placed(name, array.dtype.str, array.shape, offset))
            offset += _aligned(array.nbytes)
        return placed

    def read(self, placed: Sequence[Placed], *, copy: bool) -> list[Named]:
        """The arrays that lie in it, in order.

        Args:
            placed: Where they are.
            copy: Whether they outlive the next write.
        """
        return [(where.name, self._array(where, copy=copy)) for where in placed]

    def _array(self, where: Placed, *, copy: bool) -> Array:
        if not where.kind:
            return self._objects(where)
        count = prod(where.shape)
        array = np.frombuffer(self._map, np.dtype(where.kind), count, where.offset)
        array = array.reshape(where.shape)
        return array.copy() if copy else array

    def _objects(self, where: Placed) -> Array:
        array: Array = np.empty(len(where.sizes), object)
        offset = where.offset
        for index, size_bytes in enumerate(where.sizes):
            array[index] = self._map[offset : offset + size_bytes]
            offset += size_bytes
        return array.reshape(where.shape)


class Outbox:
    """The segment that one side writes to, again and again; a larger one replaces it if need be."""

    __slots__ = ("_segment",)

    def __init__(self) -> None:
        self._segment: Segment | None = None

    def put(self, arrays: Sequence[Named]) -> tuple[list[Placed], int, int | None]:
        """Write arrays over those before.

        Returns:
            Where they lie, and of a new segment the size in bytes and the descriptor, to be sent
            and closed; 0 and None if the segment is the one before.

        Raises:
            OSError: There are too many open files, or there is too little memory.
        """
        segment = self._segment
        if segment is not None and size_of(arrays) <= segment.size_bytes:
            return segment.write(arrays), 0, None
        self._segment, placed, descriptor = written(arrays)
        return placed, self._segment.size_bytes, descriptor

    def renew(self) -> None:
        """Use the present segment no more: the other side may not have it."""
        self._segment = None


def written(arrays: Sequence[Named]) -> tuple[Segment, list[Placed], int]:
    """A new segment with these arrays in it, and its descriptor, to be sent and closed.

    Raises:
        OSError: There are too many open files, or there is too little memory.
    """
    size_bytes = 1 << max(size_of(arrays), SIZE_BYTES_MIN).bit_length()
    descriptor = anonymous_file()
    try:
        os.ftruncate(descriptor, size_bytes)
        segment = Segment(descriptor, size_bytes)
        return segment, segment.write(arrays), descriptor
    except BaseException:
        os.close(descriptor)
        raise


def mapped(descriptor: int, size_bytes: int) -> Segment:
    """The segment behind a descriptor that came, which is closed.

    Raises:
        OSError: There is too little memory.
    """
    try:
        return Segment(descriptor, size_bytes)
    finally:
        os.close(descriptor)


def size_of(arrays: Iterable[Named]) -> int:
    """Bytes that a segment needs for these arrays."""
    return sum(
        _aligned(sum(map(len, array.ravel())) if array.dtype.kind == "O" else array.nbytes)
        for _, array in arrays
    )


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
