"""The text that Prometheus reads."""

import re

from tests.support.asking import MS, ask, finish, finish_all
from tests.support.puppets import PuppetHouse

from xirang.core.policy import Policy
from xirang.core.scheduler import Scheduler
from xirang.observe.metrics import render
from xirang.observe.statistics import Statistics

SAMPLE = re.compile(r"([a-z_]+)(\{(?:[a-z]+=\"(?:[^\"\\\n]|\\.)*\",?)+\})? (-?[0-9.e+-]+|\+Inf)")


def parsed(text):
    """Series with labels to value; every line must be of the exposition format."""
    assert text.endswith("\n")
    samples, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in types, "one TYPE a metric"
            types[name] = kind
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            key = found[1] + (found[2] or "")
            assert key not in samples, key
            base = re.sub(r"_(bucket|sum|count)$", "", found[1])
            assert found[1] in types or types.get(base) == "histogram"
            samples[key] = float(found[3])
    return samples, types


def busy_house():
    house = PuppetHouse.with_masked_double(depth_max=4)
    ask(house, [1])
    house.step()
    house.advance(4 * MS)
    ask(house, [2, 3]), ask(house, [13]), ask(house, [4]).ticket.cancel()
    ask(house, [5], budget_ms=1)
    finish(house)
    finish_all(house)
    return house


def test_every_series_of_a_model_is_there_from_the_start():
    samples, types = parsed(PuppetHouse.with_masked_double().engine.metrics_text())
    assert all(
        value == 0
        for key, value in samples.items()
        if key.split("{")[0] in types and types[key.split("{")[0]] == "counter"
    )
    assert types["xirang_queue_seconds"] == "histogram"
    assert types["nv_inference_request_success"] == "counter"
    assert samples['xirang_waiting{model="m"}'] == 0


def test_what_happened_is_told():
    house = busy_house()
    samples, _ = parsed(house.engine.metrics_text())
    assert samples['nv_inference_request_success{model="m",version="1"}'] == 2
    failure = 'nv_inference_request_failure{model="m",reason="%s",version="1"}'
    assert samples[failure % "BACKEND"] == 1
    assert samples[failure % "CANCELED"] == 1
    assert samples[failure % "REJECTED"] == 1, "the one that expired"
    assert samples['xirang_expired_total{model="m"}'] == 1
    assert samples['xirang_cancelled_total{model="m"}'] == 1
    assert samples['nv_inference_count{model="m",version="1"}'] == 2
    runs = sum(value for key, value in samples.items() if key.startswith("xirang_runs_total"))
    assert runs == len(house.puppet.runs) == samples['xirang_batch_rows_count{model="m"}']
    assert samples['nv_inference_request_duration_us{model="m",version="1"}'] >= 4000


def test_histograms_are_cumulative():
    samples, _ = parsed(busy_house().engine.metrics_text())
    buckets = [
        value
        for key, value in samples.items()
        if key.startswith("xirang_request_duration_seconds_bucket")
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == samples['xirang_request_duration_seconds_count{model="m"}']


def test_names_of_models_are_escaped():
    scheduler, statistics = Scheduler(devices={"cpu": 1}), Statistics(unix_ms=lambda: 0)
    name = 'a"b\\c\nd'
    house = PuppetHouse.with_masked_double()
    scheduler.add_model(name, Policy(), house.model.cost)
    statistics.add_model(name, "1")
    samples, _ = parsed(render(statistics, scheduler.snapshot(now_ns=0)))
    assert samples[r'xirang_waiting{model="a\"b\\c\nd"}'] == 0
