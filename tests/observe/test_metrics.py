"""The page that Prometheus reads, read by the parsers of Prometheus' own client."""

import re

import pytest
from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as open_parser
from tests.support.asking import MS, ask, finish, finish_all
from tests.support.puppets import PuppetHouse

from xirang.core.event import RunEnded
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Cause, Done, Run, Trigger
from xirang.core.scheduler import Scheduler
from xirang.observe.exposition import OPEN_TYPE, TEXT_TYPE, is_open
from xirang.observe.metrics import render
from xirang.observe.statistics import STAGES, Statistics

LINE = re.compile(r"([a-z_]+)(\{.+\})? (-?[0-9.e+-]+|\+Inf)")


def parsed(text):
    """Series with labels, as they stand, to value; and types by name."""
    families = list(text_parser.text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families), "one TYPE a metric"
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        found = LINE.fullmatch(line)
        assert found, line
        key = found[1] + (found[2] or "")
        assert key not in samples, key
        samples[key] = float(found[3])
    assert len(samples) == sum(len(family.samples) for family in families)
    return samples, dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


def busy_house():
    house = PuppetHouse.with_masked_double(depth_max=4)
    ask(house, [1])
    house.step()
    house.advance(4 * MS)
    ask(house, [2, 3]), ask(house, [13]), ask(house, [4]).ticket.cancel()
    ask(house, [5], budget_ms=100)
    house.advance(150 * MS)
    finish(house)
    finish_all(house)
    return house


def test_every_series_of_a_model_is_there_from_the_start():
    samples, types = parsed(PuppetHouse.with_masked_double().engine.metrics_text())
    for key, value in samples.items():
        name = key.split("{")[0]
        assert value == 0 or types.get(name) != "counter", key
    for stage in STAGES:
        assert samples[f'xirang_stage_seconds_count{{model="m",stage="{stage}"}}'] == 0
    for trigger in Trigger:
        assert samples[f'xirang_runs_total{{model="m",trigger="{trigger.value}"}}'] == 0
    for cause in Cause:
        assert samples[f'xirang_rejected_total{{model="m",reason="{cause.name.lower()}"}}'] == 0
    assert types["nv_inference_request_success"] == "counter"
    assert samples['xirang_waiting{model="m"}'] == 0


def test_what_happened_is_told():
    house = busy_house()
    samples, _ = parsed(house.engine.metrics_text())
    assert samples['nv_inference_request_success{model="m",version="1"}'] == 2
    failure = 'nv_inference_request_failure{model="m",reason="%s",version="1"}'
    assert samples[failure % "BACKEND"] == samples['xirang_failed_total{model="m"}'] == 1
    assert samples[failure % "CANCELED"] == samples['xirang_cancelled_total{model="m"}'] == 1
    assert samples[failure % "REJECTED"] == samples['xirang_expired_total{model="m"}'] == 1
    assert samples['xirang_on_time_total{model="m"}'] == 2
    assert samples['nv_inference_count{model="m",version="1"}'] == 2
    runs = sum(value for key, value in samples.items() if key.startswith("xirang_runs_total"))
    assert runs == len(house.puppet.runs) == samples['xirang_batch_rows_count{model="m"}']
    assert samples['nv_inference_request_duration_us{model="m",version="1"}'] >= 4000 + 150_000


def test_numbers_of_the_triton_set_are_integers_as_its_readers_expect():
    text = busy_house().engine.metrics_text()
    counts = re.findall(r"^(nv_inference\w+\{.+\}) (\S+)$", text, re.MULTILINE)
    assert counts
    assert all(value.isdigit() for _, value in counts)
    assert 'nv_inference_request_failure{model="m",reason="BACKEND",version="1"} 1' in text


def test_histograms_are_cumulative():
    samples, _ = parsed(busy_house().engine.metrics_text())
    buckets = [
        value
        for key, value in samples.items()
        if key.startswith("xirang_request_duration_seconds_bucket")
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == samples['xirang_request_duration_seconds_count{model="m"}']


def test_each_lane_that_is_not_empty_has_its_depth_age_and_work_ahead():
    house = PuppetHouse.with_masked_double()
    ask(house, [1])
    house.step()
    ask(house, [2], priority=1), ask(house, [3], priority=3), ask(house, [4], priority=3)
    house.advance(2 * MS)
    samples, _ = parsed(house.engine.metrics_text())
    lanes = {key.split("{")[1]: value for key, value in samples.items() if "_lane_depth" in key}
    assert sorted(lanes.values()) == [1, 2]
    for lane, depth in lanes.items():
        assert samples["xirang_lane_oldest_seconds{" + lane] == 0.002
        ahead = samples["xirang_lane_wait_seconds{" + lane]
        everything = samples['xirang_waiting_work_seconds{model="m"}']
        assert ahead == pytest.approx(everything / 3 if depth == 1 else everything, abs=1e-8)


def test_openmetrics_is_spoken_to_who_understands_it():
    text = busy_house().engine.metrics_text(is_open=True)
    families = {f.name: f for f in open_parser.text_string_to_metric_families(text)}
    assert families["xirang_runs"].type == "counter"
    assert {s.name for s in families["xirang_runs"].samples} == {"xirang_runs_total"}
    assert families["nv_inference_count"].type == "unknown", "a counter would need _total"
    assert families["xirang_run_slack_seconds"].type == "histogram"
    assert is_open("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1")
    assert not is_open("text/plain")
    assert OPEN_TYPE.startswith("application/openmetrics-text")
    assert TEXT_TYPE.startswith("text/plain; version=0.0.4")


def test_both_formats_say_the_same():
    engine = busy_house().engine
    plain = engine.metrics_text().splitlines()
    opened = engine.metrics_text(is_open=True).splitlines()
    assert opened.pop() == "# EOF"
    for text in (plain, opened):
        text[:] = [line for line in text if not line.startswith(("#", "nv_cpu"))]
    assert plain == opened


def test_names_of_models_are_escaped():
    scheduler, statistics = Scheduler(devices={"cpu": 1}), Statistics(unix_ms=lambda: 0)
    name = 'a"b\\c\nd'
    house = PuppetHouse.with_masked_double()
    scheduler.add_model(name, Policy(), house.model.cost)
    statistics.add_model(name, "1")
    text = render(statistics, scheduler.snapshot(now_ns=0))
    samples, _ = parsed(text)
    assert samples[r'xirang_waiting{model="a\"b\\c\nd"}'] == 0
    families = {f.name: f for f in text_parser.text_string_to_metric_families(text)}
    assert families["xirang_waiting"].samples[0].labels == {"model": name}


def test_traced_requests_stand_for_those_that_took_as_long_in_openmetrics_alone():
    house = PuppetHouse.with_masked_double()
    ask(house, [1])
    house.advance(3 * MS)
    finish_all(house)
    histogram = house.engine.counts.models["m"].request_seconds
    took_ns = int(histogram.total)
    histogram.exemplify(took_ns, "0af7651916cd43dd8448eb211c80319c", 1_500)
    assert "trace_id" not in house.engine.metrics_text(), "only OpenMetrics has a form for it"
    text = house.engine.metrics_text(is_open=True)
    families = {f.name: f for f in open_parser.text_string_to_metric_families(text)}
    samples = families["xirang_request_duration_seconds"].samples
    (found,) = [sample for sample in samples if sample.exemplar]
    assert found.exemplar.labels == {"trace_id": "0af7651916cd43dd8448eb211c80319c"}
    assert found.exemplar.value == pytest.approx(took_ns / 1e9)
    assert float(found.exemplar.timestamp) == 1.5
    assert found.exemplar.value <= float(found.labels["le"])
    assert found.value == 1


def test_a_trace_is_found_by_the_run_that_its_request_was_in():
    statistics = Statistics(unix_ms=lambda: 7)
    statistics.add_model("m", "1", lanes="m@2")
    requests = Request(4, "m@2", 0, 99 * MS), Request(5, "m@2", MS, 99 * MS)
    run = Run(1, "m@2", 0, requests, 2, 1, Trigger.ALONE, 2 * MS, MS, 0, 0)
    statistics.note_trace(RunEnded(run, Done(MS), 4 * MS), 5, "abc")
    ((value, trace, unix_ms),) = statistics.models["m"].request_seconds.exemplars.values()
    assert (value, trace, unix_ms) == (3 * MS, "abc", 7)
    statistics.drop_lanes("m@2")
    statistics.note_trace(RunEnded(run, Done(MS), 4 * MS), 5, "abc")
