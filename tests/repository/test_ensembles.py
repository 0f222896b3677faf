"""Who goes and who comes back with whom."""

from xirang.engine.pipeline import Pipeline, Step
from xirang.repository.ensembles import Dependents


def made_of(*names):
    return Pipeline(tuple(Step(name, "", {"x": "x"}, {"y": f"y {name}"}) for name in names))


def test_an_ensemble_that_went_with_a_model_comes_back_when_all_serve():
    known = Dependents()
    known.come("plain", None)
    known.come("e", made_of("a", "b"))
    known.come("outer", made_of("e"))
    assert known.made_of("a") == ["e"]
    assert known.made_of("e") == ["outer"]
    known.wait("e")
    assert known.made_of("a") == [], "it does not serve"
    serving = {"b"}
    assert known.waiting_for(lambda name: [name] if name in serving else []) == []
    serving.add("a")
    assert known.waiting_for(lambda name: [name] if name in serving else []) == ["e"]
    known.come("e", made_of("a"))
    assert known.waiting_for(lambda name: [name]) == []
    assert known.made_of("b") == []


def test_who_left_at_a_wish_does_not_come_back():
    known = Dependents()
    known.come("e", made_of("a"))
    known.wait("e")
    known.leave("e")
    assert known.waiting_for(lambda name: [name]) == []
    assert known.made_of("a") == []
