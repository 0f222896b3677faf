"""Tiny PyTorch models, and archives of them: every number known, nothing to download."""

import json
import warnings

import torch
from torch import nn

SIGNATURE = "_xirang_signature"


class Lookup(nn.Module):
    """ids int64 [batch, tokens], scale float32 [batch, 1] → a scaled vector a token, their sum."""

    inputs = {"ids": ("INT64", ["tokens"]), "scale": ("FP32", [1])}  # noqa: RUF012
    outputs = {"hidden": ("FP32", ["tokens", 4]), "total": ("FP32", [4])}  # noqa: RUF012
    is_reentrant = True

    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", torch.from_numpy(table))

    def forward(self, ids, scale):
        hidden = nn.functional.embedding(ids, self.table) * scale.unsqueeze(-1)
        return {"hidden": hidden, "total": hidden.sum(dim=1)}


class Same(nn.Module):
    """Its output is its input, the very same memory."""

    def forward(self, x):
        return x


class Root(nn.Module):
    """x float32 [batch, 2, 2] → its Cholesky factor: raises unless each is positive definite."""

    inputs = {"x": ("FP32", [2, 2])}  # noqa: RUF012
    outputs = {"y": ("FP32", [2, 2])}  # noqa: RUF012

    def forward(self, x):
        return {"y": torch.linalg.cholesky(x)}


class Counter(nn.Module):
    """Adds how often it was called: it keeps something from call to call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


class Large(nn.Module):
    """n int64 [batch, 1] → as many zeros as the largest n says, one row each."""

    inputs = {"n": ("INT64", [1])}  # noqa: RUF012
    outputs = {"zeros": ("FP32", [-1])}  # noqa: RUF012

    def forward(self, n):
        return torch.zeros(1, 1).expand(n.shape[0], 1).repeat_interleave(n.max(), dim=1)


def save_exported(path, module, example, *, axes=(0,), most=64, says=None):
    """A .pt2 with dynamic axes: the first is the rows, the second (if any) the tokens."""
    names = [torch.export.Dim("batch", min=1, max=most), torch.export.Dim("tokens", min=1, max=99)]
    shapes = {
        name: {axis: names[axis] for axis in axes if tensor.shape[axis] > 1}
        for name, tensor in example.items()
    }
    program = torch.export.export(
        module.eval(), tuple(example.values()), dynamic_shapes=tuple(shapes.values())
    )
    torch.export.save(program, path, extra_files=_extra(says))
    return path


def save_script(path, module, example, *, says=None):
    """A .pt by tracing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        # What keeps something from call to call would be found to differ from itself.
        traced = torch.jit.trace(
            module.eval(), tuple(example.values()), strict=False, check_trace=False
        )
        torch.jit.save(traced, path, _extra_files=_extra(says))
    return path


def _extra(says):
    return {} if says is None else {SIGNATURE: says if isinstance(says, str) else json.dumps(says)}


def signature_of(module):
    return {"inputs": module.inputs, "outputs": module.outputs}


class PackedSums(nn.Module):
    """ids int64 [all tokens], cu_seqlens → their doubles, and the sum of each sequence."""

    inputs = {"ids": ("INT64", ["tokens"])}  # noqa: RUF012
    outputs = {"doubles": ("INT64", ["tokens"]), "sum": ("INT64", [])}  # noqa: RUF012

    def forward(self, ids, cu_seqlens):
        until = nn.functional.pad(ids.cumsum(0), (1, 0))
        return {"doubles": ids * 2, "sum": until[cu_seqlens].diff()}
