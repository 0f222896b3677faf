"""The pool's capacity: a part of what the machine has or the group may use; and how short it is."""

import pytest

from xirang.memory.machine import PART, Pressure, pool_bytes, private_bytes

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
        ({"sys__fs__cgroup__a__memory.high": f"{GIB}"}, 1),
        (
            {
                "sys__fs__cgroup__a__b__memory.max": f"{3 * GIB}",
                "sys__fs__cgroup__memory.high": "max",
            },
            3,
        ),
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


def told_of(stalled_us):
    return f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\nfull avg10=0.00 total=7\n"


MS = 1_000_000


def test_pressure_is_the_part_of_the_time_in_which_somebody_waited_for_memory(tmp_path):
    lay_out(tmp_path, proc__pressure__memory=told_of(5000))
    pressure = Pressure(tmp_path)
    assert pressure.look(100 * MS) == 0, "it has just begun"
    lay_out(tmp_path, proc__pressure__memory=told_of(25_000))
    assert pressure.look(200 * MS) == pytest.approx(0.2)
    assert pressure.look(300 * MS) == 0


def test_that_of_the_group_counts_too(tmp_path):
    lay_out(tmp_path, proc__pressure__memory=told_of(0), proc__self__cgroup="0::/a/b\n")
    files = ["sys__fs__cgroup__a__memory.pressure", "sys__fs__cgroup__a__b__memory.pressure"]
    for file in files:
        lay_out(tmp_path, **{file: told_of(0)})
    pressure = Pressure(tmp_path)
    pressure.look(100 * MS)
    lay_out(tmp_path, **{files[0]: told_of(10_000), files[1]: told_of(30_000)})
    assert pressure.look(200 * MS) == pytest.approx(0.3)


@pytest.mark.parametrize("text", [None, "", "some total=\n", "some avg10=0 total=many\n"])
def test_where_nobody_tells_there_is_none(tmp_path, text):
    if text is not None:
        lay_out(tmp_path, proc__pressure__memory=text)
    pressure = Pressure(tmp_path)
    assert [pressure.look(100 * MS), pressure.look(200 * MS)] == [0, 0]


def test_what_is_this_processs_own_grows_with_what_it_takes(tmp_path):
    lay_out(tmp_path, proc__self__status="Name: x\nRssAnon:\t    12 kB\nRssFile: 9 kB\n")
    assert private_bytes(tmp_path) == 12 << 10
    assert private_bytes(tmp_path / "nowhere") == 0
    before = private_bytes()
    taken = b"x" * (32 << 20)
    assert not before or private_bytes() > before + len(taken) // 2
