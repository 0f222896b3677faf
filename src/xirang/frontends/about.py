"""What a client says of a request besides its tensors, for models that want to know."""

from collections.abc import Mapping
from typing import Any

import orjson

from xirang.backends.requests import About

_TAKEN = {
    "binary_data_output",
    "priority",
    "sequence_end",
    "sequence_id",
    "sequence_start",
    "timeout",
}
"""Parameters that servers understand; models get the others."""

_PREFIXES = ("triton_", "xirang_")


def about_of(identity: str, parameters: Mapping[str, Any] | None) -> About | None:
    """The id and the parameters of a request; None if there is nothing to say.

    Args:
        identity: As the client numbers it.
        parameters: All of them, checked.
    """
    if not parameters:
        return About(identity) if identity else None
    own = {
        name: value
        for name, value in parameters.items()
        if name not in _TAKEN and not name.startswith(_PREFIXES)
    }
    sequence = parameters.get("sequence_id", 0)
    return About(
        identity,
        orjson.dumps(own).decode() if own else "",
        parameters.get("timeout", 0),
        sequence if isinstance(sequence, int | str) else 0,
    )
