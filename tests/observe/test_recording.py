"""A recording gives back what was told and decided, and says where it is damaged."""

import errno
import resource
from dataclasses import fields

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.core import MS, learned, request

from xirang.core.policy import Batching, Policy
from xirang.core.request import Request
from xirang.core.run import Done, Run
from xirang.core.scheduler import Scheduler
from xirang.errors import InvalidSetting
from xirang.lab.replay import requests_among
from xirang.observe.recorder import RecordedScheduler, Recorder
from xirang.observe.recording import (
    CLASS_BIT,
    RECORD,
    RING_AT,
    Ground,
    InvalidRecording,
    Kind,
    Recording,
)

DEVICES = {"cpu": 1}
GROUND = Ground(DEVICES)


def record(path, *, turns, size_bytes=1 << 20, **fields):
    """A recording of so many turns, each of one request that runs a millisecond."""
    recorder = Recorder(path, size_bytes=size_bytes, ground=GROUND)
    scheduler = RecordedScheduler(GROUND, recorder=recorder)
    scheduler.add_model("m", Policy(batching=Batching.OFF), learned(1e6))
    for number in range(1, turns + 1):
        now_ns = number * 2 * MS
        scheduler.submit(request(number, at_ms=2 * number, **fields), now_ns=now_ns)
        (run,) = scheduler.poll(now_ns=now_ns)
        scheduler.complete(run.id, now_ns=now_ns + MS, outcome=Done(MS, 3, 4))
    scheduler.poll(now_ns=now_ns + MS)
    recorder.close()
    return path


def test_every_field_of_a_request_comes_back(tmp_path):
    asked = {"priority": 3, "rows": 7, "length": 12_345_678_901, "lengths": tuple(range(10))}
    recording = Recording(record(tmp_path / "r", turns=1, group=("x", 3), **asked))
    (turn, _) = recording.turns()
    requests = [r for _, r in requests_among(recording, turn) if r is not None]
    expected = request(1, at_ms=2, **asked)
    assert len(requests) == 1
    for field in fields(Request):
        if field.name != "group":  # of a group only whether it equals another one is kept
            assert getattr(requests[0], field.name) == getattr(expected, field.name), field.name
    assert requests[0].group == hash(("x", 3))


def test_models_and_devices_come_back(tmp_path):
    recording = Recording(record(tmp_path / "r", turns=1))
    assert recording.devices == DEVICES
    (entry,) = recording.models
    assert (entry.name, entry.policy) == ("m", Policy(batching=Batching.OFF))
    assert entry.cost == learned(1e6).state()


def test_facts_and_decisions_stand_in_their_order(tmp_path):
    first, second, _ = Recording(record(tmp_path / "r", turns=2)).turns()
    assert [r.kind for r in first.facts] == [Kind.MODEL, Kind.SUBMIT]
    assert [r.kind for r in second.facts] == [Kind.COMPLETE, Kind.SUBMIT]
    assert [r.kind for r in second.decisions] == [Kind.RUN, Kind.MEMBERS]
    done = second.facts[0]
    assert (done.first, done.second, done.third) == (MS, 3, 4)
    assert (first.at_ns, second.at_ns) == (2 * MS, 4 * MS)


@pytest.mark.parametrize("turns", [12, 13, 14, 15, 16, 17, 40, 200])
def test_the_ring_keeps_the_latest_turns(tmp_path, turns):
    recording = Recording(record(tmp_path / "r", turns=turns, size_bytes=64 * RECORD.size))
    kept = list(recording.turns())
    assert recording.is_whole == (turns * 5 + 3 <= 64)
    assert [turn.at_ns for turn in kept[-5:]] == [
        *(number * 2 * MS for number in range(turns - 3, turns + 1)),
        turns * 2 * MS + MS,
    ]
    if not recording.is_whole:
        assert len(kept) >= 11


def test_a_turn_longer_than_the_ring_is_said_to_be_damaged(tmp_path):
    recorder = Recorder(tmp_path / "r", size_bytes=64 * RECORD.size, ground=GROUND)
    scheduler = RecordedScheduler(GROUND, recorder=recorder)
    scheduler.add_model("m", Policy(), learned(1e6))
    for number in range(1, 101):
        scheduler.submit(request(number), now_ns=0)
    scheduler.poll(now_ns=0)
    recorder.close()
    assert list(Recording(tmp_path / "r").turns()) == []


def test_what_was_sealed_is_there_though_nobody_closed_the_file(tmp_path):
    recorder = Recorder(tmp_path / "r", size_bytes=1 << 16, ground=GROUND)
    scheduler = RecordedScheduler(GROUND, recorder=recorder)
    scheduler.add_model("m", Policy(), learned(1e6))
    scheduler.poll(now_ns=5)
    scheduler.submit(request(1), now_ns=6)  # of a turn that never ended
    (turn,) = Recording(tmp_path / "r").turns()
    assert turn.at_ns == 5
    recorder.close()


def test_a_recorded_scheduler_writes_down_all_that_changes_a_scheduler():
    silent = {
        "wakeup_ns",
        "drain_events",
        "drain_resizes",
        "check_integrity",
    }  # they change no decision
    public = {name for name in vars(Scheduler) if not name.startswith("_")}
    assert public - silent <= set(vars(RecordedScheduler))


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InvalidSetting, match=r"cannot record to .*: No such file or directory"):
        Recorder(tmp_path / "no" / "r", size_bytes=1 << 16, ground=GROUND)


def test_a_full_disk_is_refused_at_the_start(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(InvalidSetting, match="No space left"):
        Recorder(tmp_path / "r", size_bytes=1 << 16, ground=GROUND)


def test_a_disk_that_fills_up_later_ends_the_recording_and_nothing_else(tmp_path, caplog):
    path = record(tmp_path / "r", turns=1)
    recorder = Recorder(path, size_bytes=1 << 16, ground=GROUND)
    scheduler = RecordedScheduler(GROUND, recorder=recorder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        for name in ("m", "n"):
            scheduler.add_model(name, Policy(batching=Batching.OFF), learned(1e6))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    scheduler.submit(request(1), now_ns=0)
    (run,) = scheduler.poll(now_ns=0)
    scheduler.complete(run.id, now_ns=MS, outcome=Done(MS))
    scheduler.poll(now_ns=MS)
    recorder.close()
    assert [line.getMessage() for line in caplog.records] == [
        "the recording ends here, it cannot be written: File too large"
    ]
    assert list(Recording(path).turns()) == []


# ---------------------------------------------------------------------- damage

CHANGES = {
    "empty": (lambda data: b"", "is no recording"),
    "another file": (lambda data: b"\x7fELF" + data[4:], "is no recording"),
    "a later version": (lambda data: data[:8] + b"\x04" + data[9:], "version 4; expected 3"),
    "a torn header": (lambda data: data[:20] + b"\xff" + data[21:], "damaged: its header"),
    "half of it": (lambda data: data[: len(data) // 2], "is truncated"),
    "without its end": (lambda data: data[:-1], "damaged: the description of its models"),
    "a changed record": (
        lambda data: data[: RING_AT + 100] + b"\xff" + data[RING_AT + 101 :],
        "damaged: the turn from record 0",
    ),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_damaged_file_is_refused_and_said_where(tmp_path, change, reason):
    path = record(tmp_path / "r", turns=3)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InvalidRecording, match=reason):
        list(Recording(path).turns())


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidRecording, match="cannot read"):
        Recording(tmp_path / "none")


@settings(max_examples=200)
@given(at=st.integers(0, 10**9), bit=st.integers(0, 7), length=st.integers(0, 10**9))
def test_whatever_bit_is_flipped_or_cut_off_the_reader_answers(tmp_path_factory, at, bit, length):
    whole = record(tmp_path_factory.mktemp("r") / "r", turns=8, size_bytes=64 * RECORD.size)
    data = bytearray(whole.read_bytes())
    turns = list(Recording(whole).turns())
    data[at % len(data)] ^= 1 << bit
    for damaged in (data, whole.read_bytes()[: length % len(data)]):
        whole.write_bytes(damaged)
        try:
            read = list(Recording(whole).turns())
        except InvalidRecording:
            continue
        assert read == turns[: len(read)] or read == turns[-len(read) :]
        whole.write_bytes(bytes(data))


def test_a_run_is_what_the_scheduler_gave(tmp_path):
    scheduler = Scheduler(devices=DEVICES)
    scheduler.add_model("m", Policy(batching=Batching.OFF), learned(1e6))
    scheduler.submit(request(1, at_ms=2), now_ns=2 * MS)
    (run,) = scheduler.poll(now_ns=2 * MS)
    assert isinstance(run, Run)
    first, _ = Recording(record(tmp_path / "r", turns=1)).turns()
    recorded, members = first.decisions
    assert (recorded.id, recorded.rows, recorded.length) == (run.id, run.rows, run.length)
    assert (recorded.first, recorded.second, recorded.third) == (
        run.predicted_ns,
        run.window_ns,
        run.threshold_ns,
    )
    assert members.ids == (1 | run.requests[0].cost_class << CLASS_BIT,)
    assert members.extra == run.depth
