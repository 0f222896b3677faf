"""Kept answers: found by the whole request, within their bytes, and gone with their model."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.support.asking import ask, finish_all
from tests.support.puppets import PuppetHouse

from xirang.core.event import Function, OverloadChanged
from xirang.engine.cache import AnswerCache, key_of
from xirang.engine.extent import Shapes
from xirang.errors import Expired, XirangError
from xirang.tensors.tensor import Tensor, of_array


@pytest.fixture
def house():
    house = PuppetHouse.with_masked_double()
    house.engine.cache = AnswerCache(1 << 20)
    house.model.keeps_answers = True
    return house


def runs(house):
    return len(house.puppet.runs)


def counted(house, name):
    (model,) = house.engine.statistics("m")["model_stats"]
    return model["inference_stats"][name]["count"]


def test_the_same_request_is_answered_without_a_run(house):
    first = ask(house, [1, 2, 3])
    finish_all(house)
    again = ask(house, [1, 2, 3])
    again.check_right()
    first.check_right()
    assert runs(house) == 1
    assert (counted(house, "cache_hit"), counted(house, "cache_miss")) == (1, 1)
    assert (counted(house, "success"), counted(house, "compute_infer")) == (2, 1)


def test_another_value_another_mask_and_another_shape_are_other_requests(house):
    for rows in ([[1, 2, 3]], [[1, 2, 4]], [[1, 2, 3, 0]], [[1, 2, 3], [1, 2, 3]]):
        asked = ask(house, *rows)
        finish_all(house)
        asked.check_right()
    assert counted(house, "cache_hit") == 0


def test_other_outputs_are_another_answer(house):
    ask(house, [1, 2])
    finish_all(house)
    asked = ask(house, [1, 2], outputs=("total",))
    finish_all(house)
    assert list(asked.answer.outputs) == ["total"]
    assert runs(house) == 2


def test_a_model_that_does_not_say_so_has_nothing_kept(house):
    house.model.keeps_answers = False
    for _ in range(2):
        ask(house, [1, 2])
        finish_all(house)
    assert runs(house) == 2
    assert len(house.engine.cache) == 0


def test_errors_are_not_kept(house):
    for _ in range(2):
        asked = ask(house, [13])
        finish_all(house)
        assert isinstance(asked.error, XirangError)
    assert len(house.engine.cache) == 0


def test_a_request_that_is_cut_into_parts_is_kept_as_a_whole(house):
    rows = [[i, i] for i in range(house.model.policy.max_batch_size + 1)]
    ask(house, *rows)
    finish_all(house)
    before = runs(house)
    ask(house, *rows).check_right()
    assert runs(house) == before


def test_under_overload_nothing_more_is_kept_but_what_is_kept_is_given(house):
    ask(house, [1])
    finish_all(house)
    house.engine.economy.note(OverloadChanged("cpu", 3, (Function.CACHE_WRITES,), 0))
    ask(house, [1]).check_right()
    ask(house, [2])
    finish_all(house)
    assert len(house.engine.cache) == 1


def test_an_answer_that_is_kept_cannot_be_changed_by_who_got_it(house):
    first = ask(house, [1, 2])
    finish_all(house)
    kept = ask(house, [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        kept.answer.outputs["doubled"][:] = 0
    first.answer.outputs["doubled"] = None
    ask(house, [1, 2]).check_right()


def test_who_comes_too_late_is_not_answered_from_what_is_kept_either(house):
    ask(house, [1])
    finish_all(house)
    house.clock.time_ns += 10_000_000
    with pytest.raises(Expired):
        ask(house, [1], budget_ms=1, arrival_ns=house.clock.time_ns - 5_000_000)


def test_a_kept_answer_says_again_that_its_request_was_cut(house):
    house.model.shapes = Shapes((0,), length_max=2, can_crop=True)
    house.model.__post_init__()
    first = ask(house, [1, 2, 3])
    finish_all(house)
    again = ask(house, [1, 2, 3])
    assert first.answer.is_cropped
    assert again.answer.is_cropped
    assert counted(house, "cache_hit") == 1


# ---------------------------------------------------------------- the cache alone


def entry(lanes, number, size):
    data = number.to_bytes(8, "little")
    key = key_of(lanes, ("y",), {"x": Tensor("INT64", (1,), memoryview(data))})
    return key, {"y": np.full(size, number, np.uint8)}


def test_those_asked_for_the_longest_ago_make_room():
    cache = AnswerCache(3 * 1200)
    keys = [entry("m", number, 600) for number in range(4)]
    for key, outputs in keys[:3]:
        cache.keep(key, outputs)
    assert cache.find(keys[0][0]) is not None
    cache.keep(*keys[3])
    assert cache.find(keys[1][0]) is None
    assert cache.find(keys[0][0]) is not None
    assert cache.evictions == 1


def test_an_answer_larger_than_all_the_room_is_not_kept():
    cache = AnswerCache(1000)
    cache.keep(*entry("m", 1, 5000))
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_a_part_of_a_run_does_not_keep_the_run_alive():
    cache = AnswerCache(10_000)
    key, _ = entry("m", 1, 1)
    batch = np.zeros((1000, 8))
    cache.keep(key, {"y": batch[3:4]})
    assert cache.find(key)["y"].base is None


def test_bytes_are_counted_and_told_apart():
    cache = AnswerCache(10_000)
    one = key_of("m", ("y",), {"x": of_array(np.array([b"ab", b"c"], object))})
    two = key_of("m", ("y",), {"x": of_array(np.array([b"a", b"bc"], object))})
    assert one != two
    cache.keep(one, {"y": np.array([b"long" * 100], object)})
    assert cache.size_bytes > 400


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("fkd"), st.sampled_from("ab"), st.integers(0, 9)), max_size=60
)


@given(OPERATIONS, st.integers(0, 6))
def test_it_is_a_bounded_map_that_tells_the_truth(operations, places):
    bytes_max = places * 1200
    cache, told = AnswerCache(bytes_max), {}
    for operation, lanes, number in operations:
        key, outputs = entry(lanes, number, 100 * number)
        if operation == "k":
            cache.keep(key, outputs)
            told[key] = outputs
        elif operation == "d":
            cache.forget(lanes)
            told = {each: kept for each, kept in told.items() if each.lanes != lanes}
        found = cache.find(key)
        if found is not None:
            assert np.array_equal(found["y"], told[key]["y"])
        assert 0 <= cache.size_bytes <= bytes_max
        assert (cache.size_bytes == 0) == (len(cache) == 0)
    for lanes in "ab":
        cache.forget(lanes)
    assert cache.size_bytes == 0
