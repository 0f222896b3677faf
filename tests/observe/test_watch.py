"""A live look: what a frame holds, and that nobody pays for one that nobody takes."""

import orjson
from tests.support.asking import MS, ask, finish_all
from tests.support.puppets import PuppetHouse

from xirang.observe.watch import RUNS_SHOWN_MAX, SLOWEST


def test_a_frame_tells_what_the_metrics_tell():
    house = PuppetHouse.with_masked_double()
    watch = house.engine.watch()
    for number in range(3):
        ask(house, [number + 1])
    finish_all(house)
    ask(house, [9])
    (model,) = watch.frame()["models"]
    text = house.engine.metrics_text()
    for name, key in (("xirang_on_time_total", "on_time"), ("xirang_elements_total", "elements")):
        assert f'{name}{{model="m"}} {model["counts"][key]}\n' in text
    assert f'xirang_waiting{{model="m"}} {model["waiting"]}\n' in text
    assert model["waiting"] == 1
    assert sum(model["spans"]["total"]) == sum(model["spans"]["queue"]) == 3
    assert len(watch.bounds["spans_ms"]) + 1 == len(model["spans"]["total"])
    assert len(watch.bounds["batch_rows"]) + 1 == len(model["batch_rows"])
    (lane,) = model["lanes"]
    assert (lane["depth"], lane["rows"]) == (1, 1)


def test_runs_and_the_slowest_requests_are_those_since_the_last_frame():
    house = PuppetHouse.with_masked_double()
    watch = house.engine.watch()
    ask(house, [1])
    house.step()
    house.advance(3 * MS)
    finish_all(house)
    frame = watch.frame()
    ((model, instance, start_ms, end_ms, rows, *_),) = frame["runs"]
    assert (model, instance, rows) == ("m", 0, 1)
    assert end_ms - start_ms >= 3 - 1e-9
    (slowest,) = frame["slowest"]
    assert slowest["model"] == "m"
    assert slowest["total_ms"] == end_ms
    assert orjson.loads(orjson.dumps(frame)) == frame
    again = watch.frame()
    assert again["runs"] == again["slowest"] == []


def test_a_frame_is_bounded():
    house = PuppetHouse.with_masked_double()
    watch = house.engine.watch()
    for number in range(RUNS_SHOWN_MAX + 20):
        ask(house, [number + 1])
        finish_all(house)
    frame = watch.frame()
    assert len(frame["runs"]) == RUNS_SHOWN_MAX
    assert frame["runs_left_out"] == 20
    assert len(frame["slowest"]) == SLOWEST


def test_nothing_is_kept_once_nobody_looks():
    house = PuppetHouse.with_masked_double()
    first, second = house.engine.watch(), house.engine.watch()
    first.close()
    ask(house, [1])
    finish_all(house)
    assert first.frame()["runs"] == []
    assert len(second.frame()["runs"]) == 1
    second.close()
    assert house.engine._statistics.watchers == []
