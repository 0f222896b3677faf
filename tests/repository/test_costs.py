"""Cost models are kept, taken up again, scaled to the machine, and forgotten if they do not fit."""

import pytest
from tests.support.core import MS, learned

from xirang.core.cost import CostModel, Sample
from xirang.repository.costs import keep, kind_of, recall, settled
from xirang.repository.learned import Learned

KIND = kind_of(device="cpu", threads=1)
CHECK = ((1, 8), (4, 32), (1, 128))


def samples_of(cost, *, factor=1.0):
    times = [(r, n, cost.predict_ns(rows=r, length=n)) for r, n in CHECK]
    return [Sample(r, n, round(factor * ran_ns)) for r, n, ran_ns in times]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"weights")
    return Learned.of(tmp_path / "m.onnx")


def test_a_cost_model_is_taken_up_where_it_was_left(place):
    cost = learned(2e6, 1e5, 1e4)
    for _ in range(100):
        cost.observe(rows=3, length=17, ran_ns=3 * MS)
    assert keep(place, KIND, cost)
    recalled = recall(place, KIND)
    assert recalled.state() == cost.state()
    assert settled(recalled, samples_of(cost, factor=1.1)).state() == cost.state()


def test_other_threads_are_another_cost(place):
    keep(place, KIND, learned(2e6))
    assert recall(place, kind_of(device="cpu", threads=2)) is None


def test_the_same_file_with_its_graph_rewritten_is_another_cost(place):
    keep(place, KIND, learned(2e6))
    assert recall(place, kind_of(device="cpu", threads=1, is_rewritten=True)) is None


def test_a_cold_one_is_not_kept(place):
    assert not keep(place, KIND, CostModel())
    assert recall(place, KIND) is None


def test_an_impossible_one_is_ignored_with_a_warning(place, caplog):
    keep(place, KIND, learned(2e6))
    value = place.read(KIND)
    for change in ({"weights": [-1.0, 0.0, 0.0, 0.0]}, {"weights": "none"}):
        place.write(KIND, value | change)
        assert recall(place, KIND) is None
    assert caplog.text.count("is ignored") == 2


@pytest.mark.parametrize("factor", [0.3, 2.5])
def test_on_another_machine_the_law_is_scaled(factor):
    cost = learned(2e6, 1e5, 1e4)
    expected = factor * cost.predict_ns(rows=8, length=64)
    began = settled(cost, samples_of(cost, factor=factor))
    assert began is cost
    assert began.predict_ns(rows=8, length=64) == pytest.approx(expected, rel=1e-3)


def test_a_law_that_does_not_fit_at_all_is_fitted_anew(caplog):
    caplog.set_level("INFO")
    saved, true = learned(100e6), learned(1e4, 0.0, 1e5)
    began = settled(saved, samples_of(true))
    assert began is not saved
    assert "fitted anew" in caplog.text
    assert began.predict_ns(rows=4, length=32) == pytest.approx(
        true.predict_ns(rows=4, length=32), rel=0.05
    )


def test_what_was_probed_serves_where_what_was_saved_is_of_another_model():
    probed = [
        Sample(rows, length, 10_000 + 100_000 * rows * length)
        for rows in (1, 4, 16)
        for length in (8, 32, 128)
    ]
    fresh = [Sample(r, n, 2 * (10_000 + 100_000 * r * n)) for r, n in CHECK]
    began = settled(learned(100e6), fresh, probed=probed)
    assert began.predict_ns(rows=16, length=8) == pytest.approx(2 * 12_810_000, rel=0.05)
    assert settled(None, (), probed=probed).predict_ns(rows=16, length=8) == pytest.approx(
        12_810_000, rel=0.05
    )


def test_with_nothing_measured_and_nothing_kept_it_is_cold():
    assert settled(None, ()).is_cold
    saved = learned(2e6)
    assert settled(saved, ()) is saved
