"""Programs of PyTorch: exported archives, TorchScript archives, and modules of the user's own.

An archive is opened without unpickling anything by Python. What it says of itself beyond its code
stands in an extra file `_xirang_signature`, as JSON of a `Declaration`.
"""

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from xirang.backends.declaration import declared_specs
from xirang.backends.torch_archive import without_pickles
from xirang.backends.torch_graph import is_pure_graph, is_pure_script
from xirang.backends.torch_place import numpy_type
from xirang.backends.torch_script import write_over
from xirang.backends.torch_study import Feed, exported_module
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import DATATYPES

SIGNATURE_FILE = "_xirang_signature"


@dataclass(frozen=True, slots=True)
class Program:
    """Something of PyTorch's that can be called with tensors by name.

    Attributes:
        platform: As clients know it.
        call: Takes tensors by name; gives a tensor, a tuple or a dict.
        inputs: What it takes.
        outputs: What it gives, in the order of a tuple.
        is_reentrant: Whether several threads may call it at once.
        is_packed: Whether it takes sequences end to end, with their offsets.
        bounds: Symbol of a dim to its smallest and its largest size (None: no bound).
        order: Names of the inputs as the exported program takes them.
        export: Takes a tiny run, its inputs in this order, and gives a program of `torch.export`,
            or raises `Unplannable`. None where there is no way to one.
        slimmer: Gives another such call, that may take less memory; None where there is none.
    """

    platform: str
    call: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_reentrant: bool = True
    is_packed: bool = False
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    order: Sequence[str] = ()
    export: Callable[[Feed], Any] | None = None
    slimmer: Callable[[], Any] | None = None


def open_exported(path: Path, *, device: str) -> Program:
    """An archive of `torch.export.save`.

    Raises:
        InvalidSetting: It is none, holds a pickle, or takes or gives something nested.
    """
    import torch
    from torch.export.passes import move_to_device_pass

    extra = {SIGNATURE_FILE: ""}
    archive = without_pickles(path)
    try:
        exported = torch.export.load(archive, extra_files=extra)
        exported = exported if device == "cpu" else move_to_device_pass(exported, device)
        module = exported.module()
    except Exception as error:  # whatever a broken archive provokes
        raise InvalidSetting(f"{path} is not a program that PyTorch loads: {error}") from error
    nodes = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    positional, named = exported.call_spec.in_spec.children()
    names = [*exported.graph_signature.user_inputs]
    if not all(part.is_leaf() for part in positional.children() + named.children()):
        raise InvalidSetting(f"{path} takes nested inputs; expected one tensor for each name")
    declared = _declaration(extra[SIGNATURE_FILE], path)
    first, rest = names[: positional.num_leaves], names[positional.num_leaves :]

    def call(tensors: dict[str, Any]) -> Any:
        return module(*[tensors[n] for n in first], **{n: tensors[n] for n in rest})

    values = [nodes.get(name) for name in exported.graph_signature.user_outputs]
    inputs = declared.get("inputs") or [(name, nodes.get(name)) for name in names]
    outputs = declared.get("outputs") or list(
        zip(_output_names(exported.call_spec.out_spec, path), values, strict=True)
    )
    return Program(
        platform="pytorch_export",
        call=call,
        inputs=_specs(inputs, f"inputs of {path}"),
        outputs=_specs(outputs, f"outputs of {path}"),
        is_reentrant=is_pure_graph(exported.graph),
        is_packed=bool(declared.get("is_packed")),
        bounds=_bounds(exported.range_constraints),
        order=names,
        export=lambda _: exported,
    )


def open_script(path: Path, *, device: str) -> Program:
    """An archive of `torch.jit.save`.

    Raises:
        InvalidSetting: It is none, or does not say what it takes and gives.
    """
    import torch

    _refuse_what_is_no_script(path)
    extra = {SIGNATURE_FILE: ""}
    try:
        with _deprecated():
            module = torch.jit.load(str(path), map_location=device, _extra_files=extra).eval()
    except Exception as error:  # whatever a broken archive provokes
        raise InvalidSetting(f"{path} is not TorchScript that PyTorch loads: {error}") from error

    def call(tensors: dict[str, Any]) -> Any:
        return module(**tensors)

    def slimmer() -> Any:
        with _deprecated():
            again: Any = torch.jit.load(str(path), map_location=device).eval()
        write_over(again)
        return lambda tensors: again(**tensors)

    declared = _declaration(extra[SIGNATURE_FILE], path)
    if not declared:
        declared = _by_example(call, _traced_example(path, device), str(path))
    return Program(
        platform="pytorch_libtorch",
        call=call,
        inputs=_specs(declared.get("inputs"), f"inputs of {path}"),
        outputs=_specs(declared.get("outputs"), f"outputs of {path}"),
        is_reentrant=is_pure_script(module.inlined_graph),
        is_packed=bool(declared.get("is_packed")),
        slimmer=slimmer,
    )


def open_module(model: Any, *, name: str, device: str) -> Program:
    """A module, a function over tensors, or something that makes one when called with nothing.

    Raises:
        InvalidSetting: It does not say what it takes and gives.
    """
    import torch

    if not isinstance(model, torch.nn.Module) and not _says_what_it_takes(model):
        model = model()
    if isinstance(model, torch.nn.Module):
        model = model.to(device).eval()

    def call(tensors: dict[str, Any]) -> Any:
        return model(**tensors)

    declared: Mapping[str, Any] = {
        "inputs": getattr(model, "inputs", None),
        "outputs": getattr(model, "outputs", None),
    }
    example = getattr(model, "example_inputs", None)
    if declared["inputs"] is None and example is not None:
        if not isinstance(example, Mapping):
            names = inspect.signature(getattr(model, "forward", model)).parameters
            example = dict(zip(names, example, strict=False))
        example = {key: tensor.to(device) for key, tensor in example.items()}
        declared = _by_example(call, example, name)
    inputs = _specs(declared["inputs"], f"inputs of {name}")
    free = {
        spec.name: {axis for axis, dim in enumerate(spec.dims) if not isinstance(dim, int)}
        for spec in inputs
    }
    return Program(
        platform="pytorch_module",
        call=call,
        inputs=inputs,
        outputs=_specs(declared["outputs"], f"outputs of {name}"),
        is_reentrant=bool(getattr(model, "is_reentrant", False)),
        is_packed=bool(getattr(model, "is_packed", False)),
        order=[spec.name for spec in inputs],
        export=lambda feed: exported_module(model, feed, free, device=device),
    )


def named_outputs(result: Any, names: Sequence[str]) -> dict[str, Any]:
    """What a call gave, by name: a dict as it is, a tuple in order, a tensor alone."""
    if isinstance(result, Mapping):
        return dict(result)
    return dict(zip(names, result if isinstance(result, tuple | list) else (result,), strict=True))


def _says_what_it_takes(model: Any) -> bool:
    return hasattr(model, "inputs") or hasattr(model, "example_inputs")


def _refuse_what_is_no_script(path: Path) -> None:
    try:
        with ZipFile(path) as archive:
            is_script = any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (BadZipFile, OSError):
        is_script = False
    if not is_script:
        raise InvalidSetting(
            f"{path} is not TorchScript; a pickled module or state is never loaded, for it could "
            "run anything: expected a file of torch.jit.save, or a .pt2 of torch.export.save"
        )


@contextmanager
def _deprecated() -> Iterator[None]:
    """PyTorch tells everyone who loads TorchScript that export is to be preferred."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _declaration(text: str | bytes, path: Path) -> dict[str, Any]:
    if not text:
        return {}
    try:
        declared = json.loads(text)
    except ValueError as error:
        raise InvalidSetting(f"{SIGNATURE_FILE} in {path} is not JSON: {error}") from error
    if not isinstance(declared, dict):
        raise InvalidSetting(f"{SIGNATURE_FILE} in {path} is {declared!r}; expected an object")
    return declared


def _traced_example(path: Path, device: str) -> dict[str, Any]:
    """Zeros of the shapes that a traced archive remembers; nothing for a scripted one."""
    import torch

    with _deprecated():
        module: Any = torch.jit.load(str(path), map_location=device, _restore_shapes=True)
    names = [argument.name for argument in module.forward.schema.arguments[1:]]
    types = [value.type() for value in module.graph.inputs()][1:]
    if any(not hasattr(kind, "sizes") or kind.sizes() is None for kind in types):
        raise InvalidSetting(
            f"{path} does not say what it takes; expected an extra file {SIGNATURE_FILE}"
        )
    return {
        name: torch.zeros(kind.sizes(), dtype=kind.dtype(), device=device)
        for name, kind in zip(names, types, strict=True)
    }


def _by_example(call: Any, example: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Tensors in place of dims, by running the example once."""
    import torch

    try:
        with torch.inference_mode():
            result = call(dict(example))
    except Exception as error:
        raise InvalidSetting(f"{what} refuses its own example: {error}") from error
    count = len(result) if isinstance(result, tuple | list) else 1
    outputs = named_outputs(result, _numbered(count))
    return {"inputs": list(example.items()), "outputs": list(outputs.items())}


def _specs(given: Any, what: str) -> tuple[TensorSpec, ...]:
    """From a declaration, or from pairs of a name and a tensor, whose first axis is the batch."""
    if not isinstance(given, list):
        return declared_specs(given, what)
    return tuple(_spec_of_tensor(name, tensor, what) for name, tensor in given)


def _spec_of_tensor(name: str, tensor: Any, what: str) -> TensorSpec:
    import torch

    dtype = numpy_type(tensor.dtype) if isinstance(tensor, torch.Tensor) else None
    datatype = DATATYPES.get(dtype) if dtype is not None else None
    if datatype is None:
        raise InvalidSetting(
            f"'{name}' of {what} is {getattr(tensor, 'dtype', tensor)!r}; "
            f"expected a tensor of one of {', '.join(DATATYPES.values())}"
        )
    sizes = [size if isinstance(size, int) else str(size) for size in tensor.shape]
    if sizes and not _is_symbolic(tensor):
        sizes[0] = "batch"
    return TensorSpec(name, datatype, tuple(sizes))


def _is_symbolic(tensor: Any) -> bool:
    from torch._subclasses import FakeTensor

    return isinstance(tensor, FakeTensor)


def _output_names(spec: Any, path: Path) -> list[str]:
    if spec.is_leaf():
        return ["output"]
    if not all(part.is_leaf() for part in spec.children()):
        raise InvalidSetting(f"{path} gives nested outputs; expected a tensor, a tuple or a dict")
    if issubclass(spec.type, dict):
        return [str(key) for key in spec.context]
    return _numbered(spec.num_leaves)


def _numbered(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output_{index}" for index in range(count)]


def _bounds(constraints: Mapping[Any, Any]) -> dict[str, tuple[int, int | None]]:
    return {
        str(symbol): (int(span.lower), int(span.upper) if span.upper.is_Integer else None)
        for symbol, span in constraints.items()
    }
