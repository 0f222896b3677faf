"""Requests in messages; one that differs from an earlier one only in numbers is not parsed again.

A client's requests are most often the same bytes but for an id and the raw tensors, and those stand
where they stood the last time if nothing else is changed. So the next message of the same length is
held against the bytes around them; what is then cut out is what parsing would have found.
"""

from typing import Any, NamedTuple

import msgspec
from google.protobuf.message import DecodeError

from xirang.errors import InvalidRequest
from xirang.frontends.about import about_of
from xirang.frontends.grpc.infer import (
    EMPTY_FINAL_RESPONSE,
    ID_TAG,
    RAW_INPUT_TAG,
    Request,
    decode,
    delimited,
    varint,
)
from xirang.frontends.v2.kserve import InferRequest, Wanted
from xirang.frontends.v2.shared_memory import Regions
from xirang.tensors.tensor import Tensor

KNOWN_MAX = 256
LEARNING_MAX = 64
"""To learn a message costs several times what parsing it does: who is never recognised again is
not learned for ever."""
LEARNED_BYTES_MAX = 1 << 20
"""Of a longer message parsing is a small part of what it costs."""


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A `ModelInferRequest`, as far as it has been looked at.

    Attributes:
        data: Its bytes.
        model: Whom it asks.
        version: As it stands there.
        id: Of the request.
        wants_empty: A stream's client wants a last response also where there is nothing in it.
        known: All of it, if the message was recognised.
        message: The parsed message, if not.
    """

    data: bytes
    model: str
    version: str
    id: str
    wants_empty: bool = False
    known: InferRequest | None = None
    message: Any = None


class _Place(NamedTuple):
    """Where the elements of an input stand in a message."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class _Form(NamedTuple):
    """A message but for its id and its raw tensors."""

    model: str
    version: str
    fixed: tuple[tuple[int, bytes], ...]
    id_start: int
    id_stop: int
    places: tuple[_Place, ...]
    wanted: Wanted

    def read(self, data: bytes) -> Asked | None:
        """What a message of the same length says; None if it is of another form."""
        for start, part in self.fixed:
            if not data.startswith(part, start):
                return None
        identity, about = "", None
        if self.id_stop:
            try:
                identity = data[self.id_start : self.id_stop].decode()
            except UnicodeDecodeError:
                return None
            about = about_of(identity, None)
        inputs = {
            name: Tensor(datatype, shape, data[start:stop])
            for name, datatype, shape, start, stop in self.places
        }
        known = InferRequest(identity, inputs, self.wanted, about=about)
        return Asked(data, self.model, self.version, identity, known=known)


class Reader:
    """Reads messages, and remembers the forms of the last ones by their lengths."""

    def __init__(self, regions: Regions) -> None:
        """Begin.

        Args:
            regions: Of shared memory, in which inputs may lie.
        """
        self._regions = regions
        self._forms: dict[int, _Form] = {}
        self._may_learn = LEARNING_MAX

    def read(self, data: bytes) -> Asked:
        """What a message asks; its tensors are for `tensors_of` to look at.

        Raises:
            InvalidRequest: It is no message.
        """
        form = self._forms.get(len(data))
        if form is not None and (asked := form.read(data)) is not None:
            if self._may_learn < LEARNING_MAX:
                self._may_learn += 1
            return asked
        message = parsed(Request, data)
        wants_empty = EMPTY_FINAL_RESPONSE in message.parameters
        return Asked(
            data, message.model_name, message.model_version, message.id, wants_empty, None, message
        )

    def tensors_of(self, asked: Asked) -> InferRequest:
        """All of the request.

        Raises:
            InvalidRequest: It contradicts the protocol; says where.
            UnknownRegion: An input lies in a region that there is not.
        """
        if asked.known is not None:
            return asked.known
        request = decode(asked.message, self._regions)
        if self._may_learn and (form := _form_of(asked, request)) is not None:
            self._may_learn -= 1
            if len(self._forms) >= KNOWN_MAX:
                self._forms.clear()
            self._forms[len(asked.data)] = form
        return request


def parsed(kind: Any, data: bytes) -> Any:
    """The message in some bytes.

    Raises:
        InvalidRequest: They are not one of that kind.
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidRequest(f"the message is not a {kind.DESCRIPTOR.name}: {error}") from None


def _form_of(asked: Asked, request: InferRequest) -> _Form | None:
    """The form of a message that was understood; None if it could be taken for another."""
    data, message = asked.data, asked.message
    tensors = list(request.inputs.items())
    raws = message.raw_input_contents
    if (
        len(data) > LEARNED_BYTES_MAX
        or message.parameters
        or len(raws) != len(tensors)
        or not all(isinstance(tensor.data, bytes) for _, tensor in tensors)
    ):
        return None
    places, gaps, stop = [], [], len(data)
    for (name, tensor), raw in zip(reversed(tensors), reversed(raws), strict=True):
        start = stop - len(raw)
        places.append(_Place(name, tensor.datatype, tensor.shape, start, stop))
        stop = start - len(RAW_INPUT_TAG + varint(len(raw)))
        gaps.append((stop, RAW_INPUT_TAG + varint(len(raw))))
    plain = Request()
    plain.CopyFrom(message)
    del plain.raw_input_contents[:]
    head = plain.SerializeToString(deterministic=True)
    if data != b"".join((head, *(delimited(RAW_INPUT_TAG, raw) for raw in raws))):
        return None  # it was written in another order, or holds what we do not know
    id_start = id_stop = 0
    fixed = [(0, head)]
    if asked.id:
        before = Request(model_name=asked.model, model_version=asked.version).ByteSize()
        identity = asked.id.encode()
        id_start = before + len(ID_TAG + varint(len(identity)))
        id_stop = id_start + len(identity)
        fixed = [(0, head[:id_start]), (id_stop, head[id_stop:])]
    return _Form(
        asked.model,
        asked.version,
        (*fixed, *reversed(gaps)),
        id_start,
        id_stop,
        tuple(reversed(places)),
        request.wanted,
    )
