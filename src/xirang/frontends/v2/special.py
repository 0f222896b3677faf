"""What a request may ask of an output beside its form: the best classes, or a place in memory."""

from collections.abc import Mapping
from typing import Any

import msgspec

from xirang.errors import InvalidRequest
from xirang.frontends.v2.shared_memory import OFFSET_MAX, Place

REGION, OFFSET, BYTE_SIZE = (
    "shared_memory_region",
    "shared_memory_offset",
    "shared_memory_byte_size",
)
CLASSIFICATION = "classification"


class Special(msgspec.Struct, frozen=True):
    """Outputs that do not go into the answer as they are.

    Attributes:
        classes: Name to how many of the best classes are wanted.
        places: Name to where it is to be written.
    """

    classes: Mapping[str, int]
    places: Mapping[str, Place]


def special_of(outputs: Mapping[str, Mapping[str, Any]]) -> Special | None:
    """What is asked of outputs, given their parameters; None if nothing special is.

    Raises:
        InvalidRequest: A parameter is wrong, or two contradict each other.
    """
    classes: dict[str, int] = {}
    places: dict[str, Place] = {}
    for name, parameters in outputs.items():
        try:
            place = place_of(parameters)
        except InvalidRequest as error:
            raise InvalidRequest(f"output '{name}': {error}") from None
        count = unsigned(parameters, CLASSIFICATION)
        if place is not None:
            for other in (CLASSIFICATION, "binary_data"):
                if parameters.get(other):
                    raise InvalidRequest(f"Output can't set both '{REGION}' and '{other}'")
            places[name] = place
        elif count:
            classes[name] = count
    return Special(classes, places) if classes or places else None


def place_of(parameters: Mapping[str, Any]) -> Place | None:
    """Where a tensor's parameters say that it lies; None if they do not.

    Raises:
        InvalidRequest: They are wrong.
    """
    region = parameters.get(REGION)
    if region is None:
        return None
    if type(region) is not str:
        raise InvalidRequest(f"parameter '{REGION}' must be a string")
    if BYTE_SIZE not in parameters:
        raise InvalidRequest(
            f"'{BYTE_SIZE}' must be specified along with '{REGION}' parameter for a tensor"
        )
    return Place(region, unsigned(parameters, OFFSET), unsigned(parameters, BYTE_SIZE))


def unsigned(parameters: Mapping[str, Any], name: str) -> int:
    """A parameter's value; 0 if it is not there.

    Raises:
        InvalidRequest: It is no whole number, below 0, or beyond all memory.
    """
    value = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        raise InvalidRequest(f"parameter '{name}' must be an unsigned integer")
    return value
