"""Our scheduler under Triton's rules answers as a genuine server did, recorded in tests/data."""

import pytest
from tests.support.batcher import played, recorded

SEQUENCES = recorded()


@pytest.mark.parametrize(
    ("sequence", "outcome"), SEQUENCES, ids=[sequence.name for sequence, _ in SEQUENCES]
)
def test_a_sequence_becomes_the_same_runs_as_on_a_genuine_server(sequence, outcome):
    assert played(sequence) == outcome


def test_there_is_something_to_hold_it_against():
    assert len(SEQUENCES) > 30
    assert any(outcome.timed_out for _, outcome in SEQUENCES)
    assert any(outcome.refused for _, outcome in SEQUENCES)
    assert any(sequence.is_watched for sequence, _ in SEQUENCES)
