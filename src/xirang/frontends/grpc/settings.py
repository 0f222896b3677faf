"""How a gRPC door is set, whichever library is behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from xirang.frontends.grpc.servicer import Servicer
from xirang.frontends.wire.connection import CONNECTIONS_MAX


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """Of one door.

    Attributes:
        host: Address to listen on.
        port: 0 takes a free one.
        message_bytes_max: Largest message that is read, as sent and unpacked.
        compression: Of answers, for clients that read it: `none`, `low`, `medium` or `high`.
        certificate: Files of the certificate chain and its key, for TLS.
        connections_max: Open at once; one more is closed.
        client_timeout_s: How long a client may take to finish a message, or to go on reading.
    """

    host: str
    port: int
    message_bytes_max: int
    compression: str = "none"
    certificate: tuple[str, str] | None = None
    connections_max: int = CONNECTIONS_MAX
    client_timeout_s: float = 30.0

    @property
    def address(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class GrpcDoor(Protocol):
    """A gRPC server on the running loop."""

    @property
    def port(self) -> int:
        """Where it listens."""

    async def serve(self) -> None:
        """Answer until `shut` is called and all calls have ended."""

    def shut(self, grace_s: float) -> None:
        """Take no more calls, and let those that are in end within so many seconds."""


def door_of(server: Literal["own", "grpcio"]) -> Callable[[Servicer, GrpcSettings], GrpcDoor]:
    """What opens a door, by the name of what carries it.

    Raises:
        ImportError: It is not installed.
    """
    if server == "own":
        from xirang.frontends.grpc.door import OwnDoor

        return OwnDoor
    from xirang.frontends.grpc.grpcio import GrpcioDoor

    return GrpcioDoor
