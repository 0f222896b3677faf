"""How long a lane waits and how much it gathers, from load and past processing times.

Estimating (here) and enforcing (scheduling/launch.py) are apart: these are pure functions of what
`Demand` and `CostModel` have learned, and both values can be read in a snapshot.
"""

LOAD_LIGHT, LOAD_HEAVY = 0.4, 0.75
"""Below the first the window is as wide as the budget allows, above the second it is closed:
there batches fill by themselves while the device is busy."""

MARGINAL_SAVING_MIN = 0.05


def openness(load: float) -> float:
    """κ: the part of the slack that may be waited away; 1 at light load, 0 at heavy load."""
    return min(1.0, max(0.0, (LOAD_HEAVY - load) / (LOAD_HEAVY - LOAD_LIGHT)))


def patience(*, load: float, efficiency: float) -> float:
    """The share of its slack that a request may be kept waiting for company.

    Args:
        load: Demand ÷ capacity.
        efficiency: The operator's 0…1.
    """
    return efficiency * openness(load)


def threshold_ns(*, call_ns: float) -> float:
    """Waiting work at which more company hardly helps: a batch of it goes at once.

    Doubling a batch of k saves t(k)/k − t(2k)/2k = call/2k a request. That is less than a share s
    of t(k)/k as soon as t(k) > call/2s. The measure is work, not a count: forty short rows and
    two long ones saturate a device alike.
    """
    return call_ns / (2 * MARGINAL_SAVING_MIN)
