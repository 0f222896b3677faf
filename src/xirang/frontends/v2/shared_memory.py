"""Memory that clients on this machine share with the server: tensors by name instead of by wire.

A region is read and written with `pread` and `pwrite`, and never mapped. Its owner may cut it short
at any time: a mapping would then kill the server with SIGBUS, a read only comes back short. What a
request needs is copied when it is admitted, so that nobody changes it while it waits. A region that
was unregistered stays open until the last request that writes to it has its answer.
"""

import os
import stat
import weakref
from collections.abc import Mapping
from pathlib import Path

import msgspec

from xirang.errors import InvalidRequest, XirangError
from xirang.frontends.errors import TooLarge

FOLDER = Path("/dev/shm")
"""Where POSIX shared memory has its names on Linux."""

REGIONS_MAX = 1024
"""Each takes a file descriptor."""

NAME_LENGTH_MAX = 255
OFFSET_MAX = 2**63 - 1
BODY_BYTES_MAX = 64 << 20


class UnknownRegion(XirangError):
    """No region of that name is registered."""

    status = 404


class AlreadyRegistered(XirangError):
    """There is a region of that name."""

    status = 400


class NotAllowed(XirangError):
    """The server was started without shared memory."""

    status = 501


class Place(msgspec.Struct, frozen=True):
    """A stretch of a region, as a request names it."""

    region: str
    offset: int
    size_bytes: int


class Target(msgspec.Struct, frozen=True):
    """Where an output goes; it holds its region open."""

    region: "Region"
    place: Place

    def write(self, name: str, data: bytes) -> None:
        """Copy an output there.

        Args:
            name: Of the output.
            data: Its bytes.

        Raises:
            InvalidRequest: There is not so much room.
        """
        if len(data) > self.place.size_bytes:
            raise InvalidRequest(
                f"shared memory size specified with the request for output '{name}' "
                f"({self.place.size_bytes} bytes) should be at least {len(data)} bytes to hold "
                "the results"
            )
        self.region.write(self.place.offset, data)


class Region:
    """A stretch of an object in shared memory.

    Attributes:
        name: As requests call it.
        key: The object's name.
        offset: Where it begins in the object.
        size_bytes: Its length.
    """

    __slots__ = ("__weakref__", "_descriptor", "key", "name", "offset", "size_bytes")

    def __init__(self, name: str, key: str, offset: int, size_bytes: int, descriptor: int) -> None:
        self.name = name
        self.key = key
        self.offset = offset
        self.size_bytes = size_bytes
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def check(self, place: Place) -> None:
        """Refuse what reaches beyond it.

        Raises:
            InvalidRequest: It does.
        """
        if place.offset > self.size_bytes:
            raise InvalidRequest(f"Invalid offset for shared memory region: '{self.name}'")
        if place.offset + place.size_bytes > self.size_bytes:
            raise InvalidRequest(
                f"Invalid offset + byte size for shared memory region: '{self.name}'"
            )

    def read(self, place: Place) -> bytes:
        """A copy of a stretch within it.

        Raises:
            InvalidRequest: The object has become shorter than it was.
        """
        parts, offset, left = [], self.offset + place.offset, place.size_bytes
        while left:
            part = os.pread(self._descriptor, left, offset)
            if not part:
                raise self._cut_short()
            parts.append(part)
            offset += len(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, offset: int, data: bytes) -> None:
        """Copy bytes to an offset within it.

        Raises:
            InvalidRequest: The object has become shorter than it was. If that happens between the
                look at its size and the write, the object grows again; nothing else is touched.
        """
        begin, rest = self.offset + offset, memoryview(data)
        if os.fstat(self._descriptor).st_size < begin + len(data):
            raise self._cut_short()
        while rest:
            written = os.pwrite(self._descriptor, rest, begin)
            begin += written
            rest = rest[written:]

    def _cut_short(self) -> InvalidRequest:
        return InvalidRequest(
            f"the object '{self.key}' behind shared memory region '{self.name}' has become shorter "
            "than the region"
        )


class Regions:
    """All regions that clients have registered."""

    def __init__(
        self,
        *,
        is_allowed: bool = False,
        folder: Path = FOLDER,
        bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        """Know none.

        Args:
            is_allowed: Whether clients may register any.
            folder: Where objects have their names.
            bytes_max: That one request may have copied out of them.
        """
        self._bytes_max = bytes_max
        self._is_allowed = is_allowed
        self._folder = folder
        self._regions: dict[str, Region] = {}

    def register(self, name: str, key: str, offset: int, size_bytes: int) -> None:
        """Take requests for a stretch of an object under a name.

        Raises:
            NotAllowed: This server shares no memory.
            AlreadyRegistered: The name is taken.
            InvalidRequest: There is no such object, or not so much of it.
        """
        if not self._is_allowed:
            raise NotAllowed(
                f"failed to register shared memory region '{name}': the server takes none; "
                "it does when started with --allow-shared-memory true"
            )
        if name in self._regions:
            raise AlreadyRegistered(f"shared memory region '{name}' already in manager")
        if len(self._regions) >= REGIONS_MAX:
            raise InvalidRequest(f"expected at most {REGIONS_MAX} shared memory regions")
        if not 0 <= offset <= OFFSET_MAX or not 0 < size_bytes <= OFFSET_MAX - offset:
            raise InvalidRequest(
                f"failed to register shared memory region '{name}': expected an offset of at least "
                "0 and a byte_size above it"
            )
        descriptor = self._opened(key)
        region = Region(name, key, offset, size_bytes, descriptor)  # closes it in any case
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise InvalidRequest(f"Unable to open shared memory region: '{key}'")
        if about.st_size < offset + size_bytes:
            raise InvalidRequest(
                f"failed to register shared memory region '{name}': invalid args: '{key}' has "
                f"{about.st_size} bytes, expected at least {offset + size_bytes}"
            )
        self._regions[name] = region

    def unregister(self, name: str = "") -> None:
        """Forget a region, or all of them; unknown ones are forgotten already."""
        if name:
            self._regions.pop(name, None)
        else:
            self._regions.clear()

    def status(self, name: str = "") -> list[Region]:
        """A region, or all of them.

        Raises:
            UnknownRegion: There is none of that name.
        """
        if not name:
            return list(self._regions.values())
        if name not in self._regions:
            raise UnknownRegion(f"Unable to find system shared memory region: '{name}'")
        return [self._regions[name]]

    def bound(self, size_bytes: int) -> None:
        """Refuse a request of which so much lies in regions; before any of it is read.

        Raises:
            TooLarge: It is more than a body may have.
        """
        if size_bytes > self._bytes_max:
            raise TooLarge(
                f"the inputs in shared memory are larger than {self._bytes_max} bytes together"
            )

    def read(self, place: Place) -> bytes:
        """A copy of what lies in a place.

        Raises:
            UnknownRegion: It is in no region.
            InvalidRequest: It is not within its region, or no more.
        """
        return self._holding(place).read(place)

    def targets(self, places: Mapping[str, Place]) -> dict[str, Target]:
        """Where outputs go, by name, held open until they are there.

        Raises:
            UnknownRegion: One is in no region.
            InvalidRequest: One is not within its region.
        """
        return {name: Target(self._holding(place), place) for name, place in places.items()}

    def _holding(self, place: Place) -> Region:
        region = self._regions.get(place.region)
        if region is None:
            raise UnknownRegion(f"Unable to find shared memory region: '{place.region}'")
        region.check(place)
        return region

    def _opened(self, key: str) -> int:
        """A descriptor of an object; its name leads nowhere else."""
        name = key.removeprefix("/")
        if (
            not name
            or len(name) > NAME_LENGTH_MAX
            or name in (".", "..")
            or set(name) & {"/", "\0"}
        ):
            raise InvalidRequest(
                f"Unable to open shared memory region: '{key[:NAME_LENGTH_MAX]}'; "
                "expected the name of an object, without a path"
            )
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(self._folder / name, flags)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidRequest(
                f"Unable to open shared memory region: '{key}': {reason}"
            ) from error


NO_REGIONS = Regions()
"""Where nothing is shared."""
