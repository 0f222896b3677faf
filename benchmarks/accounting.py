"""Where the machine's time goes while a server is loaded: its model, the rest of it, the client.

On a machine that client and server share, the client takes from the server what an offline run has
for itself. Processor time says how much; it is also the measure that a busy machine disturbs least.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.request import urlopen

from xirang.lab.load.scrape import MetricsPage

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    """An instant's counters, in seconds.

    Attributes:
        wall_s: The time.
        server_s: Processor time of the server.
        loop_s: The part of its first thread, which does all but run the model.
        idle_s: Time of all cores in which nobody ran.
        rows: Requests that have been in a run.
    """

    wall_s: float
    server_s: float
    loop_s: float
    idle_s: float
    rows: float

    @classmethod
    def of(cls, pid: int, url: str) -> Self:
        """Of a server, now."""
        with urlopen(f"{url}/metrics") as page:
            rows = MetricsPage.parse(page.read().decode()).total("xirang_batch_rows_sum")
        cores = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return cls(
            time.perf_counter(),
            _spent_s(Path(f"/proc/{pid}/stat")),
            _spent_s(Path(f"/proc/{pid}/task/{pid}/stat")),
            (int(cores[4]) + int(cores[5])) / TICKS,
            rows or 0.0,
        )


@dataclass(frozen=True, slots=True)
class Account:
    """Shares of all cores' time between two readings, and the model's time a request.

    Attributes:
        model: Where the model was run.
        loop: Of the rest of the server.
        client: Of the client.
        idle: In which nobody ran; what is left belongs to others.
        model_ms: Processor time of the model a request.
    """

    model: float
    loop: float
    client: float
    idle: float
    model_ms: float

    @classmethod
    def between(cls, before: Reading, after: Reading, *, client: float, cores: int) -> Self:
        """Of a load whose client used such a share of one core."""
        all_s = (after.wall_s - before.wall_s) * cores
        loop_s = after.loop_s - before.loop_s
        model_s = after.server_s - before.server_s - loop_s
        idle = (after.idle_s - before.idle_s) / all_s
        model_ms = model_s * 1e3 / max(1.0, after.rows - before.rows)
        return cls(model_s / all_s, loop_s / all_s, client / cores, idle, model_ms)

    def line(self, share: float, *, optimum_ms: float) -> str:
        """In words, of a load that was served at such a share of the offline optimum.

        Processor time a request compares the runs alone: how they were cut, and padded.
        """
        others = max(0.0, 1.0 - self.model - self.loop - self.client - self.idle)
        return (
            f"  the cores' time: model {100 * self.model:.1f} %, rest of the server "
            f"{100 * self.loop:.1f}, client {100 * self.client:.1f}, idle {100 * self.idle:.1f}, "
            f"others {100 * others:.1f}; the optimum's runs ÷ ours in processor time "
            f"{optimum_ms / self.model_ms:.3f} ({optimum_ms:.2f} / {self.model_ms:.2f} ms a "
            f"request); served ÷ optimum on what the client leaves {share / (1 - self.client):.3f}"
        )


def _spent_s(stat: Path) -> float:
    """Processor time so far, user and system."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
