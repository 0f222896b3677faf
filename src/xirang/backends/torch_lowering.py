"""How an operation of PyTorch writes its result into memory that is there already.

Of the variants with `out=` a fifth only pretend: they are made by a generator, compute as always
and copy. Those are avoided. Layer norms and attention have none at all, but take rows one by one:
they run on slices, and what is copied is still in the cache. All else makes its result where it
likes.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, Protocol

from xirang.backends.torch_trace import Value

SLICE = "slice_bytes"
"""In the code, the size of the slices in which rows are made that have to be copied."""


class Writer(Protocol):
    """What a way of writing needs to say its code."""

    def said(self, argument: Any) -> str:
        """An argument as code."""
        ...

    def named(self, constant: Any) -> str:
        """A constant as code."""
        ...

    def viewed(self, expression: str, name: str) -> str:
        """A view of the value or memory with this name; made beforehand where that can be."""
        ...


class Into(Protocol):
    """A way to write a result into memory."""

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """The line that does."""
        ...


class OutVariant:
    """The operation's own variant with `out=`."""

    def __init__(self, function: Any, out: str, names: frozenset[str]) -> None:
        self._function = function
        self._out = out
        self._names = names

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        given = [writer.said(each) for each in node.args]
        given += [f"{n}={writer.said(v)}" for n, v in node.kwargs.items() if n in self._names]
        return f"{writer.named(self._function)}({', '.join(given)}, {self._out}={out})"


class Linear:
    """A matrix product over rows that lie one after another, as PyTorch itself makes it."""

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        import torch

        x, weight, *rest = node.args
        width = writer.said(node.meta["val"].shape[-1])
        inner = writer.said(x.meta["val"].shape[-1])
        rows = writer.viewed(f"{writer.said(x)}.view(-1, {inner})", writer.said(x))
        turned = writer.viewed(f"{writer.said(weight)}.t()", writer.said(weight))
        into = writer.viewed(f"{out}.view(-1, {width})", out)
        bias = rest[0] if rest else node.kwargs.get("bias")
        if bias is None:
            return f"{writer.named(torch.mm)}({rows}, {turned}, out={into})"
        given = f"{writer.said(bias)}, {rows}, {turned}"
        return f"{writer.named(torch.addmm)}({given}, out={into})"


class Embedding:
    """Rows of a table."""

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        import torch

        table, which = writer.said(node.args[0]), writer.said(node.args[1])
        width = writer.said(node.meta["val"].shape[-1])
        flat = writer.viewed(f"{which}.view(-1)", which)
        into = writer.viewed(f"{out}.view(-1, {width})", out)
        return f"{writer.named(torch.index_select)}({table}, 0, {flat}, out={into})"


class Copy:
    """The same elements in another type, order or shape."""

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        shape = writer.said(list(node.args[0].meta["val"].shape))
        into = writer.viewed(f"{out}.view({shape})", out)
        return f"{into}.copy_({writer.said(node.args[0])})"


class Positive:
    """What is above zero: PyTorch makes `relu` so too."""

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        import torch

        return f"{writer.named(torch.clamp_min)}({writer.said(node.args[0])}, 0, out={out})"


_MOMENTS_BYTES = 8
"""A row's mean and deviation, which are made outside as well."""


class Normalized:
    """Rows, each by itself, in slices that are copied while they are in the cache."""

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        import torch

        x, shape, *rest = node.args
        given = dict(zip(("weight", "bias", "eps"), rest, strict=False)) | node.kwargs
        row = [-1, *shape]
        size_bytes = prod(shape) * node.meta["val"].dtype.itemsize + _MOMENTS_BYTES
        step = writer.viewed(f"max(1, {SLICE} // {size_bytes})", SLICE)
        each = f".view({writer.said(row)}).split({step})"
        ins = writer.viewed(f"{writer.said(x)}{each}", writer.said(x))
        outs = writer.viewed(f"{out}{each}", out)
        options = [f"normalized_shape={writer.said(shape)}"]
        options += [f"{n}={writer.said(given[n])}" for n in ("weight", "bias", "eps") if n in given]
        function = writer.named(torch.layer_norm)
        return f"{writer.named(in_slices)}({function}, {outs}, ({ins},), {', '.join(options)})"


class Attention:
    """Attention, a few rows of the batch at a time."""

    def __init__(self, *, is_mask_sliced: bool) -> None:
        self._is_mask_sliced = is_mask_sliced

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        import torch

        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
        tensor = node.meta["val"]
        # Beside each head's result at a position it makes one number.
        row = f"{_row_bytes(writer, tensor)} + {_row_bytes(writer, tensor[..., 0])}"
        step = writer.viewed(f"max(1, {SLICE} // max(1, {row}))", SLICE)
        sliced = [writer.said(given.pop(name)) for name in names[:3]]
        if self._is_mask_sliced:
            sliced.append(writer.said(given.pop("attn_mask")))
        ins = [writer.viewed(f"{name}.split({step})", name) for name in sliced]
        outs = writer.viewed(f"{out}.split({step})", out)
        options = "".join([f", {name}={writer.said(each)}" for name, each in given.items()])
        function = writer.named(torch._C._nn.scaled_dot_product_attention)
        return f"{writer.named(in_slices)}({function}, {outs}, ({', '.join(ins)},){options})"


class Product:
    """Products of many matrices, a few rows of the batch at a time.

    PyTorch first copies matrices that do not lie one after another.
    """

    def code(self, writer: Writer, node: Any, out: str) -> str:
        """See `Into.code`."""
        import torch

        tensors = [node.meta["val"], *(each.meta["val"] for each in node.args[:2])]
        row = " + ".join(_row_bytes(writer, tensor) for tensor in tensors)
        step = writer.viewed(f"max(1, {SLICE} // max(1, {row}))", SLICE)
        names = [out, *(writer.said(each) for each in node.args[:2])]
        parts = [writer.viewed(f"{name}.split({step})", name) for name in names]
        return f"{writer.named(products)}({writer.named(torch.matmul)}, {', '.join(parts)})"


def _row_bytes(writer: Writer, tensor: Any) -> str:
    sizes = [writer.said(size) for size in [*tensor.shape[1:], tensor.dtype.itemsize]]
    return " * ".join(f"({size})" for size in sizes)


def products(function: Any, outs: Sequence[Any], ins: Sequence[Any], others: Sequence[Any]) -> None:
    """Multiply some slices."""
    for out, one, other in zip(outs, ins, others, strict=True):
        function(one, other, out=out)


def in_slices(
    function: Any, outs: Sequence[Any], ins: Sequence[Sequence[Any]], **options: Any
) -> None:
    """Run a function on some slices, and copy what it gives."""
    for out, *given in zip(outs, *ins, strict=True):
        out.copy_(function(*given, **options))


_COPIES = {"clone", "contiguous", "_to_copy", "to", "reshape", "flatten", "type_as", "float"}
_COMPOSED = {"matmul.out", "softmax.int_out"}
"""Made of others, with `out=` handed on to them."""

_DROPPED = {"dtype", "layout", "device", "pin_memory"}
"""What memory that is there already decides."""

_SAFE_IN_PLACE = {"softmax", "_softmax", "layer_norm"}
"""Not element by element, and yet each row is read before it is written."""


def into_of(value: Value, values: Mapping[Any, Value]) -> Into | None:
    """The way to write one value; None if there is no true one.

    Args:
        value: A new one.
        values: Of all nodes.
    """
    node = value.node
    if not value.is_as_told or not hasattr(node.target, "_schema"):
        return None
    name = node.target.overloadpacket.__name__
    tensors = [values[each].tensor if hasattr(each, "op") else None for each in node.args]
    if name == "scaled_dot_product_attention":
        return _attention(node, tensors)
    if name in {"linear", "embedding", "layer_norm", *_COPIES}:
        return _in_rows(name, value.tensor, tensors)
    if name == "matmul" and _are_many(tensors):
        return Product()
    return Positive() if name == "relu" else _out_variant(node.target, value.tensor.device.type)


def slices(into: Into) -> bool:
    """Whether it works in slices, each of which is made outside first."""
    return isinstance(into, Normalized | Attention | Product)


def _are_many(tensors: Sequence[Any]) -> bool:
    one, other = tensors
    return bool(one.dim() == other.dim() > 2 and len(one) == len(other))


def _attention(node: Any, tensors: Sequence[Any]) -> Into | None:
    query, _, _, *rest = tensors
    mask = node.kwargs.get("attn_mask")
    dropout = node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0)
    if dropout or mask is not None:  # a mask comes in its place
        return None
    mask = rest[0] if rest else None
    is_mask_sliced = mask is not None and mask.dim() == query.dim() and len(mask) == len(query)
    return Attention(is_mask_sliced=is_mask_sliced)


def _in_rows(name: str, result: Any, tensors: Sequence[Any]) -> Into | None:
    """For operations that take what lies one after another."""
    if not result.is_contiguous():
        return None
    if name in _COPIES:
        return Copy() if tensors[0] is not None else None
    rows = tensors[1] if name == "embedding" else tensors[0]
    if not rows.is_contiguous():
        return None
    if name == "linear":
        return Linear() if result.dim() > 1 else None
    return Embedding() if name == "embedding" else Normalized()


def may_replace(node: Any) -> bool:
    """Whether the result may be written over an argument of the same shape."""
    import torch

    target = node.target
    name = target.overloadpacket.__name__ if hasattr(target, "overloadpacket") else ""
    return name in _SAFE_IN_PLACE or torch.Tag.pointwise in getattr(target, "tags", ())


@cache
def _out_variant(target: Any, device: str) -> OutVariant | None:
    packet = target.overloadpacket
    wanted = [(a.name, str(a.type)) for a in target._schema.arguments]
    short = [each for each in wanted if each[0] not in _DROPPED]
    for overload in packet.overloads():
        other = getattr(packet, overload)
        outs = [a.name for a in other._schema.arguments if a.is_out]
        given = [(a.name, str(a.type)) for a in other._schema.arguments if not a.is_out]
        is_alike = len(outs) == len(other._schema.returns) == 1 and given in (wanted, short)
        if is_alike and _is_true(other._schema.name, overload, device):
            return OutVariant(_plain(packet, other), outs[0], frozenset(n for n, _ in given))
    return None


def _is_true(name: str, overload: str, device: str) -> bool:
    """Whether it has a kernel of its own there: those that a generator made have none."""
    import torch

    if f"{name.removeprefix('aten::')}.{overload}" in _COMPOSED:
        return True
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(f"{name}.{overload}", device.upper())
    )


def _plain(packet: Any, overload: Any) -> Any:
    """PyTorch's own function of that name, which costs half of the operation itself."""
    import torch

    name = packet.__name__
    found = getattr(torch, name, None) or getattr(torch._C._nn, name, None)
    return found if type(found).__name__ == "builtin_function_or_method" else overload
