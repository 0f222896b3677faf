"""The decision at the door."""

import pytest

from xirang.core.admission.gate import decide
from xirang.core.run import Admitted, Rejected

FULL = "Exceeds maximum queue size: 4 requests wait, at most 4 may"
GOING = "the server is shutting down; send the request elsewhere"


@pytest.mark.parametrize(
    ("depth", "is_draining", "verdict"),
    [
        (0, False, Admitted()),
        (3, False, Admitted()),
        (4, False, Rejected(FULL, 77)),
        (0, True, Rejected(GOING, 0)),
        (4, True, Rejected(GOING, 0)),
    ],
    ids=["empty", "last place", "full", "draining", "full and draining"],
)
def test_verdict(depth, is_draining, verdict):
    found = decide(depth=depth, depth_max=4, drained_ns=77, is_draining=is_draining)
    assert found == verdict
