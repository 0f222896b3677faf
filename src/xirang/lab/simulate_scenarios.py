"""What `xirang simulate` assumes unless told otherwise: defaults and named scenarios."""

from argparse import Namespace
from typing import Any

from xirang.errors import InvalidSetting

LAW_MINILM = "2.07,0,0.132,0.00012"
"""MiniLM, quantised, on one core of a server CPU."""

DEFAULTS: dict[str, Any] = {
    "requests": 20_000,
    "rate": None,
    "load": None,
    "arrivals": "poisson",
    "trace": None,
    "compress": 1.0,
    "lengths": "lognormal:30:0.92:3:512",
    "budgets": "1000",
    "priorities": "2",
    "seed": 0,
    "models": 1,
    "devices": 1,
    "law": LAW_MINILM,
    "noise": 0.0,
    "outliers": "0",
    "blip": None,
    "policies": "ours",
    "batching": "optimal",
    "max_batch_size": 128,
    "elements_max": None,
    "efficiency": 0.5,
    "window_ms": 5.0,
    "depth_max": 4096,
    "scenario": None,
    "json": None,
    "html": None,
}

_IMAGES = {
    "law": "5,0.25",
    "lengths": "fixed:1",
    "budgets": "50",
    "max_batch_size": 64,
    "window_ms": 1000.0,
    "depth_max": 100_000,
}

SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {
    "texts": ("texts of many lengths through MiniLM; the default", {}),
    "images": ("one shape, 5 ms a call and 0.25 ms a row, budget 50 ms", _IMAGES),
    "zoo": (
        "eight models of that shape share a device, budget 100 ms",
        _IMAGES | {"models": 8, "budgets": "100", "efficiency": 1.0},
    ),
    "budgets": (
        "texts with three budgets and three priorities",
        {"budgets": "200:5,500:3,1000:2", "priorities": "1:2,2:5,3:3", "window_ms": 100.0},
    ),
    "surge": (
        "images whose rate swings between half and one and a half times the mean",
        _IMAGES | {"arrivals": "square:0.5"},
    ),
    "blip": (
        "images; one run takes three times as long, at four fifths of the capacity",
        _IMAGES | {"load": [0.8], "blip": "100:3"},
    ),
    "code": (
        "the arrivals and lengths of a code assistant, in bursts",
        {"trace": "azure_llm_2023_code", "lengths": "trace:8", "load": [0.6], "budgets": "500"},
    ),
}


def completed(given: Namespace) -> Namespace:
    """What was given, else what the scenario says, else the defaults."""
    words = vars(given)
    name = words.get("scenario")
    if name is not None and name not in SCENARIOS:
        raise InvalidSetting(f"scenario {name!r}: known are {', '.join(SCENARIOS)}")
    assumed = dict(SCENARIOS[name][1]) if name else {}
    # A rate and a load say the same thing, and a trace brings its arrivals.
    for one, other in (("rate", "load"), ("arrivals", "trace"), ("trace", "arrivals")):
        if one in words:
            assumed.pop(other, None)
    return Namespace(**(DEFAULTS | assumed | words))
