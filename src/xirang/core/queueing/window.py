"""How long a lane waits and how much it gathers: from load, queue depth and past processing times.

Estimating (here) and enforcing (scheduling/launch.py) are apart: these are pure functions of what
`Demand` and `CostModel` have learned, and both values can be read in a snapshot.
"""

LOAD_LIGHT, LOAD_HEAVY = 0.4, 0.75
"""Below the first the window is as wide as the budget allows, above the second it is closed:
there batches fill by themselves while the device is busy."""

MARGINAL_SAVING_MIN = 0.05
"""More company is not worth a wait if it saves less than this share of a request's time."""

THRESHOLD_CALLS_MIN = 2.0
"""Under heavy load a batch goes when it is worth so many calls: half of its time is work."""


def openness(load: float) -> float:
    """κ: the part of the slack that may be waited away; 1 at light load, 0 at heavy load."""
    return min(1.0, max(0.0, (LOAD_HEAVY - load) / (LOAD_HEAVY - LOAD_LIGHT)))


def patience(*, load: float, efficiency: float) -> float:
    """The share of its slack that a request may be kept waiting for company.

    Up to an efficiency of a half it follows the load. From there on the load counts less and less:
    at 1 only the budgets limit the wait.

    Args:
        load: Demand ÷ capacity.
        efficiency: The operator's 0…1.
    """
    kept = openness(load)
    return efficiency * (kept + (1.0 - kept) * max(0.0, 2.0 * efficiency - 1.0))


def threshold_ns(*, call_ns: float, patience: float, room_ns: float) -> float:
    """Waiting work at which more company hardly helps: a batch of it goes at once.

    Doubling a batch of k saves t(k)/k − t(2k)/2k = call/2k a request. That is less than a share s
    of t(k)/k as soon as t(k) > call/2s. The measure is work, not a count: forty short rows and
    two long ones saturate a device alike. Who is less patient is content with less.

    Args:
        call_ns: What a run costs before its first row.
        patience: The share of its slack that the most patient may be kept waiting.
        room_ns: The longest run after which those who come during it are still on time.
    """
    calls = 1.0 / (2.0 * MARGINAL_SAVING_MIN)
    calls = THRESHOLD_CALLS_MIN + (calls - THRESHOLD_CALLS_MIN) * min(1.0, 2.0 * patience)
    return min(calls * call_ns, max(room_ns, call_ns))


def room_ns(*, budget_ns: int, call_ns: float, load: float, margin: float) -> float:
    """The longest run that may be waited for on purpose.

    Who comes just after its start waits until its end, however slow it is, and then for the run of
    all that came meanwhile: t·(1 + margin) + call + load·t·(1 + margin) ≤ budget.

    Args:
        budget_ns: From an arrival to its deadline.
        call_ns: What a run costs before its first row.
        load: Arriving rows' time ÷ elapsed time.
        margin: By how much a run may take longer than predicted.
    """
    return max(0.0, budget_ns - call_ns) / ((1.0 + margin) * (1.0 + load))


def spare(*, room_ns: float, call_ns: float, load: float) -> float:
    """How much of its patience a lane may use: 1 where there is room enough, 0 where there is none.

    If the device never waits, a run takes about call ÷ (1 − load): so much gathers by itself while
    the run before it is on the device. Only if there is room for clearly more, half as much again,
    may be waited without regard to this.
    """
    by_itself_ns = max(1.0, call_ns / max(1e-3, 1.0 - load))
    return min(1.0, max(0.0, 2.0 * (room_ns / by_itself_ns - 1.0)))
