"""Which few of many requests are followed, at the price of an integer for all others.

Not each request draws a lot: it is drawn once how many go by until the next one is followed.
"""

from math import log
from random import Random

NEVER = 1 << 62


class Sampler:
    """One of so many, on the average.

    Attributes:
        left: How many go by before the next; whoever goes by takes one off.
    """

    __slots__ = ("_is_on", "_random", "_ratio", "left")

    def __init__(self, ratio: float, *, random: Random) -> None:
        """Begin.

        Args:
            ratio: The share that is followed, 0…1.
            random: Where the lots come from.
        """
        self._random = random
        self._ratio = ratio
        self._is_on = True
        self.left = NEVER
        self._draw()

    @property
    def ratio(self) -> float:
        """The share that is followed, 0…1; may be set while requests go by."""
        return self._ratio

    @ratio.setter
    def ratio(self, ratio: float) -> None:
        self._ratio = ratio
        self._draw()

    @property
    def is_on(self) -> bool:
        """Whether anybody is followed; may be set too."""
        return self._is_on

    @is_on.setter
    def is_on(self, is_on: bool) -> None:
        self._is_on = is_on
        self._draw()

    def take(self) -> bool:
        """Whether it is the turn of the one that just went by; if so, the next is drawn."""
        if self.left >= 0:
            return False
        self._draw()
        return True

    def _draw(self) -> None:
        if not self._is_on or self._ratio <= 0.0:
            self.left = NEVER
        elif self._ratio >= 1.0:
            self.left = 0
        else:
            self.left = int(log(1.0 - self._random.random()) / log(1.0 - self._ratio))
