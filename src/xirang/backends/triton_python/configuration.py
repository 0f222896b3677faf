"""A model's configuration as model files know it: looked up, and completed before it is loaded."""

from collections.abc import Mapping, Sequence
from typing import Any

from xirang.core.signature import TensorSpec

_KNOWN = {"name", "data_type", "dims", "optional"}
_SCHEDULERS = ("sequence_batching", "ensemble_scheduling")


class ModelConfig:
    """A configuration in the hands of `auto_complete_config`.

    What its file says stands; a model may add to it, not contradict it.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def as_dict(self) -> dict[str, Any]:
        """All of it."""
        return self._config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Say how many rows a run may have.

        Raises:
            ValueError: The file allows more.
        """
        told = self._config.get("max_batch_size", 0)
        if told > max_batch_size:
            raise ValueError(
                f"configuration specifies max_batch_size {told}, but in auto-complete-config "
                f"function for model '{self._name()}' specifies max_batch_size {max_batch_size}"
            )
        self._config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Say that requests share runs.

        Raises:
            ValueError: The file wants another scheduler.
        """
        for other in _SCHEDULERS:
            if other in self._config:
                raise ValueError(
                    f"Configuration specifies scheduling_choice as {other}, but "
                    f"auto-complete-config function for model '{self._name()}' "
                    "specifies dynamic_batching"
                )
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, policy: Mapping[str, Any]) -> None:
        """Say whether a request may have another number of answers than one.

        Raises:
            ValueError: It says something else, or the file contradicts it.
        """
        if set(policy) != {"decoupled"}:
            raise ValueError(
                "model transaction policy contains property other than 'decoupled' in "
                f"auto-complete-config function for model '{self._name()}'."
            )
        told = self._config.get("model_transaction_policy", {}).get("decoupled")
        if told is not None and told != policy["decoupled"]:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model "
                f"'{self._name()}', which is already set to '{told}'."
            )
        self._config["model_transaction_policy"] = dict(policy)

    def add_input(self, tensor: Mapping[str, Any]) -> None:
        """Say what one input is.

        Raises:
            ValueError: That is too little, or contradicts the file.
        """
        self._add("input", tensor)

    def add_output(self, tensor: Mapping[str, Any]) -> None:
        """Say what one output is.

        Raises:
            ValueError: As for an input.
        """
        self._add("output", tensor)

    def _add(self, sort: str, tensor: Mapping[str, Any]) -> None:
        where = f"auto-complete-config function for model '{self._name()}'"
        if "name" not in tensor:
            raise ValueError(f"{sort} in {where} is missing 'name' property.")
        name = tensor["name"]
        for key in ("data_type", "dims"):
            if key not in tensor:
                raise ValueError(f"{sort} '{name}' in {where} is missing '{key}' property.")
        if not set(tensor) <= _KNOWN:
            raise ValueError(
                f"{sort} '{name}' in {where} contains property other than 'name', 'data_type', "
                "'dims' and 'optional'."
            )
        told = self._config.setdefault(sort, [])
        found = next((each for each in told if each["name"] == name), None)
        if found is None:
            told.append(dict(tensor))
            return
        for key, nothing in (("data_type", "TYPE_INVALID"), ("dims", [])):
            known, said = found.get(key, nothing), tensor[key]
            if known not in (nothing, said if key == "data_type" else list(said)):
                raise ValueError(
                    f"unable to load model '{self._name()}', configuration expects {key} {known} "
                    f"for {sort} '{name}' but {where} gives {said}"
                )
            found[key] = said

    def _name(self) -> str:
        return str(self._config.get("name", ""))


def spec_of(name: str, data_type: str, dims: Sequence[int], *, is_batched: bool) -> TensorSpec:
    """A tensor as a configuration declares it; `dims` are without the rows."""
    datatype = data_type.removeprefix("TYPE_")
    rows = (None,) if is_batched else ()
    own = [None if size == -1 else size for size in dims]
    return TensorSpec(name, "BYTES" if datatype == "STRING" else datatype, (*rows, *own))


def get_input_config_by_name(config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """What a configuration says of an input; None if nothing."""
    return _by_name(config.get("input", ()), name)


def get_output_config_by_name(config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """What a configuration says of an output; None if nothing."""
    return _by_name(config.get("output", ()), name)


def using_decoupled_model_transaction_policy(config: Mapping[str, Any]) -> bool:
    """Whether a request may have another number of answers than one."""
    return bool(config.get("model_transaction_policy", {}).get("decoupled", False))


def _by_name(tensors: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((each for each in tensors if each["name"] == name), None)
