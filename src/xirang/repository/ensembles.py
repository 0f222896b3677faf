"""Which ensembles are made of which models: who goes and who comes back with whom."""

from collections.abc import Callable, Sequence

from xirang.engine.pipeline import Pipeline


class Dependents:
    """All ensembles that serve, or would if their models did."""

    def __init__(self) -> None:
        self._models: dict[str, frozenset[str]] = {}
        self._waiting: set[str] = set()

    def come(self, name: str, pipeline: Pipeline | None) -> None:
        """A model serves; it is no ensemble if it has no pipeline."""
        self._waiting.discard(name)
        if pipeline is None:
            self._models.pop(name, None)
        else:
            self._models[name] = pipeline.models()

    def leave(self, name: str) -> None:
        """A model does not serve any more, and comes back only by itself."""
        self._waiting.discard(name)
        self._models.pop(name, None)

    def wait(self, name: str) -> None:
        """An ensemble went because one of its models did; it comes back with that."""
        self._waiting.add(name)

    def made_of(self, name: str) -> list[str]:
        """Ensembles that serve and are made of a model."""
        return sorted(
            ensemble
            for ensemble, models in self._models.items()
            if name in models and ensemble not in self._waiting
        )

    def waiting_for(self, versions: Callable[[str], Sequence[str]]) -> list[str]:
        """Ensembles that wait and whose models all serve now, given what tells the latter."""
        return sorted(
            ensemble
            for ensemble in self._waiting
            if all(versions(model) for model in self._models.get(ensemble, ()))
        )
