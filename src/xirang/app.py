"""The one place that wires objects: settings in, a running server or engine out."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn

from xirang.config import Config, load_config
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.errors import InvalidSetting
from xirang.frontends.cold import cold_app
from xirang.frontends.http import serve_protocol
from xirang.frontends.routes import hot_routes
from xirang.repository.discover import Source, discover
from xirang.repository.load import Loaded, cores, load as load_model
from xirang.text.tokenizer import TextModel

log = logging.getLogger("xirang")


def load(*paths: str, **settings: Any) -> Engine:
    """An engine with models, for use inside a program.

        async with xirang.load("models/all-MiniLM-L6-v2", budget_ms=100) as engine:
            outputs = await engine.infer("all-MiniLM-L6-v2", {"input_ids": ids, …})

    Args:
        paths: What `xirang serve` takes: ONNX files, folders, `module:name`.
        settings: Fields of `config.ModelSettings`.

    Raises:
        InvalidSetting: A path holds no model, or a setting is impossible.
    """
    config = load_config(environment={}, options=settings)
    engine = Engine(parallelism=cores())
    for source in _discover(paths, config):
        engine.add(_load(source, config).model)
    return engine


def serve(paths: Sequence[str], config: Config, *, on_ready: Callable[[str], None] = print) -> int:
    """Serve models over HTTP until SIGTERM or SIGINT; then finish what is in.

    Args:
        paths: As for `load`.
        config: All settings.
        on_ready: Gets one line with the address when every model is loaded and warm.

    Returns:
        The process's exit status: 0 after a clean end.
    """
    logging.basicConfig(
        level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    sources = _discover(paths, config)  # what is wrong is told before the port is taken
    with _listen(config.host, config.http_port) as listener:
        return _run_on_loop(_Service(sources, config, listener, on_ready).run)


def _run_on_loop(main: Callable[[], Any]) -> int:
    """Run a coroutine on uvloop where there is one."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        result: int = runner.run(main())
        return result


class _Server(uvicorn.Server):
    """Leaves signals to us: we drain the engine first, and exit with 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal."""
        yield


class _Service:
    """A server from its first bound port to its last answer."""

    def __init__(
        self,
        sources: Sequence[Source],
        config: Config,
        listener: socket.socket,
        on_ready: Callable[[str], None],
    ) -> None:
        self._sources = sources
        self._config = config
        self._listener = listener
        self._on_ready = on_ready
        self._engine = Engine(parallelism=cores(), is_loading=True)
        self._texts: dict[str, TextModel] = {}
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Listen, load, serve, drain."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        await self._engine.start()
        server = self._server()
        serving = asyncio.ensure_future(server.serve(sockets=[self._listener]))
        try:
            await self._load_all()
            if not self._stop.is_set():
                stopping = asyncio.ensure_future(self._stop.wait())
                await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
            status = await self._drain()
            server.force_exit = status != 0  # whoever is left has waited long enough
            return status
        finally:
            server.should_exit = True
            await serving

    def _server(self) -> _Server:
        body_bytes_max = self._config.body_mib_max << 20
        protocol = serve_protocol(
            hot_routes(self._engine, self._texts), body_bytes_max=body_bytes_max
        )
        return _Server(
            uvicorn.Config(
                cold_app(self._engine, self._texts),
                http=protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, int(self._config.exit_timeout_s)),
            )
        )

    async def _load_all(self) -> None:
        loop = asyncio.get_running_loop()
        for source in self._sources:
            # Probing takes seconds; meanwhile health is answered, with "not ready".
            loaded = await loop.run_in_executor(None, _load, source, self._config)
            if self._stop.is_set():
                return
            if loaded.text is not None:
                self._texts[source.name] = loaded.text
            self._engine.add(loaded.model)
            log.info("serving %s: %s", source.name, loaded.model.verdict)
        # What lives now lives for good: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        self._engine.set_loaded()
        host, port = self._listener.getsockname()[:2]
        self._on_ready(
            f"xirang serves {', '.join(self._engine.model_names())} on http://{host}:{port}"
        )

    async def _drain(self) -> int:
        log.info("draining")
        try:
            await asyncio.wait_for(self._engine.close(), self._config.exit_timeout_s)
        except TimeoutError:
            log.warning("not everything was answered within %s s", self._config.exit_timeout_s)
            return 1
        return 0


def _discover(paths: Sequence[str], config: Config) -> list[Source]:
    sources = discover(paths)
    names = {source.name for source in sources}
    unknown = sorted(config.models.keys() - names)
    if unknown:
        raise InvalidSetting(
            f"there are settings for {unknown}, which are not served; served are {sorted(names)}"
        )
    return sources


def _load(source: Source, config: Config) -> Loaded:
    return load_model(source, config.settings_of(source.name), clock=MonotonicClock())


def _listen(host: str, port: int) -> socket.socket:
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
