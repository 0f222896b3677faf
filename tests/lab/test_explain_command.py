"""`xirang explain` tells of a recorded request what an explanation of the live run told."""

import json

import pytest
from tests.support.core import MS, learned

from xirang.cli import main
from xirang.core.event import RunEnded
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Done, Run
from xirang.lab.explain_command import find
from xirang.observe.explain import explain
from xirang.observe.recorder import RecordedScheduler, Recorder
from xirang.observe.recording import Ground, Recording

GROUND = Ground({"cpu": 1})


@pytest.fixture
def recorded(tmp_path):
    """A recording of some requests, and what happened live."""
    path = tmp_path / "ring"
    recorder = Recorder(path, size_bytes=1 << 20, ground=GROUND)
    scheduler = RecordedScheduler(GROUND, recorder=recorder)
    scheduler.add_model("m", Policy(can_pad=True, max_batch_size=4), learned(2e6, 1e5, 1e4))
    now_ns, events = 10**12, []
    for id in range(1, 13):
        budget_ns = 10**9 if id < 11 else 30 * MS
        request = Request(id, "m", now_ns, now_ns + budget_ns, length=1 + id % 5)
        scheduler.submit(request, now_ns=now_ns)
    scheduler.cancel(10, now_ns=now_ns)
    waiting = True
    while waiting:
        runs = [action for action in scheduler.poll(now_ns=now_ns) if isinstance(action, Run)]
        for run in runs:
            now_ns += 9 * MS
            scheduler.complete(
                run.id, now_ns=now_ns, outcome=Done(8 * MS, 30_000, 20_000, 5_000_001)
            )
        events += [e for e in scheduler.drain_events() if isinstance(e, RunEnded)]
        wakeup_ns = scheduler.wakeup_ns()
        waiting = bool(runs) or wakeup_ns is not None
        now_ns = max(now_ns, wakeup_ns or 0)
    scheduler.poll(now_ns=now_ns)
    recorder.close()
    return path, events


def test_the_recorded_explanation_is_the_live_one(recorded):
    path, events = recorded
    recording = Recording(path)
    assert sum(len(event.run.requests) for event in events) >= 8
    for event in events:
        for request in event.run.requests:
            assert find(recording, request.id) == explain(event, request)


def test_it_is_printed_as_words_or_as_json(recorded, capsys):
    path, events = recorded
    request = events[0].run.requests[0]
    told = explain(events[0], request).as_json()
    assert main(["explain", str(path), str(request.id), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert main(["explain", str(path), str(request.id)]) == 0
    shown = capsys.readouterr().out
    assert "trigger" in shown
    assert told["trigger"] in shown


def test_who_did_not_run_has_no_explanation_but_a_reason(recorded, capsys):
    path, _ = recorded
    assert main(["explain", str(path), "10"]) == 1
    assert "its client went away" in capsys.readouterr().err
    assert main(["explain", str(path), "99"]) == 1
    assert "is not in the recording" in capsys.readouterr().err


def test_a_file_that_is_no_recording_is_refused(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"something else")
    assert main(["explain", str(tmp_path / "x"), "1"]) == 2
    assert "is no recording" in capsys.readouterr().err
