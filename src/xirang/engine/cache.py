"""Answers that are kept: the same request to the same model is answered again without a run.

Only for models whose settings say so, since a model may have memory or dice. The whole inputs are
the key, not a digest of them, so that no two requests are ever taken for the same by chance.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xirang.engine.call import Answer, Reply
from xirang.errors import XirangError
from xirang.tensors.tensor import Array, Tensor

ENTRY_BYTES = 512
"""What an entry takes beside its data, about."""

OBJECT_BYTES = 41
"""What an element of BYTES takes beside its bytes."""

Outputs = dict[str, Array]


class Key(NamedTuple):
    """All that an answer depends on, to the last bit.

    Attributes:
        lanes: The name under which the model is scheduled: another load has another one.
        wanted: The outputs that are asked for.
        inputs: Name, datatype, shape and data of each, by name.
    """

    lanes: str
    wanted: tuple[str, ...]
    inputs: tuple[tuple[str, str, tuple[int, ...], bytes | tuple[bytes, ...]], ...]

    @property
    def size_bytes(self) -> int:
        """What the inputs' data takes."""
        return sum(_size_bytes(data) for *_, data in self.inputs)


class AnswerCache:
    """The answers that were asked for last, as many as fit.

    Attributes:
        size_bytes: What keys and answers take now.
        evictions: Answers that went to make room.
    """

    __slots__ = ("_bytes_max", "_entries", "_of_lanes", "evictions", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        """Nothing is kept yet.

        Args:
            bytes_max: What keys and answers may take together.
        """
        self._bytes_max = bytes_max
        self._entries: OrderedDict[Key, tuple[Outputs, int]] = OrderedDict()
        self._of_lanes: dict[str, set[Key]] = {}
        self.size_bytes = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Key) -> Outputs | None:
        """The answer that is kept for a key of `key_of`, used last from now on."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def keep(self, key: Key, outputs: Outputs) -> None:
        """Keep an answer; those that were asked for the longest ago make room.

        Args:
            key: See `key_of`.
            outputs: Copied where they are a part of a run's.
        """
        size_bytes = ENTRY_BYTES + key.size_bytes + sum(map(_array_bytes, outputs.values()))
        if size_bytes > self._bytes_max or key in self._entries:
            return
        while self.size_bytes + size_bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))
            self.evictions += 1
        own = {name: _own(array) for name, array in outputs.items()}
        self._entries[key] = own, size_bytes
        self._of_lanes.setdefault(key.lanes, set()).add(key)
        self.size_bytes += size_bytes

    def keeping(self, key: Key, reply: Reply) -> Reply:
        """The reply that keeps what comes before it hands it on."""

        def kept(answer: Answer | XirangError) -> None:
            if isinstance(answer, Answer):
                self.keep(key, answer.outputs)
            reply(answer)

        return kept

    def forget(self, lanes: str) -> None:
        """These are gone, and their answers with them."""
        for key in tuple(self._of_lanes.get(lanes, ())):
            self._drop(key)

    def _drop(self, key: Key) -> None:
        self.size_bytes -= self._entries.pop(key)[1]
        kept = self._of_lanes[key.lanes]
        kept.discard(key)
        if not kept:
            del self._of_lanes[key.lanes]


def key_of(lanes: str, wanted: Sequence[str], inputs: Mapping[str, Tensor]) -> Key:
    """The key of a request."""
    tensors = [
        (name, tensor.datatype, tensor.shape, _frozen(tensor))
        for name, tensor in sorted(inputs.items())
    ]
    return Key(lanes, tuple(wanted), tuple(tensors))


def _frozen(tensor: Tensor) -> bytes | tuple[bytes, ...]:
    data = tensor.data
    return tuple(data) if isinstance(data, list) else bytes(data)


def _size_bytes(data: bytes | tuple[bytes, ...]) -> int:
    return len(data) if isinstance(data, bytes) else sum(len(each) + OBJECT_BYTES for each in data)


def _array_bytes(array: Array) -> int:
    if array.dtype.kind == "O":
        return sum(len(each) + OBJECT_BYTES for each in array.ravel())
    return array.nbytes


def _own(array: Array) -> Array:
    """The array without the run's around it."""
    own = array if array.base is None else array.copy()
    own.setflags(write=False)
    return own
