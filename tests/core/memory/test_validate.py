"""The naive validator finds what is wrong with a plan."""

import pytest

from xirang.core.memory.lifetime import of_rows
from xirang.core.memory.validate import fault_of

BLOCKS = of_rows([(0, 2, 10), (1, 3, 20), (2, 4, 10)])


def test_a_right_plan_has_no_fault():
    assert fault_of(BLOCKS, (0, 10, 0), 30) is None


@pytest.mark.parametrize(
    ("offsets", "height", "said"),
    [
        ((0, 9, 0), 30, "blocks 0 and 1 live at the same time"),
        ((0, 10, 0), 29, "block 1 lies at 10…30"),
        ((-1, 10, 0), 30, "block 0 lies at -1…9"),
        ((0, 10), 30, "2 offsets for 3 blocks"),
    ],
)
def test_a_fault_is_named(offsets, height, said):
    assert said in fault_of(BLOCKS, offsets, height)


def test_a_block_of_no_bytes_meets_nobody():
    assert fault_of(of_rows([(0, 2, 10), (0, 2, 0)]), (0, 5), 10) is None
