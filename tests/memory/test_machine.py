"""The pool's capacity: a part of what the machine has, or of what the process's group may use."""

import pytest

from xirang.memory.machine import PART, pool_bytes

GIB = 1 << 30


def lay_out(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_groups_it_is_the_machines(tmp_path):
    lay_out(tmp_path, proc__meminfo="Foo: 1 kB\nMemTotal:   8388608 kB\nMemFree: 1 kB\n")
    assert pool_bytes(tmp_path) == int(8 * GIB * PART)


@pytest.mark.parametrize(
    ("limits", "gib"),
    [
        ({"sys__fs__cgroup__a__b__memory.max": f"{2 * GIB}"}, 2),
        ({"sys__fs__cgroup__a__memory.max": f"{GIB}"}, 1),
        ({"sys__fs__cgroup__memory.max": f"{3 * GIB}"}, 3),
        ({"sys__fs__cgroup__a__b__memory.max": "max\n"}, 8),
        ({"sys__fs__cgroup__a__b__memory.max": f"{99 * GIB}"}, 8),
        ({}, 8),
    ],
)
def test_the_tightest_group_counts(tmp_path, limits, gib):
    lay_out(tmp_path, proc__meminfo="MemTotal: 8388608 kB\n", proc__self__cgroup="0::/a/b\n")
    lay_out(tmp_path, **limits)
    assert pool_bytes(tmp_path) == int(gib * GIB * PART)


def test_the_older_kind_of_groups_is_understood(tmp_path):
    lay_out(tmp_path, proc__meminfo="MemTotal: 8388608 kB\n")
    lay_out(tmp_path, proc__self__cgroup="5:cpu,memory:/x\n4:pids:/y\n")
    lay_out(tmp_path, **{"sys__fs__cgroup__memory__x__memory.limit_in_bytes": f"{4 * GIB}"})
    assert pool_bytes(tmp_path) == int(4 * GIB * PART)


def test_where_the_system_tells_nothing_there_is_no_capacity(tmp_path):
    assert pool_bytes(tmp_path) is None
    lay_out(tmp_path, proc__meminfo="MemTotal:\n", proc__self__cgroup="")
    assert pool_bytes(tmp_path) is None


def test_this_machine_has_some():
    assert (pool_bytes() or 1) > 0
