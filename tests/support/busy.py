"""A machine that others use too, on a clock of its own: what is measured on it comes out slower."""

from random import Random

from xirang.lab.simulator import Law


class BusyMachine:
    """A clock that runs on while work is done, faster or slower by turns.

    Both kinds of span have exponential lengths, so a short run is slowed or not, and a long one is
    slowed in part.
    """

    def __init__(self, *, slower=1.0, slow_s=0.1, quick_s=0.1, seed=0):
        self._random = Random(seed)
        self._slower, self._means_ns = slower, (quick_s * 1e9, slow_s * 1e9)
        self._is_slow = self._random.random() < slow_s / (slow_s + quick_s)
        self._time_ns = 0.0
        self._until_ns = self._random.expovariate(1 / self._means_ns[self._is_slow])

    def now_ns(self):
        return int(self._time_ns)

    def work(self, work_ns):
        """Do what takes so long on a quiet machine."""
        while True:
            pace = self._slower if self._is_slow else 1.0
            if self._time_ns + work_ns * pace <= self._until_ns:
                self._time_ns += work_ns * pace
                return
            work_ns -= (self._until_ns - self._time_ns) / pace
            self._time_ns = self._until_ns
            self._is_slow = not self._is_slow
            self._until_ns += self._random.expovariate(1 / self._means_ns[self._is_slow])


class BusyLab:
    """What the timing of a probe needs: a model on such a machine that follows a law.

    The first run of a size takes half as long again; beyond `cache_elements` all runs take longer
    by `beyond`.
    """

    def __init__(self, machine, law: Law, *, cache_elements=1 << 30, beyond=1.2, refused=()):
        self.ran = set()
        self.order = []
        self._machine, self._law = machine, law
        self._cache_elements, self._beyond, self._refused = cache_elements, beyond, refused

    def request(self, asked):
        return asked

    def run(self, asked, ran):
        rows, (length,) = asked.rows, asked.lengths
        if (rows, length) in self._refused:
            raise ValueError("too much for it")
        work_ns = self._law.run_ns(rows=rows, length=length)
        work_ns *= 1.0 if ran in self.ran else 1.5
        work_ns *= 1.0 if rows * length <= self._cache_elements else self._beyond
        self.ran.add(ran)
        self.order.append((rows, length))
        self._machine.work(work_ns)
