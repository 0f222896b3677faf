"""What is counted, per request or per run, and that a shared run is charged as Triton does."""

from xirang.core.event import (
    RequestCancelled,
    RequestExpired,
    RequestRejected,
    RunEnded,
)
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Cause, Done, Failed, Run, Trigger
from xirang.observe.statistics import STAGES, Statistics

MS = 1_000_000
NOW_MS = 1_700_000_000_000


def statistics():
    found = Statistics(unix_ms=lambda: NOW_MS)
    found.add_model("m", "3")
    return found


def request(id, *, arrival_ms=0, rows=1, length=1):
    return Request(id, "m", arrival_ms * MS, 1000 * MS, rows=rows, length=length)


def run_of(*requests, start_ms=10, length=4, trigger=Trigger.WINDOW):
    rows = sum(r.rows for r in requests)
    return Run(1, "m", 0, requests, rows, length, trigger, start_ms * MS, 0, 0, 0)


def entry(found):
    (model,) = found.as_v2("m")["model_stats"]
    return model


def test_a_shared_run_is_charged_in_full_to_each_request_and_once_to_its_size():
    found = statistics()
    run = run_of(
        request(1, arrival_ms=2, rows=2, length=4), request(2, arrival_ms=6, rows=1, length=2)
    )
    done = Done(ran_ns=5 * MS, assemble_ns=1 * MS, split_ns=2 * MS)
    found.on_event(RunEnded(run, done, 16 * MS))
    model = entry(found)
    assert (model["name"], model["version"], model["last_inference"]) == ("m", "3", NOW_MS)
    assert (model["inference_count"], model["execution_count"]) == (3, 1)
    counts = model["inference_stats"]
    assert counts["success"] == {"count": 2, "ns": (14 + 10) * MS}
    assert counts["queue"] == {"count": 2, "ns": (8 + 4) * MS}
    assert counts["compute_input"] == {"count": 2, "ns": 2 * 1 * MS}
    assert counts["compute_infer"] == {"count": 2, "ns": 2 * 2 * MS}
    assert counts["compute_output"] == {"count": 2, "ns": 2 * 2 * MS}
    assert counts["fail"] == counts["cache_hit"] == counts["cache_miss"] == {"count": 0, "ns": 0}
    assert model["batch_stats"] == [
        {
            "batch_size": 3,
            "compute_input": {"count": 1, "ns": 1 * MS},
            "compute_infer": {"count": 1, "ns": 2 * MS},
            "compute_output": {"count": 1, "ns": 2 * MS},
        }
    ]
    own = found.models["m"]
    assert (own.elements, own.padding, own.triggers["window"]) == (12, 2, 1)
    assert sum(own.triggers.values()) == 1
    assert own.stages["queue"].total == (8 + 4) * MS
    assert own.stages["run"].count == 2, "each request was in it"
    assert own.run_seconds.count == own.cost_seconds.count == own.padding_ratio.count == 1


def test_the_stages_of_a_request_add_up_from_its_head_to_its_connection():
    found = statistics()
    first, second = request(1, arrival_ms=2), request(2, arrival_ms=4)
    first.entered_ns, second.entered_ns = 3 * MS, 6 * MS
    run = run_of(first, second)
    found.on_event(RunEnded(run, Done(ran_ns=6 * MS), 16 * MS))
    found.note_sent("m", 2, 4 * MS)
    own = found.models["m"]
    assert own.stages["receive"].total == (1 + 2) * MS
    assert own.stages["queue"].total == 2 * run.start_ns - 9 * MS
    assert own.stages["send"].total == (2 + 4) * MS
    assert all(own.stages[stage].count == 2 for stage in STAGES)
    waited = own.stages["receive"].total + own.stages["queue"].total
    assert own.request_seconds.total == waited + 2 * (16 * MS - run.start_ns)


def test_sizes_of_batches_are_listed_in_order():
    found = statistics()
    for count in (3, 1, 3, 2):
        run = run_of(*(request(id) for id in range(count)), length=1)
        found.on_event(RunEnded(run, Done(ran_ns=MS), 11 * MS))
    sizes = [(e["batch_size"], e["compute_infer"]["count"]) for e in entry(found)["batch_stats"]]
    assert sizes == [(1, 1), (2, 1), (3, 2)]


def test_guilty_requests_fail_and_the_others_of_their_run_succeed():
    found = statistics()
    run = run_of(request(1), request(2), request(3), length=1)
    found.on_event(RunEnded(run, Failed((2,)), 15 * MS))
    model = entry(found)
    assert model["inference_stats"]["success"] == {"count": 2, "ns": 2 * 15 * MS}
    assert model["inference_stats"]["fail"] == {"count": 1, "ns": 15 * MS}
    assert (model["inference_count"], model["execution_count"]) == (2, 1)
    assert model["inference_stats"]["compute_infer"]["count"] == 2


def test_who_was_late_before_a_run_could_be_made_again_is_expired_and_not_failed():
    found = statistics()
    run = run_of(request(1), request(2), request(3), length=1)
    found.on_event(RunEnded(run, Failed((2, 3), expired=(3,)), 15 * MS))
    model = next(iter(found.models.values()))
    assert (model.answered, model.failed, model.expired) == (1, 1, 1)
    assert model.fail_ns == 2 * 15 * MS


def test_a_run_that_failed_wholly_gives_no_success():
    found = statistics()
    found.on_event(RunEnded(run_of(request(1)), Failed((1,)), 15 * MS))
    model = entry(found)
    assert model["inference_stats"]["success"]["count"] == 0
    assert (model["inference_count"], model["execution_count"]) == (0, 1)


def test_those_who_never_ran_failed():
    found = statistics()
    found.on_event(RequestRejected(request(1), "full", Cause.BUDGET))
    found.on_event(RequestExpired(request(2, arrival_ms=1), 4 * MS))
    found.on_event(RequestCancelled(request(3, arrival_ms=1), 6 * MS))
    model = entry(found)
    assert model["inference_stats"]["fail"] == {"count": 3, "ns": (3 + 5) * MS}
    assert model["execution_count"] == 0
    own = found.models["m"]
    assert (own.rejected, own.expired, own.cancelled) == (1, 1, 1)
    assert own.rejections[Cause.BUDGET] == 1


def test_who_was_answered_was_so_in_time_or_late():
    found = statistics()
    early = request(1)
    late = Request(2, "m", 0, 14 * MS)
    found.on_event(RunEnded(run_of(early, late, length=1), Done(ran_ns=MS), 15 * MS))
    own = found.models["m"]
    assert (own.on_time, own.late, own.answered) == (1, 1, 2)
    assert own.slack_seconds.total == (14 - 10) * MS, "of the most pressing"


def test_a_run_without_any_deadline_has_no_slack():
    found = statistics()
    run = run_of(Request(1, "m", 0, NEVER_NS), length=1)
    found.on_event(RunEnded(run, Done(ran_ns=MS), 15 * MS))
    assert found.models["m"].slack_seconds.count == 0


def test_how_far_off_a_prediction_was_is_counted():
    found = statistics()
    run = run_of(request(1), length=1)._replace(predicted_ns=4 * MS)
    found.on_event(RunEnded(run, Done(ran_ns=6 * MS), 16 * MS))
    found.on_event(RunEnded(run, Failed((1,)), 16 * MS))
    error = found.models["m"].error_ratio
    assert (error.count, error.total) == (1, 1.5), "a run that failed tells nothing"


def test_watchers_are_told_of_runs():
    found, seen = statistics(), []
    found.watchers.append(seen.append)
    event = RunEnded(run_of(request(1), length=1), Done(ran_ns=MS), 11 * MS)
    found.on_event(event)
    found.on_event(RequestExpired(request(2), 4 * MS))
    assert seen == [event]


def test_all_models_are_told_or_one():
    found = statistics()
    found.add_model("n", "1")
    assert [model["name"] for model in found.as_v2()["model_stats"]] == ["m", "n"]
    assert [model["name"] for model in found.as_v2("n")["model_stats"]] == ["n"]
