"""What a probe found: the values that the rest of the house goes by."""

from dataclasses import dataclass
from enum import Enum

from xirang.core.cost import Sample
from xirang.core.signature import Signature


class Kind(Enum):
    """How batching leaves the answers."""

    EXACT = "exact"  # bit for bit as they are
    TOLERANT = "tolerant"  # within rounding
    PAD_UNSAFE = "pad-unsafe"  # rows of equal shapes may share a run, padding changes answers
    BATCH_SENSITIVE = "batch-sensitive"  # rows change each other
    BATCH_FIXED = "batch-fixed"  # one request is all that a run takes
    UNPROBED = "not probed"


@dataclass(frozen=True, slots=True)
class Ran:
    """A size at which the model has run, so that it is warm."""

    rows: int
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a probe found.

    Attributes:
        signature: As observed.
        verdict: How it may be batched, in words, with the largest difference seen.
        can_batch: Whether several rows in one run leave each answer as it is.
        can_pad: Whether rows may differ in all their lengths and still share a run.
        samples: Measured runs for the cost model; none if the model refused made-up inputs.
        is_packed: Whether rows of different lengths may stand end to end.
        elements_max: Padded elements beyond which a run gets slower per element, if measured.
        kind: The verdict's first word.
        paddable: Which lengths may be padded: the others must be equal within a run.
        difference: Largest |difference| between an answer alone and in company; None where
            answers could not even be compared.
        relative: The same against the answer's magnitude; this decides.
        residual: Largest |difference| that is left when the verdict is obeyed.
        lengths_run: For each length, the sizes that the model took.
        ran: Sizes that are warm.
        suspects: Operators of the model's graph that are known to mix rows or positions.
    """

    signature: Signature
    verdict: str
    can_batch: bool = False
    can_pad: bool = False
    is_packed: bool = False
    samples: tuple[Sample, ...] = ()
    elements_max: int | None = None
    kind: Kind = Kind.UNPROBED
    paddable: tuple[int, ...] = ()
    difference: float | None = None
    relative: float | None = None
    residual: float = 0.0
    lengths_run: tuple[tuple[int, ...], ...] = ()
    ran: tuple[Ran, ...] = ()
    suspects: tuple[str, ...] = ()
