"""The law of a model whose rows stand end to end: never too small, close, and by three numbers."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.native import library, needs_native

from xirang.core.memory.polynomial import Factor, Term, made
from xirang.memory.arena import HostArena
from xirang.memory.packed import (
    LENGTHS,
    PackedFootprint,
    Reached,
    law_of_reach,
    reached,
)

TOKENS = Term(factors=(Factor(0),))


def samples(size_of, runs=LENGTHS):
    return [
        Reached(len(run), sum(run), max(run), size_of(len(run), sum(run), max(run))) for run in runs
    ]


def foreseen(laws, rows, tokens, longest):
    return max(law.bytes_at(rows, (tokens, longest)) for law in laws)


@settings(deadline=None, max_examples=20)
@given(
    st.tuples(st.integers(500, 2000), st.sampled_from([0, 20, 50, 100]), st.integers(0, 5000)),
    st.lists(st.integers(1, 500), min_size=1, max_size=60),
)
def test_states_of_all_and_scores_of_one_are_told_apart(weights, run):
    """At one instant the states of all tokens live, at another the longest row's scores too."""
    by_token, by_square, fixed = weights

    def size_of(rows, tokens, longest):
        return fixed + max(by_token * tokens, by_token * tokens // 2 + by_square * longest**2)

    laws = law_of_reach(samples(size_of))
    for one in samples(size_of):
        assert foreseen(laws, one.rows, one.tokens, one.longest) >= one.size_bytes
    (other,) = samples(size_of, [run])
    found = foreseen(laws, other.rows, other.tokens, other.longest)
    assert 0.8 * other.size_bytes - 8192 <= found <= 2.5 * other.size_bytes + 8192


@pytest.mark.parametrize(
    "size_of",
    [
        lambda _, tokens, __: 1000 * tokens,
        lambda rows, tokens, _: 100 * rows + 800 * tokens,
        lambda rows, _, longest: 64 * rows * longest,  # as one that pads inside
        lambda _, tokens, __: 4 * tokens * tokens,  # as one that scores all by all
    ],
)
def test_what_kernels_take_is_found_within_a_few_percent(size_of):
    laws = law_of_reach(samples(size_of))
    for other in samples(size_of, [(500,) * 3, (20,) * 300, (5, 400, 33), (64,)]):
        found = foreseen(laws, other.rows, other.tokens, other.longest)
        assert 0.999 * other.size_bytes <= found <= 1.05 * other.size_bytes + 64


@needs_native
def test_equal_rows_are_a_number_others_are_told_by_tokens_and_longest():
    footprint = PackedFootprint(
        library(), samples(lambda _, tokens, __: 1000 * tokens), [made({TOKENS: 8})]
    )
    assert footprint.peak_bytes(4, 50) == footprint.peak_bytes(4, (200, 50))
    assert footprint.peak_bytes(4, (100, 50)) < footprint.peak_bytes(4, 50)
    rows = footprint.rows_max(50, 1 << 20)
    assert footprint.peak_bytes(rows, 50) <= 1 << 20 < footprint.peak_bytes(rows + 1, 50)
    assert footprint.rows_max(50, 0) == 0
    room = footprint.room(HostArena())
    room.open(2, (20, 12), 1 << 20)
    assert room.take((20,), "i8").shape == (20,)


@needs_native
def test_runs_that_a_model_refuses_are_left_out():
    def act(run):
        if max(run) > 90:
            raise ValueError("no such position")

    runs = [(run, lambda run=run: act(run)) for run in LENGTHS]
    found = reached(library(), runs)
    assert len(found) == sum(max(run) <= 90 for run in LENGTHS)
    with pytest.raises(ValueError, match="it takes 0 of"):
        reached(library(), [((200,), lambda: act((200,)))] * 9)
