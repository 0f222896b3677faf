"""The HTTP servers of a process: their ports, keys and certificates, how they open and shut."""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp

from xirang.config import GRPC_PORT, Config
from xirang.core.admission.tenants import Allowance
from xirang.errors import InvalidSetting
from xirang.frontends.cold import admin_app, cold_app, metrics_app
from xirang.frontends.exchange import Exchange, Match
from xirang.frontends.extensions import Extensions, extensions_of
from xirang.frontends.following import exchanges
from xirang.frontends.keys import Keys, load_keys
from xirang.frontends.routes import hot_routes
from xirang.frontends.service import Repository, Service, TextModel
from xirang.frontends.v2.operating import turning_routes
from xirang.frontends.v2.repository import managing_routes
from xirang.frontends.wire.dawdlers import Dawdlers
from xirang.frontends.wire.http import serve_protocol

if TYPE_CHECKING:
    from xirang.frontends.grpc.settings import GrpcDoor

log = logging.getLogger("xirang")


DESCRIPTORS_RESERVED = 64
"""File descriptors that are kept for what is no connection: models, recordings, workers."""


class Doors:
    """The servers: HTTP for requests, gRPC, and HTTP for operators where they have a port apart."""

    def __init__(self, config: Config) -> None:
        """Read what they need, and take the ports.

        Raises:
            InvalidSetting: A file cannot be used, or a port not be had.
        """
        self._config = config
        self._keys: Keys | None = load_keys(Path(config.keys)) if config.keys else None
        self.extensions = extensions_of(config)
        self._tls = _tls(config)
        self._connections_max = _connections_max(
            config.connections_max, 1 + (config.grpc_port >= 0)
        )
        self._listeners = [listen(config.host, config.http_port)]
        self._servers: list[_Server] = []
        self._watches: list[Dawdlers] = []
        self._grpc: GrpcDoor | None = None
        try:
            if config.admin_port:
                self._listeners.append(listen(config.admin_host, config.admin_port))
            if config.metrics_port:
                self._listeners.append(listen(config.host, config.metrics_port))
        except InvalidSetting:
            self.__exit__()
            raise

    @property
    def url(self) -> str:
        """Where requests go."""
        host, port = self._listeners[0].getsockname()[:2]
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    @property
    def grpc_url(self) -> str | None:
        """Where gRPC calls go; None where there are none."""
        if self._grpc is None:
            return None
        return f"{'grpcs' if self._tls else 'grpc'}://{self._config.host}:{self._grpc.port}"

    def allowances(self) -> dict[str, Allowance]:
        """What the holder of each key may ask for, where keys are asked for."""
        grants = self._keys.grants if self._keys is not None else ()
        return {
            grant.name: Allowance(grant.rate, grant.share)
            for grant in grants
            if grant.rate is not None or grant.share < 1
        }

    def __enter__(self) -> "Doors":
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            listener.close()

    def open(
        self, service: Service, texts: Mapping[str, TextModel], repository: Repository
    ) -> "asyncio.Future[Any]":
        """Answer; returns what is done when nobody answers any more."""
        keys, extensions = self._keys, self.extensions
        managing = [*managing_routes(repository), *turning_routes(service, extensions)]
        has_own_port = bool(self._config.admin_port)
        cold = cold_app(service, texts, keys, () if has_own_port else managing, extensions)
        self._servers = [self._server(hot_routes(service, texts, keys, extensions), cold)]
        if has_own_port:
            app = admin_app(service, keys, managing, extensions)
            self._servers.append(self._server(_nothing_hot, app))
        if self._config.metrics_port:
            self._servers.append(self._server(_nothing_hot, metrics_app(service)))
        loop = asyncio.get_running_loop()
        self._watches = [
            Dawdlers(
                server.server_state.connections, loop=loop, seconds=self._config.client_timeout_s
            )
            for server in self._servers
        ]
        pairs = zip(self._servers, self._listeners, strict=True)
        config = replace(self._config, connections_max=self._connections_max)
        repository_or_none = None if has_own_port else repository
        self._grpc = grpc_door(config, service, keys, repository_or_none, extensions)
        serving = [server.serve(sockets=[own]) for server, own in pairs]
        if self._grpc is not None:
            serving.append(self._grpc.serve())
        return asyncio.gather(*serving)

    def shut(self, *, by_force: bool) -> None:
        """Take no new connections, and let go of the old ones as soon as they are answered."""
        for watch in self._watches:
            watch.close()
        for server in self._servers:
            server.force_exit = by_force
            server.should_exit = True
        if self._grpc is not None:
            self._grpc.shut(0 if by_force else self._config.exit_timeout_s)

    def _server(self, match: Match, app: ASGIApp) -> "_Server":
        config, tls, witness = self._config, self._tls, self.extensions.witness
        protocol = serve_protocol(
            match,
            body_bytes_max=config.body_mib_max << 20,
            connections_max=self._connections_max,
            memory_bytes_max=config.memory_mib_max << 20,
            exchange=Exchange if witness is None else exchanges(witness),
        )
        return _Server(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=logging.WARNING,  # of its comings and goings we tell ourselves
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, int(config.exit_timeout_s)),
                ssl_context_factory=None if tls is None else lambda *_: tls,
            )
        )


def grpc_door(
    config: Config,
    service: Service,
    keys: Keys | None,
    repository: Repository | None,
    extensions: Extensions | None = None,
) -> "GrpcDoor | None":
    """The gRPC server on the running loop, if one is wanted and what it needs is there."""
    if config.grpc_port < 0:
        return None
    extra = "grpc" if config.grpc_server == "own" else "grpcio"
    try:
        from xirang.frontends.grpc.servicer import Servicer
        from xirang.frontends.grpc.settings import GrpcSettings, door_of

        door = door_of(config.grpc_server)
    except ImportError as error:
        if config.grpc_port != GRPC_PORT or extra == "grpcio":
            raise InvalidSetting(f"gRPC needs `pip install 'xirang[{extra}]'`: {error}") from error
        log.info("no gRPC, because it is not installed: pip install 'xirang[grpc]'")
        return None
    memory_bytes_max = config.memory_mib_max << 20
    return door(
        Servicer(
            service, keys, repository, memory_bytes_max=memory_bytes_max, extensions=extensions
        ),
        GrpcSettings(
            host=config.host,
            port=config.grpc_port,
            message_bytes_max=config.grpc_message_mib_max << 20,
            compression=config.grpc_compression,
            certificate=(
                (config.tls_certificate, config.tls_key) if config.tls_certificate else None
            ),
            connections_max=config.connections_max,
            client_timeout_s=config.client_timeout_s,
        ),
    )


def _connections_max(wanted: int, doors: int) -> int:
    """As many as file descriptors allow: who comes when they are used up gets no answer at all.

    Args:
        wanted: Of one door.
        doors: Which may have so many each.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * doors + DESCRIPTORS_RESERVED
    if resource.RLIM_INFINITY not in (soft, hard) and soft < needed:
        soft = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(1, (soft - DESCRIPTORS_RESERVED) // doors)
    log.warning(
        "%d file descriptors allow %d connections, not %d; expected a higher limit (ulimit -n)",
        soft,
        allowed,
        wanted,
    )
    return allowed


def listen(host: str, port: int) -> socket.socket:
    """A socket on which a server may accept.

    Raises:
        InvalidSetting: The port is taken, or the address is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # from now on the port is taken for others who would bind it
    except OSError as error:
        listener.close()
        raise InvalidSetting(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


class _Server(uvicorn.Server):
    """Leaves signals to us: we drain the engine first, and exit with 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal."""
        yield


def _nothing_hot(_url: bytes) -> None:
    """The `Match` of a server whose routes are all cold."""


def _tls(config: Config) -> ssl.SSLContext | None:
    if not config.tls_certificate:
        return None
    for file in (config.tls_certificate, config.tls_key):
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise InvalidSetting(f"cannot read {file}: {error.strerror}") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Nobody is there to type a password, so an encrypted key is refused.
        context.load_cert_chain(config.tls_certificate, config.tls_key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InvalidSetting(
            f"{config.tls_certificate} and {config.tls_key} are no certificate and its key, "
            f"unencrypted: {reason}"
        ) from error
    return context
