"""What the machine's processors and memory are doing, as Linux tells it."""

from contextlib import suppress
from pathlib import Path

_TIMES = Path("/proc/stat")
_MEMORY = Path("/proc/meminfo")


class Machine:
    """Reads the machine's figures; utilization is that since the last reading."""

    def __init__(self, *, times: Path = _TIMES, memory: Path = _MEMORY) -> None:
        self._times_file = times
        self._memory_file = memory
        self._times = (0, 0)

    def figures(self) -> dict[str, tuple[str, float]]:
        """Triton's name to a sentence and the figure; empty where the system does not tell."""
        with suppress(OSError, ValueError, KeyError):
            memory = self._memory()
            total = memory["MemTotal"]
            return {
                "nv_cpu_utilization": ("CPU utilization rate [0.0 - 1.0]", self._utilization()),
                "nv_cpu_memory_total_bytes": ("CPU total memory (RAM), in bytes", total),
                "nv_cpu_memory_used_bytes": (
                    "CPU used memory (RAM), in bytes",
                    total - memory["MemAvailable"],
                ),
            }
        return {}

    def _utilization(self) -> float:
        line = self._times_file.read_text().partition("\n")[0]
        # user nice system idle iowait irq softirq steal; guests are counted among users.
        ticks = [int(word) for word in line.split()[1:9]]
        known_all, known_idle = self._times
        everything, idle = sum(ticks), ticks[3] + ticks[4]
        self._times = everything, idle
        passed = everything - known_all
        return round(1.0 - (idle - known_idle) / passed, 6) if passed else 0.0

    def _memory(self) -> dict[str, int]:
        pairs = (line.split(":", 1) for line in self._memory_file.read_text().splitlines())
        return {name: int(value.split()[0]) << 10 for name, value in pairs}
