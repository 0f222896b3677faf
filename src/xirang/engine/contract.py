"""What a model promised to give, held against what it gave: garbage is said, not passed on."""

from collections.abc import Mapping, Sequence

from xirang.core.signature import Signature
from xirang.tensors.split import RowsMismatchError
from xirang.tensors.tensor import NUMPY_TYPES, Array


class WrongOutputError(ValueError):
    """An output is missing, or is of another datatype than was promised."""


class Contract:
    """The datatypes of a model's outputs; their rows and lengths are checked when they are cut."""

    def __init__(self, signature: Signature) -> None:
        """Keep what the signature says of outputs."""
        self._datatypes = {spec.name: spec.datatype for spec in signature.outputs}
        self._types = {name: NUMPY_TYPES[kind] for name, kind in self._datatypes.items()}

    def check(self, outputs: Mapping[str, Array], wanted: Sequence[str]) -> None:
        """One array an output.

        Raises:
            WrongOutputError: Which output is wrong, how, and what was expected.
        """
        for name in wanted:
            array = outputs.get(name)
            if array is None or array.dtype != self._types[name]:
                raise self._wrong(name, array)

    def check_lists(
        self, outputs: Mapping[str, Sequence[Array]], wanted: Sequence[str], count: int
    ) -> None:
        """One array a row.

        Args:
            outputs: Name to rows.
            wanted: Names that must be there.
            count: Rows that the model was given.

        Raises:
            WrongOutputError: As for `check`.
            RowsMismatchError: There are more or fewer rows.
        """
        for name in wanted:
            rows = outputs.get(name)
            if rows is None:
                raise self._wrong(name, None)
            if len(rows) != count:
                raise RowsMismatchError(
                    f"output '{name}' has {len(rows)} rows for {count}; expected {count}"
                )
            for row in rows:
                if row.dtype != self._types[name]:
                    raise self._wrong(name, row)

    def _wrong(self, name: str, array: Array | None) -> WrongOutputError:
        is_what = "is missing" if array is None else f"is {array.dtype} of shape {array.shape}"
        return WrongOutputError(f"output '{name}' {is_what}; expected {self._datatypes[name]}")
