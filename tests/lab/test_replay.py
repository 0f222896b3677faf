"""What was recorded decides the same again, whatever it was; a changed decision is found."""

import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.core import MS, learned

from xirang.core.admission.levels import Thresholds
from xirang.core.admission.tenants import Allowance
from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy
from xirang.core.request import Request
from xirang.core.run import Done, Failed, Run
from xirang.lab import replay
from xirang.lab.replay import tallies, verify
from xirang.lab.replay_command import service_of, simulate
from xirang.observe.recorder import RecordedScheduler, Recorder
from xirang.observe.recording import RECORD, Ground, InvalidRecording, Kind, Recording

DEVICES = {"one": 1, "two": 2}
GROUND = Ground(
    DEVICES,
    Thresholds(depths=(3, 5, 7)),
    {"rated": Allowance(rate=100), "shared": Allowance(share=0.2)},
)
POLICIES = {
    "pads": Policy(
        device="one", can_pad=True, max_batch_size=8, elements_max=300, efficiency=1.0, depth_max=9
    ),
    "fixed": Policy(device="one", max_batch_size=4, window_ns_max=30 * MS, depth_max=9),
    "first": Policy(
        device="two", instances=2, can_pad=True, batching=Batching.FIRST_COME, max_batch_size=6
    ),
    "cold": Policy(device="two"),
}

submits = st.tuples(
    st.just("submit"),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from([1, 3, 10, 50, 1000]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 1, 2, 5]),
    st.sampled_from([1, 8, 30, 200]),
    st.sampled_from([None, "x", ("y", 2)]),
    st.sampled_from([0, 7, 2**31 - 1]),
    st.sampled_from(["", "rated", "shared", "unknown"]),
    st.sampled_from([None, None, False, True]),
)
others = st.one_of(
    st.tuples(st.just("advance"), st.sampled_from([1, 300, 2_000, 9_000, 60_000])),
    st.tuples(st.just("cancel"), st.integers(1, 40)),
    st.tuples(st.just("complete"), st.integers(0, 5), st.sampled_from([2 * MS, 40 * MS, 0])),
    st.tuples(st.just("suspend"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["poll", "look", "drain"])),
)
schedules = st.lists(st.one_of(submits, submits, others), max_size=120)


class Live:
    """A recorded scheduler, driven by a list of steps."""

    def __init__(self, path, *, size_bytes=1 << 20):
        self.recorder = Recorder(path, size_bytes=size_bytes, ground=GROUND)
        self.scheduler = RecordedScheduler(GROUND, recorder=self.recorder)
        for name, policy in POLICIES.items():
            cost = CostModel() if name == "cold" else learned(2e6, 1e5, 1e4)
            self.scheduler.add_model(name, policy, cost)
        self.now_ns, self.next_id, self.running = 10**15, 1, []

    def play(self, schedule):
        for step, *arguments in schedule:
            getattr(self, step)(*arguments)
        self.poll()
        self.recorder.close()

    def submit(
        self, model, budget_ms, priority, rows, length, group, client=0, tenant="", fast=None
    ):
        deadline_ns = self.now_ns + budget_ms * MS
        request = Request(
            self.next_id,
            model,
            self.now_ns,
            deadline_ns,
            priority,
            rows,
            length,
            group,
            client=client,
            tenant=tenant,
            fast=fast,
        )
        self.next_id += 1
        self.scheduler.submit(request, now_ns=self.now_ns)

    def advance(self, passed_us):
        self.now_ns += passed_us * 1000
        self.poll()

    def cancel(self, id):
        self.scheduler.cancel(id, now_ns=self.now_ns)

    def complete(self, index, ran_ns):
        if self.running:
            run = self.running.pop(index % len(self.running))
            outcome = Done(ran_ns) if ran_ns else Failed()
            self.scheduler.complete(run.id, now_ns=self.now_ns, outcome=outcome)

    def suspend(self, index):
        if self.running:
            self.scheduler.suspend(self.running[index % len(self.running)].id)

    def poll(self):
        actions = self.scheduler.poll(now_ns=self.now_ns)
        self.running += [action for action in actions if isinstance(action, Run)]

    def look(self):
        self.scheduler.snapshot(now_ns=self.now_ns)

    def drain(self):
        self.scheduler.drain()


def steady(count, *, apart_us=500):
    """Requests of one model, each run completed before the next comes."""
    schedule = []
    for number in range(count):
        schedule.append(("submit", "pads", 100, 2, 1, 8 + number % 50, None))
        schedule.append(("advance", apart_us))
        if number % 4 == 3:
            schedule.append(("complete", 0, 2 * MS))
    return schedule


@settings(max_examples=150, deadline=None)
@given(schedule=schedules)
def test_whatever_was_told_a_fresh_scheduler_decides_the_same(tmp_path_factory, schedule):
    path = tmp_path_factory.mktemp("replay") / "r"
    Live(path).play(schedule)
    recording = Recording(path)
    assert verify(recording) is None
    requests = sum(tally.result().requests for tally in tallies(recording).values())
    assert requests == sum(step[0] == "submit" for step in schedule)


def test_across_a_pause_under_overload_nothing_is_verified_but_what_happened_is_told(tmp_path):
    live = Live(tmp_path / "r")
    filled = [("submit", "pads", 60_000, 1, 1, 8, None)] * 30
    pressed = [("submit", "fixed", 60_000, 1, 1, 8, None), ("advance", 10_000)]
    quiet = [("complete", 0, 2 * MS), ("advance", 100_000)]
    live.play([*filled, ("poll",), *pressed * 300, *quiet * 150])
    recording = Recording(tmp_path / "r")
    gaps = [fact for turn in recording.turns() for fact in turn.facts if fact.kind == Kind.GAP]
    assert len(gaps) == 1
    with pytest.raises(InvalidRecording, match="switched off under overload before record"):
        verify(recording)
    assert tallies(recording)["pads"].result().requests == 30


def test_a_scheduler_that_decides_otherwise_is_found(tmp_path, monkeypatch):
    Live(tmp_path / "r").play(steady(40))

    class Hasty(RecordedScheduler):
        def add_model(self, name, policy, cost, memory=None):
            super().add_model(name, Policy(device=policy.device, batching=Batching.OFF), cost)

    monkeypatch.setattr(replay, "RecordedScheduler", Hasty)
    difference = verify(Recording(tmp_path / "r"))
    assert difference is not None
    assert difference.at_ns >= 0
    assert difference.live != difference.replayed


def test_a_recording_whose_beginning_is_gone_is_told_but_not_verified(tmp_path):
    Live(tmp_path / "r", size_bytes=64 * RECORD.size).play(steady(100))
    recording = Recording(tmp_path / "r")
    assert not recording.is_whole
    with pytest.raises(InvalidRecording, match="beginning was overwritten"):
        verify(recording)
    assert 0 < tallies(recording)["pads"].result().requests < 100


def test_what_happened_is_counted(tmp_path):
    schedule = [
        ("submit", "fixed", 1000, 2, 1, 8, None),
        ("submit", "fixed", 1000, 2, 1, 8, None),
        ("submit", "fixed", 1000, 2, 1, 8, "x"),
        ("advance", 60_000),
        ("advance", 2_000),
        ("complete", 0, 2 * MS),
        ("cancel", 3),
    ]
    Live(tmp_path / "r").play(schedule)
    result = tallies(Recording(tmp_path / "r"))["fixed"].result()
    assert (result.requests, result.runs, result.batch_mean, result.late) == (3, 1, 2.0, 0)


def test_arrivals_are_simulated_with_the_law_that_the_runs_teach(tmp_path):
    Live(tmp_path / "r").play(steady(200))
    recording = Recording(tmp_path / "r")
    assert service_of(recording, 2, seed=0).law.call_ns == pytest.approx(2e6, rel=0.01)
    same = simulate(recording, changes={})["pads"].result()
    alone = simulate(recording, changes={"batching": Batching.OFF})["pads"].result()
    assert same.requests == alone.requests == 200
    assert alone.batch_mean == 1.0 < same.batch_mean


def test_facts_that_cannot_be_are_refused(tmp_path):
    live = Live(tmp_path / "r")
    live.scheduler._turn += (5 | 1 << 8, 1, 1, 0, 77, 5, 0, 0)  # a run that never began ends
    live.play([])
    with pytest.raises(InvalidRecording, match="cannot be"):
        verify(Recording(tmp_path / "r"))


def xirang(*arguments):
    command = [sys.executable, "-m", "xirang", "replay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_the_command_verifies_shows_and_simulates(tmp_path):
    Live(tmp_path / "r").play(steady(100))
    verified = xirang(tmp_path / "r")
    assert verified.returncode == 0, verified.stderr
    assert "verified: the scheduler decides the same again" in verified.stdout
    simulated = xirang(tmp_path / "r", "--simulate", "--efficiency", "0", "--window-ms", "1")
    assert simulated.returncode == 0, simulated.stderr
    assert "simulated" in simulated.stdout
    impossible = xirang(tmp_path / "r", "--simulate", "--efficiency", "2")
    assert (impossible.returncode, impossible.stdout) == (2, "")
    assert "0…1" in impossible.stderr
    (tmp_path / "r").write_bytes(b"no")
    damaged = xirang(tmp_path / "r")
    assert damaged.returncode == 2
    assert damaged.stderr == f"xirang replay: {tmp_path / 'r'} is no recording of xirang\n"
