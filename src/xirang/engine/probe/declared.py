"""What an operator says about an input, so that the probe need not find it out."""

from dataclasses import dataclass

SHARED = -1
"""As a batch axis: all rows of a run share this input."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One input, as far as it is told; whatever is left out is found by running.

    Attributes:
        batch_axis: Where its rows are counted; SHARED if nowhere.
        lengths: Its axis that follows length 0, then length 1, …; -1 where it has none.
        pad: What it is padded with.
        range: Lowest and highest made-up value, as of a vocabulary.
        sizes: By axis, a size at which the model is known to run; 0 where that is not said.
        mask: Whether it only says what is real.
    """

    batch_axis: int | None = None
    lengths: tuple[int, ...] | None = None
    pad: float | None = None
    range: tuple[float, float] | None = None
    sizes: tuple[int, ...] = ()
    mask: bool | None = None


NOTHING = Declared()
