"""Brings an answer's outputs into the form or to the place that the request named for them."""

from collections.abc import Mapping

from xirang.frontends.service import ModelInfo
from xirang.frontends.v2.classification import classified
from xirang.frontends.v2.kserve_answer import datatype_of
from xirang.frontends.v2.shared_memory import Regions
from xirang.frontends.v2.special import Special
from xirang.frontends.v2.tensor_forms import to_binary
from xirang.tensors.tensor import Array


class Delivery:
    """Made when a request is admitted, so that what it names is there when the answer is."""

    __slots__ = ("_classes", "_is_batched", "_labels", "_targets")

    def __init__(self, special: Special, regions: Regions, model: ModelInfo) -> None:
        """Look up what a request names.

        Args:
            special: What it asks.
            regions: Of shared memory.
            model: Of whose outputs it speaks.

        Raises:
            XirangError: A place is in no region, or not within it.
        """
        self._targets = regions.targets(special.places)
        self._classes = special.classes
        self._labels = model.labels
        self._is_batched = bool(model.config.get("max_batch_size"))

    def __call__(self, outputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs as the answer tells of them, after those with a place were written there.

        Raises:
            InvalidRequest: One has no classes, or does not fit its place.
        """
        found = dict(outputs)
        for name, count in self._classes.items():
            if name in found:
                found[name] = classified(
                    found[name],
                    count,
                    labels=self._labels.get(name, ()),
                    is_batched=self._is_batched,
                    name=name,
                )
        for name, target in self._targets.items():
            if name in found:
                target.write(name, to_binary(found[name], datatype_of(name, found[name])))
        return found
