"""Verdicts in words."""

import pytest

from xirang.engine.probe import Kind
from xirang.engine.probe.comparing import INCOMPARABLE, NONE, Difference
from xirang.engine.probe.values import Values
from xirang.engine.probe.verdict import how_equal, how_padded, kind_of, words

LITTLE = Difference(2e-7, 1e-7, is_rounding=True)
MUCH = Difference(0.5, 0.25, is_rounding=False)


@pytest.mark.parametrize(
    ("together", "padding", "kind"),
    [
        (NONE, None, Kind.EXACT),
        (NONE, NONE, Kind.EXACT),
        (LITTLE, None, Kind.TOLERANT),
        (NONE, LITTLE, Kind.TOLERANT),
        (LITTLE, MUCH, Kind.PAD_UNSAFE),
        (NONE, INCOMPARABLE, Kind.PAD_UNSAFE),
        (MUCH, None, Kind.BATCH_SENSITIVE),
        (INCOMPARABLE, NONE, Kind.BATCH_SENSITIVE),
    ],
)
def test_rows_are_judged_before_padding(together, padding, kind):
    assert kind_of(together, padding) is kind


@pytest.mark.parametrize(
    ("kind", "worst", "lengths", "paddable", "said"),
    [
        (Kind.EXACT, NONE, 0, (), "exact: batching leaves every answer as it is"),
        (Kind.EXACT, NONE, 1, (0,), "exact: batching and padding leave every answer as it is"),
        (
            Kind.EXACT,
            NONE,
            2,
            (1,),
            "exact: batching and padding leave every answer as it is; "
            "of its 2 lengths, 0 must be equal",
        ),
        (
            Kind.TOLERANT,
            LITTLE,
            0,
            (),
            "tolerant: batching rounds answers off by 2.0e-07, 1.0e-07 of their magnitude",
        ),
        (
            Kind.PAD_UNSAFE,
            INCOMPARABLE,
            1,
            (),
            "pad-unsafe: padded answers cannot be compared; only equal shapes share a run",
        ),
        (
            Kind.BATCH_SENSITIVE,
            MUCH,
            1,
            (),
            "batch-sensitive: rows change each other by 5.0e-01, 2.5e-01 of their magnitude; "
            "each request is a run of its own",
        ),
        (
            Kind.BATCH_SENSITIVE,
            INCOMPARABLE,
            0,
            (),
            "batch-sensitive: rows cannot be told apart; each request is a run of its own",
        ),
        (Kind.BATCH_FIXED, NONE, 0, (), "batch-fixed: each request is a run of its own"),
    ],
)
def test_a_verdict_is_a_sentence(kind, worst, lengths, paddable, said):
    assert words(kind, worst, lengths=lengths, paddable=paddable) == said


def test_masks_and_pad_values_are_told_where_there_is_padding():
    values = Values(masks={"mask": 0, "hidden": 1}, pads={"ids": 3})
    how = how_padded(values, ["ids", "mask", "hidden", "other"])
    assert how == " (mask mask, hidden (1 where padded); ids padded with 3)"
    assert words(Kind.EXACT, NONE, lengths=1, paddable=(0,), how=how).endswith(how)


def test_equal_shapes_are_judged_by_themselves():
    assert how_equal(NONE) == ", exactly"
    assert how_equal(LITTLE) == ", within 2.0e-07, 1.0e-07 of their magnitude"
    said = words(Kind.PAD_UNSAFE, MUCH, lengths=1, paddable=(), how=how_equal(NONE))
    assert said.endswith("only equal shapes share a run, exactly")
