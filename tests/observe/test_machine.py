"""The machine's figures, from what Linux writes."""

from xirang.observe.machine import Machine

MEMORY = "MemTotal:  2048 kB\nMemFree: 10 kB\nMemAvailable:  512 kB\n"


def test_utilization_is_that_since_the_last_reading(tmp_path):
    times, memory = tmp_path / "stat", tmp_path / "meminfo"
    memory.write_text(MEMORY)
    times.write_text("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 2 3\n")
    machine = Machine(times=times, memory=memory)
    machine.figures()
    times.write_text("cpu  40 0 10 75 15 0 10 0 0 0\ncpu0 1 2 3\n")
    figures = {name: figure for name, (_, figure) in machine.figures().items()}
    assert figures == {
        "nv_cpu_utilization": 0.8,
        "nv_cpu_memory_total_bytes": 2048 * 1024,
        "nv_cpu_memory_used_bytes": 1536 * 1024,
    }


def test_a_system_that_does_not_tell_has_no_figures(tmp_path):
    assert Machine(times=tmp_path / "none", memory=tmp_path / "none").figures() == {}
