"""A puppet of a model in a process: what becomes of each run is planned, and time is a clock's."""

from dataclasses import dataclass, field

from xirang.backends.executable import WorkerDied

MS = 1_000_000


@dataclass
class PuppetWorkers:
    """Processes that take as long to start as a test says."""

    clock: object
    start_ns: int = 0
    can_start: bool = True
    living: int = 1
    restarts: int = 0
    hang_s: float = 60.0
    is_closed: bool = False
    waits_s: list = field(default_factory=list)

    def die(self, text="it ended by signal SIGKILL"):
        self.living = 0
        raise WorkerDied(text, self)

    def wait(self, timeout_s):
        if timeout_s:
            self.waits_s.append(timeout_s)
        if self.living == 0 and self.can_start:
            self.clock.time_ns += min(self.start_ns, int(timeout_s * 1e9))
            if timeout_s * 1e9 >= self.start_ns:
                self.living, self.restarts = 1, self.restarts + 1
        return self.living > 0

    def close(self):
        self.is_closed = True
