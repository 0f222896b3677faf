"""Which models are served, by name and version: how they come, stand and go.

A model that replaces another takes its name over at once: new requests go to the new one, while the
old one has lanes of its own in which everybody who is in is still answered. Nobody is lost, and
nobody's inputs meet a model that they were not checked for.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from xirang.core.snapshot import ModelSnapshot, Snapshot
from xirang.engine.model import Model
from xirang.errors import NotReady, UnknownModel

UNLOADED = "unloaded"
"""The reason of who was asked to go: such a model makes no server unready."""


class State(Enum):
    """In which state a version is."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


@dataclass(slots=True, eq=False)
class Standing:
    """One version of a model.

    Attributes:
        name: Of the model.
        version: Empty while there is none to name.
        state: In which it is.
        reason: Why it is not served.
        model: What serves it; None if nothing does.
    """

    name: str
    version: str
    state: State
    reason: str = ""
    model: Model | None = None


class Roster:
    """All models that are or might be served.

    Attributes:
        is_loading: Whether more are to come, so that nobody is told that there is no such model.
        others: Gives names of models that might be served, if somebody asked.
    """

    def __init__(self, *, is_loading: bool = False) -> None:
        self.is_loading = is_loading
        self.others: Callable[[], Iterable[str]] = tuple
        self._standings: dict[str, dict[str, Standing]] = {}
        self._newest: dict[str, Model] = {}

    def find(self, name: str, version: str | None = None) -> Model:
        """The model that serves a name; its greatest version, if none is asked for.

        Raises:
            UnknownModel: There is none of that name or version.
            NotReady: There is, but it is not ready.
        """
        if not version:
            model = self._newest.get(name)
        else:
            standing = self._standings.get(name, {}).get(version)
            model = None if standing is None else standing.model
        if model is None:
            raise self._missing(name, version)
        return model

    def names(self) -> list[str]:
        """Names of the served models."""
        return list(self._newest)

    def versions(self, name: str) -> tuple[str, ...]:
        """The served versions of a model, the least first."""
        return tuple(each.version for each in self._of(name) if each.model is not None)

    def reason(self, name: str) -> str:
        """Why a model is not served, as far as that is known."""
        return "; ".join([each.reason for each in self._of(name) if each.reason])

    def standings(self) -> Iterator[Standing]:
        """All versions of all models, and a nameless one of models that have none, by name."""
        for name in sorted({*self._standings, *self.others()}):
            found = self._of(name)
            yield from found or [Standing(name, "", State.UNAVAILABLE)]

    def index(self, *, only_ready: bool = False) -> list[dict[str, str]]:
        """The same as plain values; nothing is said that is not known."""
        found = []
        for each in self.standings():
            if not only_ready or each.state is State.READY:
                known = {"name": each.name, "version": each.version, "state": each.state.value}
                if not each.version and not each.reason:
                    del known["state"]  # nobody has asked for it yet
                found.append({k: v for k, v in (known | {"reason": each.reason}).items() if v})
        return found

    def is_whole(self) -> bool:
        """Whether everything that was to be served is."""
        return all(
            each.state is State.READY or each.reason == UNLOADED
            for standings in self._standings.values()
            for each in standings.values()
        )

    def put(self, model: Model) -> None:
        """A model serves its name and version from now on."""
        standing = Standing(model.name, model.version, State.READY, model=model)
        versions = self._standings.setdefault(model.name, {})
        versions.pop("", None)
        versions[model.version] = standing
        self._choose(model.name)

    def note(self, name: str, version: str, state: State, reason: str = "") -> None:
        """Nobody serves this version now; what serves others stays."""
        versions = self._standings.setdefault(name, {})
        if version:
            versions.pop("", None)
        versions[version] = Standing(name, version, state, reason)
        self._choose(name)

    def forgive(self, name: str) -> None:
        """Forget what could not be served of a model."""
        standings = self._standings.pop(name, {})
        kept = {v: each for v, each in standings.items() if each.state is not State.UNAVAILABLE}
        if kept:
            self._standings[name] = kept

    def _of(self, name: str) -> list[Standing]:
        return sorted(self._standings.get(name, {}).values(), key=_order)

    def _choose(self, name: str) -> None:
        self._newest.pop(name, None)
        for standing in self._of(name):
            if standing.model is not None:
                self._newest[name] = standing.model

    def _missing(self, name: str, version: str | None) -> NotReady | UnknownModel:
        words = f"Request for unknown model: '{name}'"
        standings = self._standings.get(name)
        if self.is_loading and not self.versions(name):
            return NotReady(f"model '{name}' is not loaded yet, if it is served at all")
        if not standings:
            return UnknownModel(f"{words} is not found")
        if any(each.state is State.LOADING for each in standings.values()) and not version:
            return NotReady(f"model '{name}' is not loaded yet")
        if not version:
            return UnknownModel(f"{words} has no available versions")
        if version in standings:
            return NotReady(f"{words} version {version} is not at ready state")
        return UnknownModel(f"{words} version {version} is not found")


def _order(standing: Standing) -> tuple[int, str]:
    number = standing.version
    return (int(number) if number.isdigit() else 0, number)


class Farewells:
    """Counts down who is still in lanes that take nobody any more."""

    def __init__(self) -> None:
        self._left: dict[str, int] = {}
        self._emptied: dict[str, asyncio.Event] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    async def wait(self, lanes: str, count: int) -> None:
        """Return when so many have been answered.

        Args:
            lanes: That take nobody any more.
            count: Who is in them.
        """
        if count:
            self._left[lanes] = count
            self._emptied[lanes] = asyncio.Event()
            await self._emptied[lanes].wait()

    def note(self, lanes: str, count: int) -> None:
        """So many of somebody's lanes have been answered."""
        left = self._left.get(lanes)
        if left is None:
            return
        self._left[lanes] = left - count
        if left <= count:
            del self._left[lanes]
            self._emptied.pop(lanes).set()


def named(snapshot: Snapshot, name_of: Callable[[str], str]) -> Snapshot:
    """What is, by the names that are counted under instead of those of lanes.

    Where several lanes have one name, they are added up; the rest is that of the last one.
    """
    found: dict[str, ModelSnapshot] = {}
    for model in snapshot.models:
        name = name_of(model.model)
        known = found.get(name)
        if known is None:
            found[name] = model if model.model == name else replace(model, model=name)
            continue
        found[name] = replace(
            model,
            model=name,
            waiting=model.waiting + known.waiting,
            running=model.running + known.running,
            work_ns=model.work_ns + known.work_ns,
            demand=model.demand + known.demand,
        )
    return replace(snapshot, models=tuple(found.values()))
