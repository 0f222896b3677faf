"""Hold answers in company against the same answers alone.

Company is chosen to show what a mean would hide: neighbours a thousand times larger or smaller, or
all alike; every order; several rows a request; padding by little and by much.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xirang.core.signature import Layout
from xirang.engine.probe.allowance import Allowance
from xirang.engine.probe.comparing import INCOMPARABLE, NONE, Difference, compare
from xirang.engine.probe.lab import Lab, Outputs
from xirang.engine.probe.values import Asked
from xirang.tensors.packed import OFFSETS, offsets, pack, unpack
from xirang.tensors.tensor import of_array

log = logging.getLogger(__name__)

ROUNDS_MAX = 3
"""Each with other values, while there is time."""

TRIALS_MIN = 5
"""So many are run however long they take; the telling ones come first."""

ONCE = 3
"""Of the padded trials, enough to tell that a way of padding is not neutral."""

LOUD, QUIET = 1000.0, 0.001

_TrialsOf = Callable[[int], "Iterator[Trial]"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One run in company.

    Attributes:
        members: In the order of their rows.
        targets: To which sizes they are padded.
    """

    members: tuple[Asked, ...]
    targets: tuple[int, ...]


def in_company(lab: Lab, taken: Sequence[Sequence[int]], allowance: Allowance) -> Difference:
    """Rows of equal shapes in one run."""
    return _rounds(lab, allowance, lambda first: _equal_trials(lab, taken, first))


def padded(
    lab: Lab, taken: Sequence[Sequence[int]], lengths: Sequence[int], allowance: Allowance
) -> Difference:
    """Rows whose sizes differ in these lengths, and are equal in the others.

    Of a single length `padded_once` has been run, and found no difference beyond rounding.
    """
    done = ONCE if len(lengths) == 1 else 0
    return _rounds(lab, allowance, lambda first: _padded_trials(taken, lengths, first), done=done)


def padded_once(lab: Lab, taken: Sequence[Sequence[int]], lengths: Sequence[int]) -> Difference:
    """The same in short."""
    worst = NONE
    for trial in list(_padded_trials(taken, lengths, 0))[:ONCE]:
        worst = worst.worst(difference(lab, trial))
    return worst


def difference(lab: Lab, trial: Trial) -> Difference:
    """The largest between a member alone and in the trial's run."""
    try:
        answers = lab.together(trial.members, trial.targets)
        expected = [lab.alone(member) for member in trial.members]
    except Exception as error:  # a model may take a size alone and not in company
        log.debug("probe: refused %s: %s", trial, error)
        return INCOMPARABLE
    worst = NONE
    for member, own, got in zip(trial.members, expected, answers, strict=True):
        # A loud neighbour's own answer is not held against it: rounding grows with it.
        if member.scale == 1.0:
            worst = worst.worst(_between(own, got))
    return worst


def end_to_end(lab: Lab, taken: Sequence[int], layouts: Mapping[str, Layout]) -> Difference:
    """Rows of several lengths, one behind the other instead of padded.

    Args:
        lab: Its model is packed.
        taken: Sizes of its one length.
        layouts: Of its inputs.
    """
    middle = taken[len(taken) // 2]
    asked = [(taken[0], 1), (taken[-1], 2), (middle, 1), (taken[0], 3), (taken[-1], 1)]
    members = [Asked(51 + i, (size,), rows) for i, (size, rows) in enumerate(asked)]
    members[2] = replace(members[2], scale=LOUD)
    rows, lengths = [each.rows for each in members], [each.lengths[0] for each in members]
    requests = [lab.request(member) for member in members]
    inputs = {
        name: pack([of_array(each[name]) for each in requests], layout)
        for name, layout in layouts.items()
    }
    inputs[OFFSETS] = offsets(rows=rows, lengths=lengths)
    try:
        outputs = lab.executable.run(inputs, lab.names)
        parts = unpack(outputs, rows=rows, lengths=lengths, layouts=lab.layouts)
        expected = [lab.alone(member) for member in members]
    except Exception as error:  # what it refuses is not done
        log.debug("probe: refused rows end to end: %s", error)
        return INCOMPARABLE
    worst = NONE
    for i, member in enumerate(members):
        if member.scale == 1.0:
            worst = worst.worst(_between(expected[i], {name: parts[name][i] for name in parts}))
    return worst


def _between(own: Outputs, got: Outputs) -> Difference:
    worst = NONE
    for name, array in own.items():
        worst = worst.worst(compare(array, got[name]))
    return worst


def _rounds(lab: Lab, allowance: Allowance, trials_of: _TrialsOf, *, done: int = 0) -> Difference:
    """The largest difference in several rounds; some trials of the first may be done already."""
    worst = NONE
    for number in range(ROUNDS_MAX):
        for trial in list(trials_of(10 * number))[0 if number else done :]:
            if done >= TRIALS_MIN and allowance.is_spent:
                return worst
            worst = worst.worst(difference(lab, trial))
            if not worst.is_rounding:
                return worst
            done += 1
    return worst


def _equal_trials(lab: Lab, taken: Sequence[Sequence[int]], first: int) -> Iterator[Trial]:
    most = lab.rows_fixed or 8
    short, long = _ends(taken, most=4)
    for sizes in dict.fromkeys((short, long)):
        a, b, c = (Asked(first + n, sizes) for n in (1, 2, 3))
        crowd = (
            a,
            Asked(first + 4, sizes, scale=LOUD),
            Asked(first + 5, sizes, scale=QUIET),
            Asked(first + 6, sizes, scale=0),
        )
        many = (Asked(first + 7, sizes, rows=2), b, Asked(first + 8, sizes, rows=3), c, a)
        sparse = (replace(b, is_sparse=True), a, replace(c, is_sparse=True))
        groups = [(c, a, b), crowd, many, (a, b), crowd[::-1]]
        if lab.values.masks:
            groups.insert(2, sparse)
        for members in groups:
            if sum(member.rows for member in members) <= most:
                yield Trial(members, sizes)


def _padded_trials(
    taken: Sequence[Sequence[int]], lengths: Sequence[int], first: int
) -> Iterator[Trial]:
    def at(number: int) -> tuple[int, ...]:
        """The numberth of the padded lengths' sizes, the smallest of the others."""
        return tuple(
            sizes[min(number, len(sizes) - 1)] if k in lengths else sizes[0]
            for k, sizes in enumerate(taken)
        )

    count = max((len(taken[k]) for k in lengths), default=1)
    short, next_up, middle, long = at(0), at(1), at(count // 2), at(count - 1)
    a, b = Asked(first + 1, short), Asked(first + 2, next_up)
    # A largest of both signs would not see zeros, a largest of negative numbers does.
    yield Trial((a, replace(b, sign=-1), b), next_up)
    yield Trial((replace(a, sign=-1), replace(a, sign=1)), long)
    yield Trial((b, Asked(first + 5, long, scale=LOUD), a), long)
    yield Trial((Asked(first + 3, long), a, Asked(first + 4, middle), b), long)
    yield Trial((a,), long)
    yield Trial((Asked(first + 6, short, rows=2), Asked(first + 7, middle, scale=0), b), long)
    if len(lengths) > 1:
        # One is long where the other is short.
        for k in lengths:
            mixed = tuple(long[i] if i == k else size for i, size in enumerate(short))
            yield Trial((a, Asked(first + 8 + k, mixed)), mixed)
        mixes = [tuple(long[i] if i == k else s for i, s in enumerate(short)) for k in lengths]
        members = tuple(Asked(first + 8 + n, mix) for n, mix in enumerate(mixes))
        yield Trial(members, tuple(max(each) for each in zip(*mixes, strict=True)))


def _ends(taken: Sequence[Sequence[int]], *, most: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The smallest sizes, and some of the larger ones: not the largest, which would take long."""
    short = tuple(sizes[0] for sizes in taken)
    return short, tuple(sizes[min(most, len(sizes) - 1)] for sizes in taken)
