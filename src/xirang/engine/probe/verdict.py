"""What was found, in words that an operator can act upon."""

from collections.abc import Sequence

from xirang.engine.probe.comparing import Difference
from xirang.engine.probe.findings import Kind
from xirang.engine.probe.values import Values


def kind_of(together: Difference, padding: Difference | None) -> Kind:
    """The verdict on a model whose rows were run together.

    Args:
        together: How far rows of equal shapes move each other.
        padding: How far padding moves them, where it is to be done; None where there is nothing
            to pad.
    """
    if not together.is_rounding:
        return Kind.BATCH_SENSITIVE
    if padding is not None and not padding.is_rounding:
        return Kind.PAD_UNSAFE
    is_exact = together.is_exact and (padding is None or padding.is_exact)
    return Kind.EXACT if is_exact else Kind.TOLERANT


def words(
    kind: Kind, worst: Difference, *, lengths: int, paddable: Sequence[int], how: str = ""
) -> str:
    """The verdict as a sentence.

    Args:
        kind: Its first word.
        worst: The largest difference that led to it.
        lengths: How many lengths a request has.
        paddable: Which of them may be padded.
        how: Masks and pad values, or what equal shapes do to each other.
    """
    several = bool(paddable)
    what = "batching and padding" if several else "batching"
    kept = [str(k) for k in range(lengths) if k not in paddable]
    rest = f"; of its {lengths} lengths, {' and '.join(kept)} must be equal" if kept else ""
    masks = how if several else ""
    size = "" if worst.absolute is None else _size(worst)
    match kind:
        case Kind.EXACT:
            said = f"{what} leave{'' if several else 's'} every answer as it is{masks}{rest}"
        case Kind.TOLERANT:
            said = f"{what} round{'' if several else 's'} answers off by {size}{masks}{rest}"
        case Kind.PAD_UNSAFE:
            moved = (
                f"padding moves answers by {size}" if size else "padded answers cannot be compared"
            )
            said = f"{moved}; only equal shapes share a run{how}"
        case Kind.BATCH_SENSITIVE:
            by = f"rows change each other by {size}" if size else "rows cannot be told apart"
            said = f"{by}; each request is a run of its own"
        case _:
            said = "each request is a run of its own"
    return f"{kind.value}: {said}"


def how_equal(together: Difference) -> str:
    """What rows of equal shapes do to each other, for a verdict on a model that is not padded."""
    return ", exactly" if together.is_exact else f", within {_size(together)}"


def how_padded(values: Values, names: Sequence[str]) -> str:
    """Masks and pad values, for the verdict.

    Args:
        values: As the probe filled inputs.
        names: Inputs that are padded.
    """
    masks = [
        name if values.masks[name] == 0 else f"{name} (1 where padded)"
        for name in names
        if name in values.masks
    ]
    pads = [
        f"{name} padded with {values.pad(name):g}"
        for name in names
        if name not in values.masks and values.pad(name) != 0
    ]
    if masks:
        pads.insert(0, f"mask {', '.join(masks)}")
    return f" ({'; '.join(pads)})" if pads else ""


def _size(worst: Difference) -> str:
    return f"{worst.absolute:.1e}, {worst.relative:.1e} of their magnitude"
