"""A short soak in every run of the suite; `.ci/nightly` runs the one of fifteen minutes."""

import pytest
from benchmarks.qos import soak

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_whoever_is_admitted_is_answered_right_whatever_others_do():
    wrong, odd, _, failed_reloads, *_ = soak.measure(15.0)
    assert (wrong.value, odd.value, failed_reloads.value) == (0, 0, 0)
