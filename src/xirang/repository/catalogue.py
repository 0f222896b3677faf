"""The models of Triton's repositories: loaded, replaced and unloaded while the server serves.

A model that cannot be loaded takes nobody along: it is unavailable, with the reason, and whatever
served before goes on. One is loaded at a time, because measurements disturb each other.

Files are taken for whole when two looks at them see the same sizes and dates: two polls, or a look
before and one after a load. Who moves a finished folder into place need not rely on that.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from xirang.config import Config
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.engine.lifecycle import State
from xirang.engine.model import Model
from xirang.errors import InvalidRequest, InvalidSetting, NotReady, UnknownModel
from xirang.repository.costs import keep
from xirang.repository.ensembles import Dependents
from xirang.repository.load import Loaded
from xirang.repository.override import Override, Parameters, override_of
from xirang.repository.triton.ensemble import ensemble
from xirang.repository.triton.layout import Place, Stamp, chosen, places
from xirang.repository.triton.schema import ModelConfig
from xirang.repository.triton.serving import Terms, load_version
from xirang.repository.triton.wiring import is_ensemble, steps_of
from xirang.text.tokenizer import TextModel

log = logging.getLogger(__name__)

EVERYTHING = "*"
MANAGED = "explicit model load / unload is not allowed if polling is enabled"
CHANGED = "its files changed while they were loaded"

Stamps = tuple[Stamp, Stamp]
"""Of the configuration and of a version."""


@dataclass(frozen=True, slots=True)
class _Serving:
    """A version that serves.

    Attributes:
        loaded: It.
        stamps: Of its files; None if they came with a request.
        config: As it was read or came along.
        scratch: Holds those.
    """

    loaded: Loaded
    stamps: Stamps | None
    config: ModelConfig
    scratch: "TemporaryDirectory[str] | None" = None


class Catalogue:
    """All models of all repositories."""

    def __init__(self, engine: Engine, config: Config, texts: dict[str, TextModel]) -> None:
        """Begin with none.

        Args:
            engine: Serves them.
            config: Which repositories, and how they are managed.
            texts: Gets the tokenizers of text models.

        Raises:
            InvalidSetting: A repository is no folder.
        """
        self._engine = engine
        self._config = config
        self._texts = texts
        self._roots = [Path(root) for root in config.model_repository]
        self._serving: dict[str, dict[int, _Serving]] = {}
        self._seen: dict[str, Mapping[str, Stamp]] = {}  # at the last poll
        self._tried: dict[str, Mapping[str, Stamp]] = {}  # when it was last loaded, or not
        self._ensembles = Dependents()
        self._lock = asyncio.Lock()
        self._farewells: set[asyncio.Task[None]] = set()
        self._look()
        engine.roster.others = self._names
        engine.evictions.keeper = self._evicted

    async def open(self) -> None:
        """Load what is to be served from the start."""
        wanted = set(self._config.load_model)
        takes_all = self._config.model_control_mode != "explicit" or EVERYTHING in wanted
        found = self._look()
        for name in sorted(wanted - found.keys() - {EVERYTHING}):
            reason = "failed to poll from model repository"
            self._engine.roster.note(name, "", State.UNAVAILABLE, reason)
        for name in found:
            if takes_all or name in wanted:
                await self._try(name, found[name])

    async def watch(self) -> None:
        """Poll for ever, if that is how the repositories are managed."""
        while self._config.model_control_mode == "poll":
            await asyncio.sleep(self._config.repository_poll_s)
            await self.poll()

    async def load(self, name: str, parameters: Parameters) -> None:
        """Load a model or its changes, at a client's wish; return when it serves.

        Raises:
            NotReady: Clients have no wishes here.
            UnknownModel: No repository has it.
            InvalidRequest: It cannot be loaded, and why.
        """
        self._check_managed()
        override = await asyncio.to_thread(override_of, name, parameters)
        found = self._look()
        if name not in found and not (override and override.place):
            raise UnknownModel(f"failed to load '{name}', failed to poll from model repository")
        await self._load(name, found.get(name), override)

    async def unload(self, name: str) -> None:
        """Serve a model no more, at a client's wish; who is in is still answered.

        Raises:
            NotReady: Clients have no wishes here.
            InvalidRequest: The model is none of a repository.
        """
        self._check_managed()
        async with self._lock:
            if not self._serving.get(name) and self._engine.roster.versions(name):
                raise InvalidRequest(f"model '{name}' is in no model repository")
            self._drop(name)

    async def poll(self) -> None:
        """Take up what was changed in the repositories and has settled since."""
        try:
            found = self._look()
        except (InvalidSetting, OSError) as error:
            log.warning("the model repositories cannot be read: %s", error)
            return
        for name in self._tried.keys() - found.keys():
            async with self._lock:
                self._drop(name, is_gone=True)
        for name, place in found.items():
            with contextlib.suppress(OSError):  # it changes while we look: the next poll sees it
                look = await asyncio.to_thread(_stamps, place)
                is_settled = self._seen.get(name) == look
                self._seen[name] = look
                if is_settled and self._tried.get(name) != look:
                    await self._try(name, place)

    def loaded(self) -> Iterator[Loaded]:
        """All that serves."""
        for versions in self._serving.values():
            for serving in versions.values():
                yield serving.loaded

    def _check_managed(self) -> None:
        if self._config.model_control_mode != "explicit":
            raise NotReady(MANAGED)

    def _look(self) -> dict[str, Place | None]:
        return places(self._roots)

    def _names(self) -> Iterable[str]:
        with contextlib.suppress(InvalidSetting, OSError):
            return self._look()
        return ()

    async def _try(self, name: str, place: Place | None) -> None:
        """Load what nobody waits for: if it cannot be, the log and the index say so."""
        try:
            await self._load(name, place)
        except InvalidRequest as error:
            log.warning("%s", error)

    async def _load(self, name: str, place: Place | None, override: Override | None = None) -> None:
        async with self._lock:
            try:
                await self._load_with_needs(name, place, override)
            except (InvalidSetting, OSError) as error:
                if not self._serving.get(name):
                    self._engine.roster.note(name, "", State.UNAVAILABLE, str(error))
                raise InvalidRequest(f"load failed for model '{name}': {error}") from error
            finally:
                self._tidy(override.scratch if override else None)

    async def _load_with_needs(
        self,
        name: str,
        place: Place | None,
        override: Override | None = None,
        chain: tuple[str, ...] = (),
    ) -> None:
        """Load a model, first those that it is made of, and last those that are made of it."""
        if name in chain:
            way = " -> ".join([*chain[chain.index(name) :], name])
            raise InvalidSetting(f"circular dependency between ensembles: {way}")
        config = override.config if override is not None else place and place.config()
        found = self._look() if config and is_ensemble(config) else {}
        for step in steps_of(config) if config else ():
            if not self._engine.roster.versions(step.model_name):
                await self._load_need(name, step.model_name, found, (*chain, name))
        if await self._load_versions(name, place, override):
            await self._follow(name)

    async def _load_need(
        self, name: str, need: str, found: Mapping[str, Place | None], chain: tuple[str, ...]
    ) -> None:
        """Load a model that an ensemble is made of; what cannot be loaded the ensemble tells."""
        if found.get(need) is None:
            raise InvalidSetting(
                f"ensemble {name} contains models that are not available or ambiguous: {need}"
            )
        if need not in chain and self._tried.get(need) == await asyncio.to_thread(
            _stamps, found[need]
        ):
            return  # it was tried as it is now
        try:
            await self._load_with_needs(need, found[need], chain=chain)
        except InvalidRequest as error:
            log.warning("%s", error)
        except (InvalidSetting, OSError) as error:
            if need in chain:
                raise
            self._engine.roster.note(need, "", State.UNAVAILABLE, str(error))

    async def _follow(self, name: str) -> None:
        """A model came or has changed: so may ensembles that are made of it."""
        for dependent in self._ensembles.made_of(name):
            for version, old in list(self._serving.get(dependent, {}).items()):
                self._renew(dependent, version, old)
        for dependent in self._ensembles.waiting_for(self._engine.roster.versions):
            place = self._look().get(dependent)
            if place is not None:
                with contextlib.suppress(InvalidRequest, InvalidSetting, OSError):
                    await self._load_with_needs(dependent, place)

    def _renew(self, name: str, version: int, old: _Serving) -> None:
        """Hold an ensemble against the models that serve now."""
        terms = self._terms(name)
        try:
            fresh = ensemble(old.config, version, self._engine.roster, terms.own or terms.common)
        except InvalidSetting as error:
            self._let_go(name, version, reason=str(error))
            self._ensembles.wait(name)
            log.warning("ensemble %s cannot be served any more: %s", name, error)
            return
        self._take_over(name, version, replace(old, loaded=fresh), [])

    async def _load_versions(
        self, name: str, place: Place | None, override: Override | None
    ) -> bool:
        """Load what is to be served and is not as it should be; whether anything was."""
        if override is not None and override.place is not None:
            place = override.place
        self._tried[name] = before = await asyncio.to_thread(_stamps, place)
        if place is None:
            raise InvalidSetting("several model repositories have a model of that name")
        config = place.config() if override is None else override.config
        wanted = chosen(config, place.versions())
        serving = self._serving.setdefault(name, {})
        leaving = [version for version in serving if version not in wanted]
        faults = {}
        has_changed = bool(leaving)
        for version in wanted:
            stamps = None if override else (before[""], before.get(str(version), ()))
            if stamps and version in serving and serving[version].stamps == stamps:
                continue
            try:
                loaded = await self._load_one(place, config, version)
                await self._check_unchanged(place, before)
                await self._engine.evictions.make_room(loaded.model)
                scratch = override.scratch if override else None
                fresh = _Serving(loaded, stamps, config, scratch)
                self._take_over(name, version, fresh, leaving)
                has_changed = True
            except Exception as error:  # whatever a model raises takes nobody else along
                faults[version] = self._fault(name, version, error)
        if faults:
            reasons = (f"version {v} is at UNAVAILABLE state: {why};" for v, why in faults.items())
            raise InvalidRequest(f"load failed for model '{name}': {' '.join(reasons)}")
        for version in leaving:
            self._let_go(name, version)
        return has_changed

    async def _load_one(self, place: Place, config: ModelConfig, version: int) -> Loaded:
        if version not in self._serving[place.name]:
            self._engine.roster.note(place.name, str(version), State.LOADING)
        terms = self._terms(place.name)
        if is_ensemble(config):
            made = terms.own or terms.common
            return ensemble(config, version, self._engine.roster, made)
        return await asyncio.to_thread(
            load_version, place, config, version, terms, clock=MonotonicClock()
        )

    def _terms(self, name: str) -> Terms:
        return Terms(
            self._config.model,
            self._config.models.get(name),
            can_complete=self._config.auto_complete_config,
        )

    async def _check_unchanged(self, place: Place, before: Mapping[str, Stamp]) -> None:
        if await asyncio.to_thread(_stamps, place) != before:
            self._tried.pop(place.name, None)  # the next poll will look again
            raise InvalidSetting(CHANGED)

    def _fault(self, name: str, version: int, error: Exception) -> str:
        if not isinstance(error, InvalidSetting | OSError):
            log.error("version %d of %s cannot be loaded", version, name, exc_info=error)
        reason = str(error) or type(error).__name__
        if version not in self._serving[name]:
            self._engine.roster.note(name, str(version), State.UNAVAILABLE, reason)
        return reason

    def _take_over(self, name: str, version: int, fresh: _Serving, leaving: list[int]) -> None:
        """Serve a version: in the place of itself, of one that leaves, or beside the others."""
        serving, model = self._serving[name], fresh.loaded.model
        if version in serving or leaving:
            old_version = version if version in serving else leaving.pop()
            farewell = self._engine.replace(model, version=str(old_version))
            self._say_farewell(farewell, serving.pop(old_version))
        else:
            self._engine.add(model)
        serving[version] = fresh
        self._ensembles.come(name, model.pipeline)
        self._tell_texts(name)
        log.info("serving version %d of %s: %s", version, name, model.verdict)

    def _drop(self, name: str, *, is_gone: bool = False, waits: bool = False) -> None:
        """Serve no version of a model, and forget that some could not be."""
        for version in list(self._serving.get(name, {})):
            self._let_go(name, version)
        for dependent in self._ensembles.made_of(name):
            self._ensembles.wait(dependent)
            self._drop(dependent, waits=True)
        if not waits:
            self._ensembles.leave(name)
        self._engine.roster.forgive(name)
        self._tried.pop(name, None)
        self._seen.pop(name, None)
        if is_gone:
            log.info("model %s is in no repository any more", name)

    def _let_go(self, name: str, version: int, *, reason: str = "") -> "asyncio.Task[None]":
        """Serve a version no more; the index tells the reason, if it did not go at a wish."""
        old = self._serving[name].pop(version)
        self._tell_texts(name)
        return self._say_farewell(self._engine.unload(name, str(version)), old, reason=reason)

    def _evicted(self, model: Model) -> "asyncio.Task[None] | None":
        """Serve a version no more because others need its memory; None if it is none of ours."""
        version = int(model.version) if model.version.isdigit() else 0
        if version not in self._serving.get(model.name, {}):
            return None
        return self._let_go(model.name, version)

    def _tell_texts(self, name: str) -> None:
        serving = self._serving[name]
        text = serving[max(serving)].loaded.text if serving else None
        if text is None:
            self._texts.pop(name, None)
        else:
            self._texts[name] = text

    def _say_farewell(
        self, farewell: Awaitable[None], old: _Serving, *, reason: str = ""
    ) -> "asyncio.Task[None]":
        """Let somebody be answered in peace, and clean up behind him."""

        async def say() -> None:
            await farewell
            if reason:
                model = old.loaded.model
                self._engine.roster.note(model.name, model.version, State.UNAVAILABLE, reason)
            if (name := old.loaded.model.name) not in self._names():
                self._engine.roster.forgive(name)
            keep(old.loaded.learned, old.loaded.cost_kind, old.loaded.model.cost)
            self._tidy(old.scratch)

        task = asyncio.ensure_future(say())
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)
        return task

    def _tidy(self, scratch: "TemporaryDirectory[str] | None") -> None:
        """Remove files that came with a request and that nobody serves."""
        scratches = [each.scratch for of in self._serving.values() for each in of.values()]
        if scratch is not None and scratch not in scratches:
            scratch.cleanup()


def _stamps(place: Place | None) -> Mapping[str, Stamp]:
    return {} if place is None else place.stamps()
