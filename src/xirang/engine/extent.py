"""How large a request is: its inputs held against the signature, and made to fit it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from xirang.core.batching.shaping import filled
from xirang.core.signature import Layout, Signature, TensorSpec
from xirang.errors import InvalidRequest
from xirang.tensors.tensor import NUMPY_TYPES, Tensor, cropped, of_array

EXTENTS_MAX = 4096
"""Clients send the same shapes again and again: what was found out about one is kept."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How large a request is, as the scheduler sees it, and as it is.

    Attributes:
        rows: Along the batch axis.
        length: What a row costs to pad to: the product of its lengths, each frozen size in full.
        group: What must be equal to share a run.
        lengths: Each of several lengths, frozen sizes in full; none where there is one or none.
        padded: The same, however many there are: what it is padded to when it runs alone.
        own: Its lengths as they are: what its outputs are cut to.
        missing: Masks that it left out.
        is_cropped: Whether it is longer than the model takes, and is to be cut.
        is_as_sent: Whether its inputs enter a run as they are.
    """

    rows: int
    length: int
    group: Hashable
    lengths: tuple[int, ...] = ()
    padded: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    is_cropped: bool = False
    is_as_sent: bool = True


@dataclass(frozen=True, slots=True)
class Shapes:
    """At which sizes a model may be run.

    Attributes:
        paddable: Which of its lengths rows may be padded along; the others must be equal.
        length_max: The greatest length; None if there is no such bound.
        lengths: The lengths it is frozen to, ascending; none if any will do.
        row_sizes: The numbers of rows it is frozen to, ascending; none if any will do.
        can_crop: Whether a request that is too long is cut instead of refused.
        is_ragged: Whether it takes lists, so that nothing needs to be equal or padded.
        rows_max: Most rows of a request whose rows change each other, since it cannot be cut into
            parts; None where it can.
        optional: Inputs that a request may leave out.
    """

    paddable: tuple[int, ...] = ()
    length_max: int | None = None
    lengths: tuple[int, ...] = ()
    row_sizes: tuple[int, ...] = ()
    can_crop: bool = False
    is_ragged: bool = False
    rows_max: int | None = None
    optional: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Sizes:
    """What the inputs of one request say, gathered input by input.

    Attributes:
        rows: How many, once an input has said so.
        lengths: Which length has which size.
        free: Sizes of the axes that may vary and follow no length, by symbol.
    """

    rows: int | None = None
    lengths: dict[int, int] = field(default_factory=dict)
    free: dict[Hashable, int] = field(default_factory=dict)


class Gauge:
    """Measures the requests of one model; what is wrong with one it says in words."""

    def __init__(self, model: str, signature: Signature, shapes: Shapes) -> None:
        """Measure for a model.

        Args:
            model: Its name.
            signature: What it takes.
            shapes: At which sizes it runs.

        Its `sizes` are, for each length, those that it may be padded to; none if any will do.
        """
        self._model = model
        self._signature = signature
        self._shapes = shapes
        layouts = [(spec, signature.input_layout(spec.name)) for spec in signature.inputs]
        self._masks = [spec.name for spec, layout in layouts if layout.is_mask]
        self._shared = [
            spec.name
            for spec, layout in layouts
            if signature.is_batched and layout.batch_axis is None
        ]
        self.sizes = [self._sizes_of(length, layouts) for length in range(signature.lengths)]
        self._extents: dict[Hashable, Extent] = {}

    def __call__(self, inputs: Mapping[str, Tensor]) -> Extent:
        """See `Model.admit`."""
        # From a list, which is quicker than from a generator: this is done for every request.
        key = tuple(
            [
                (name, tensor.datatype, tensor.shape, len(tensor.data))
                for name, tensor in inputs.items()
            ]
        )
        extent = self._extents.get(key)
        if extent is None:
            extent = self._examine(inputs)
            if len(self._extents) >= EXTENTS_MAX:
                self._extents.clear()
            self._extents[key] = extent
        if self._shared:
            values = tuple([_value(inputs[name]) for name in self._shared])
            return replace(extent, group=(extent.group, values))
        return extent

    def _sizes_of(
        self, length: int, layouts: Sequence[tuple[TensorSpec, Layout]]
    ) -> tuple[int, ...]:
        """The sizes that a length may be padded to: an axis that is baked in leaves one."""
        for spec, layout in layouts:
            for tie in layout.ties:
                size = spec.dims[tie.axis]
                if tie.length == length and isinstance(size, int):
                    return (size,)
        return self._shapes.lengths

    def _examine(self, inputs: Mapping[str, Tensor]) -> Extent:
        specs = self._signature.inputs
        absent = [spec.name for spec in specs if spec.name not in inputs]
        missing = [name for name in absent if name not in self._shapes.optional]
        if len(inputs) + len(absent) != len(specs) or any(n not in self._masks for n in missing):
            raise InvalidRequest(self._wrong_names(inputs))
        sizes = _Sizes()
        for spec in specs:
            if spec.name in inputs:
                self._note(spec, inputs[spec.name], sizes)
        if len(sizes.lengths) < self._signature.lengths:
            raise InvalidRequest(self._wrong_names(inputs))  # only the mask could have said it
        rows_max = self._shapes.rows_max
        if rows_max is not None and (sizes.rows or 1) > rows_max:
            raise InvalidRequest(
                f"a request of {sizes.rows} rows is too large for model '{self._model}', whose "
                f"requests cannot be cut; expected at most {rows_max}"
            )
        return self._extent(inputs, sizes, tuple(missing))

    def _note(self, spec: TensorSpec, tensor: Tensor, sizes: _Sizes) -> None:
        """Hold one input against its spec and against the inputs before it."""
        layout = self._signature.input_layout(spec.name)
        batch_axis = layout.batch_axis if self._signature.is_batched else None
        ties = {tie.axis: tie for tie in layout.ties}
        if not _fits(spec, tensor, free={*ties, batch_axis}):
            raise InvalidRequest(self._wrong_tensor(spec, tensor, free={*ties, batch_axis}))
        for axis, size in enumerate(tensor.shape):
            if axis == batch_axis:
                self._note_rows(spec, axis, size, sizes)
            elif axis in ties:
                tie = ties[axis]
                length = size * tie.stride - tie.offset
                self._same(spec, axis, size, sizes.lengths.setdefault(tie.length, length))
            elif not isinstance(spec.dims[axis], int):
                symbol = spec.dims[axis] or (spec.name, axis)
                self._same(spec, axis, size, sizes.free.setdefault(symbol, size))

    def _note_rows(self, spec: TensorSpec, axis: int, size: int, sizes: _Sizes) -> None:
        if sizes.rows not in {None, size}:
            where = "first dimension" if axis == 0 else f"number of rows (here along axis {axis})"
            raise InvalidRequest(
                f"input '{spec.name}' of model '{self._model}' has {size} rows, "
                f"another has {sizes.rows}; expected the same {where} for all inputs"
            )
        sizes.rows = size

    def _same(self, spec: TensorSpec, axis: int, size: int, known: int) -> None:
        if size != known:
            raise InvalidRequest(
                f"input '{spec.name}' of model '{self._model}' has {size} along axis "
                f"{axis}, another input has {known}; expected the same for all inputs"
            )

    def _extent(
        self, inputs: Mapping[str, Tensor], sizes: _Sizes, missing: tuple[str, ...]
    ) -> Extent:
        asked = tuple(sizes.lengths[length] for length in range(len(sizes.lengths)))
        own, padded, equal = [], [], []
        for length, size in enumerate(asked):
            own_size, padded_size = self._fitted(length, size)
            own.append(own_size)
            padded.append(padded_size)
            if length not in self._shapes.paddable:
                equal.append(padded_size)
        equal += sizes.free.values()
        group: Hashable = tuple(equal) if equal and not self._shapes.is_ragged else None
        if self._shapes.optional:
            group = (group, tuple(sorted(inputs)))
        if not self._signature.is_batched:
            group = tuple(tensor.shape for tensor in inputs.values())
        return Extent(
            rows=sizes.rows or 1,
            # What varies, as one number for the cost model.
            length=prod(padded) if padded else prod(sizes.free.values()),
            group=group,
            lengths=tuple(padded) if len(padded) > 1 else (),
            padded=tuple(padded),
            own=tuple(own),
            missing=missing,
            is_cropped=tuple(own) != asked,
            is_as_sent=tuple(own) == asked and not missing,
        )

    def _fitted(self, length: int, size: int) -> tuple[int, int]:
        """A length as it is used, and the one it is padded to alone."""
        shapes, sizes = self._shapes, self.sizes[length]
        longest = min(
            sizes[-1] if sizes else size, size if shapes.length_max is None else shapes.length_max
        )
        if size > longest:
            if not shapes.can_crop:
                raise InvalidRequest(
                    f"a row of {size} is too long for model '{self._model}'; "
                    f"expected at most {longest}"
                )
            size = longest
        if length in shapes.paddable or not sizes:
            return size, filled(size, sizes)
        if size not in sizes:
            shorter = [known for known in sizes if known < size]
            if not shapes.can_crop or not shorter:
                raise InvalidRequest(
                    f"a row of {size} does not fit model '{self._model}', which may not be padded; "
                    f"expected one of {list(sizes)}"
                )
            size = shorter[-1]
        return size, size

    def _wrong_names(self, inputs: Mapping[str, Tensor]) -> str:
        names = self._signature.input_names
        absent = [name for name in names if name not in inputs]
        may_lack = {*self._masks, *self._shapes.optional}
        missing = [name for name in absent if name not in may_lack]
        unknown = [name for name in inputs if name not in names]
        wrong = f"has unknown inputs {unknown}"
        if missing or not unknown:
            wrong = f"is missing inputs {missing or absent}"
        return f"request for model '{self._model}' {wrong}; expected exactly {list(names)}"

    def _wrong_tensor(self, spec: TensorSpec, tensor: Tensor, *, free: set[int | None]) -> str:
        subject = f"input '{spec.name}' of model '{self._model}'"
        if tensor.datatype != spec.datatype:
            return f"{subject} has datatype {tensor.datatype}; expected {spec.datatype}"
        if not _shape_fits(spec, tensor.shape, free):
            expected = [-1 if axis in free else size for axis, size in enumerate(spec.shape)]
            return f"{subject} has shape {list(tensor.shape)}; expected {expected}, none of them 0"
        return (
            f"{subject} has {len(tensor.data)} bytes or elements of data for shape "
            f"{list(tensor.shape)} of {spec.datatype}"
        )


def prepared(
    inputs: Mapping[str, Tensor], extent: Extent, signature: Signature
) -> Mapping[str, Tensor]:
    """A request's inputs as they enter a run: too long ones cut, left out masks made."""
    if extent.is_as_sent:
        return inputs
    made: dict[str, Tensor] = {}
    for spec in signature.inputs:
        layout = signature.input_layout(spec.name)
        if spec.name in extent.missing:
            shape = shape_of(spec, layout, rows=extent.rows, lengths=extent.own)
            array = np.full(shape, layout.real_value, NUMPY_TYPES[spec.datatype])
            made[spec.name] = of_array(array)
        else:
            sizes = list(inputs[spec.name].shape)
            for tie in layout.ties:
                sizes[tie.axis] = tie.size(extent.own[tie.length])
            made[spec.name] = cropped(inputs[spec.name], tuple(sizes))
    return made


def shape_of(
    spec: TensorSpec, layout: Layout, *, rows: int, lengths: Sequence[int]
) -> tuple[int, ...]:
    """The shape of an input with so many rows of such lengths; 1 for whatever else may vary."""
    shape = [dim if isinstance(dim, int) else 1 for dim in spec.dims]
    for tie in layout.ties:
        shape[tie.axis] = tie.size(lengths[tie.length])
    if layout.batch_axis is not None and layout.batch_axis < len(shape):
        shape[layout.batch_axis] = rows
    return tuple(shape)


def _value(tensor: Tensor) -> Hashable:
    data = tensor.data
    return tuple(data) if isinstance(data, list) else bytes(data)


def _fits(spec: TensorSpec, tensor: Tensor, *, free: set[int | None]) -> bool:
    if tensor.datatype != spec.datatype or not _shape_fits(spec, tensor.shape, free):
        return False
    count = prod(tensor.shape)
    if spec.datatype != "BYTES":
        count *= NUMPY_TYPES[spec.datatype].itemsize
    return len(tensor.data) == count


def _shape_fits(spec: TensorSpec, shape: Sequence[int], free: set[int | None]) -> bool:
    if len(shape) != len(spec.dims):
        return False
    for axis, (size, dim) in enumerate(zip(shape, spec.dims, strict=True)):
        if size < 1 or (isinstance(dim, int) and size != dim and axis not in free):
            return False
    return True
