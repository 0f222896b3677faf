"""The one place that wires objects: settings in, a running server or engine out."""

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xirang.config import Config, load_config
from xirang.core.admission.levels import Thresholds
from xirang.core.memory.pool import PoolSettings
from xirang.core.scheduler import Scheduler
from xirang.engine.clock import MonotonicClock, epoch_ns
from xirang.engine.engine import Engine
from xirang.engine.machine import Machine
from xirang.errors import InvalidSetting
from xirang.frontends.doors import Doors
from xirang.memory.cuda_driver import pools_bytes
from xirang.memory.machine import Pressure, pool_bytes
from xirang.observe.logs import logging_to
from xirang.observe.observers import Observers
from xirang.observe.outlet import Outlet
from xirang.observe.recorder import RecordedScheduler, Recorder
from xirang.observe.recording import Ground
from xirang.observe.tracing import Times
from xirang.repository.catalogue import Catalogue
from xirang.repository.costs import keep
from xirang.repository.discover import Source, discover
from xirang.repository.load import Loaded, check_readers, cores, load as load_model
from xirang.text.tokenizer import TextModel

log = logging.getLogger("xirang")

KEEP_EVERY_S = 300.0
"""What was learned is also kept while serving, for a process that is killed."""


def load(*paths: str, **settings: Any) -> Engine:
    """An engine with models, for use inside a program.

        async with xirang.load("models/all-MiniLM-L6-v2", budget_ms=100) as engine:
            outputs = await engine.infer("all-MiniLM-L6-v2", {"input_ids": ids, …})

    Args:
        paths: What `xirang serve` takes: ONNX files, folders, `module:name`.
        settings: Fields of `config.ModelSettings`; callables stay in this process by default.

    Raises:
        InvalidSetting: A path holds no model, or a setting is impossible.
    """
    config = load_config(environment={}, options={"process": "no"} | settings)
    scheduler = Scheduler(devices={"cpu": cores()}, pool=_pool(config))
    engine = Engine(scheduler=scheduler, cache_bytes=config.cache_mib << 20)
    for source in _discover(paths, config):
        engine.add(_load(source, config).model)
    engine.economy.check()
    return engine


def serve(paths: Sequence[str], config: Config, *, on_ready: Callable[[str], None] = print) -> int:
    """Serve models over HTTP and gRPC until SIGTERM or SIGINT; then finish what is in.

    Args:
        paths: As for `load`.
        config: All settings.
        on_ready: Gets one line with the address when every model is loaded and warm.

    Returns:
        The process's exit status: 0 after a clean end.
    """
    told = logging_to(sys.stderr, form=config.log_format, level=config.log_level, epoch_ns=epoch_ns)
    with told as lines:
        sources = _discover(paths, config)  # what is wrong is told before the port is taken
        with Doors(config) as doors:
            return _run_on_loop(_Service(sources, config, doors, lines, on_ready).run)


def _run_on_loop(main: Callable[[], Any]) -> int:
    """Run a coroutine on uvloop where there is one."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        result: int = runner.run(main())
        return result


class _Service:
    """A server from its first bound port to its last answer."""

    def __init__(
        self,
        sources: Sequence[Source],
        config: Config,
        doors: Doors,
        lines: Outlet[Any],
        on_ready: Callable[[str], None],
    ) -> None:
        self._sources = sources
        self._config = config
        self._doors = doors
        self._on_ready = on_ready
        ground = _ground(config, doors)
        self._recorder = _recorder(config, ground)
        self._engine = Engine(
            parallelism=cores(),
            is_loading=True,
            scheduler=_scheduler(self._recorder, ground),
            cache_bytes=config.cache_mib << 20,
        )
        self._observers = _observers(config, doors, self._engine, lines)
        self._loaded: list[Loaded] = []
        self._texts: dict[str, TextModel] = {}
        self._engine.needs_all = config.strict_readiness
        self._catalogue = Catalogue(self._engine, config, self._texts)
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> int:
        """Listen, load, serve, drain."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        await self._engine.start()
        serving = self._doors.open(self._engine, self._texts, self._catalogue)
        status = 1
        try:
            await self._load_all()
            if not self._stop.is_set():
                await self._serve_until_stopped(serving)
            await self._retire()
            status = await self._drain()
            return status
        finally:
            self._doors.shut(by_force=status != 0)  # whoever is left has waited long enough
            await serving
            self._keep_learned()
            if self._recorder is not None:
                self._recorder.close()
            self._observers.close()

    def _signalled(self) -> None:
        (self._hurry if self._stop.is_set() else self._stop).set()

    async def _serve_until_stopped(self, serving: "asyncio.Future[Any]") -> None:
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stop.wait())
        watching = [asyncio.ensure_future(each) for each in self._watches()]
        waiting: list[asyncio.Future[Any]] = [serving, stopping]
        while not any(future.done() for future in waiting):
            await asyncio.wait(waiting, timeout=KEEP_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            self._keep_learned()
        for each in (*watching, stopping):
            each.cancel()

    def _watches(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What looks after something as long as there is service."""
        yield self._catalogue.watch()
        if _pool(self._config) is not None:
            capacity = partial(_capacity_bytes, self._config)
            pressure = Pressure().look
            clock = MonotonicClock()
            yield Machine(self._engine, clock, capacity=capacity, pressure=pressure).watch()

    def _keep_learned(self) -> None:
        for loaded in (*self._loaded, *self._catalogue.loaded()):
            keep(loaded.learned, loaded.cost_kind, loaded.model.cost)

    async def _load_all(self) -> None:
        loop = asyncio.get_running_loop()
        for source in self._sources:
            # Probing takes seconds; meanwhile health is answered, with "not ready".
            loaded = await loop.run_in_executor(None, _load, source, self._config)
            if self._stop.is_set():
                return
            if loaded.text is not None:
                self._texts[source.name] = loaded.text
            await self._engine.evictions.make_room(loaded.model)
            self._engine.add(loaded.model)
            self._loaded.append(loaded)
            log.info("serving %s: %s", source.name, loaded.model.verdict)
        if not await self._catalogue_opened():
            return
        self._engine.economy.check()
        check_readers(self._loaded)
        # What lives now lives for good: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        self._engine.set_loaded()
        names = ", ".join(self._engine.model_names())
        places = " and ".join(filter(None, (self._doors.url, self._doors.grpc_url)))
        self._on_ready(f"xirang serves {names} on {places}")

    async def _catalogue_opened(self) -> bool:
        """Load the repositories; false if the server is to stop before that is done."""
        opening = asyncio.ensure_future(self._catalogue.open())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not opening.done():
            opening.cancel()
            return False
        await opening
        return True

    async def _retire(self) -> None:
        """Say that we go, and serve on for whoever has not heard it yet."""
        self._engine.retire()
        if self._config.grace_s and self._engine.model_names():
            log.info("no longer ready; serving for another %g s", self._config.grace_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._config.grace_s)

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
    if unknown and not config.model_repository:  # there may be a model of that name some day
        raise InvalidSetting(
            f"there are settings for {unknown}, which are not served; served are {sorted(names)}"
        )
    return sources


def _load(source: Source, config: Config) -> Loaded:
    return load_model(source, config.settings_of(source.name), clock=MonotonicClock())


def _ground(config: Config, doors: Doors) -> Ground:
    """What the scheduler begins with."""
    low, all_of_them, degrade = config.overload_levels
    depths = config.overload_depths
    return Ground(
        {"cpu": cores()},
        Thresholds(
            low, all_of_them, degrade, (depths[0], depths[1], depths[2]) if depths else None
        ),
        doors.allowances(),
        _pool(config),
    )


def _pool(config: Config) -> PoolSettings | None:
    """The memory that models share; None if nobody is to count it."""
    if config.memory_pool_mib < 0 or (capacity_bytes := _capacity_bytes(config)) is None:
        return None
    return PoolSettings(capacity_bytes, devices=pools_bytes(config.memory_device_mib << 20))


def _capacity_bytes(config: Config) -> int | None:
    return config.memory_pool_mib << 20 or pool_bytes()


def _observers(config: Config, doors: Doors, engine: Engine, lines: Outlet[Any]) -> Observers:
    """Who sees what happens at the doors."""
    engine.counts.lines = lines.tally
    times = Times(MonotonicClock.now_ns, epoch_ns)
    observers = Observers(config, engine.counts, log=lines, times=times, is_off=engine.is_off)
    doors.extensions.witness = observers.witness
    observers.obey(doors.extensions.dials)
    return observers


def _recorder(config: Config, ground: Ground) -> Recorder | None:
    if not config.record:
        return None
    return Recorder(Path(config.record), size_bytes=config.record_mib << 20, ground=ground)


def _scheduler(recorder: Recorder | None, ground: Ground) -> Scheduler:
    if recorder is None:
        return Scheduler(
            devices=ground.devices,
            thresholds=ground.thresholds,
            allowances=ground.allowances,
            pool=ground.pool,
        )
    return RecordedScheduler(ground, recorder=recorder)
