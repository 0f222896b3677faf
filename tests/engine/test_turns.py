"""Answers in the order of requests, whoever is ready first."""

from functools import partial

from xirang.engine.turns import Turns


def test_who_is_ready_too_early_waits_for_his_turn():
    turns, told = Turns(), []
    for id in (1, 2, 3):
        turns.enter(id)
    turns.answered(2, partial(told.append, 2))
    turns.answered(3, partial(told.append, 3))
    assert told == []
    turns.answered(1, partial(told.append, 1))
    assert told == [1, 2, 3]


def test_who_left_holds_up_nobody():
    turns, told = Turns(), []
    for id in (1, 2, 3):
        turns.enter(id)
    turns.answered(2, partial(told.append, 2))
    turns.left(1)
    assert told == [2]
    turns.left(3)
    turns.enter(4)
    turns.answered(4, partial(told.append, 4))
    assert told == [2, 4]
