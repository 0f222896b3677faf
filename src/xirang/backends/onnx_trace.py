"""From a profile of ONNX Runtime to lifetimes: which tensor lives from which node to which.

The graph says who makes a tensor and who needs it last; the allocator's counters say how much it
takes, whether it is a view of another, and how much more a node needs while it runs. Both are held
against each other: what the counters show and the graph does not explain is told.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xirang.backends.onnx_profile import Profile, Ran, profile
from xirang.core.memory.lifetime import Lifetimes
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array


@dataclass(frozen=True, slots=True)
class Trace:
    """One run.

    Attributes:
        names: Of each block: its tensor, or its node for what that needs while it runs.
        lifetimes: In nodes.
        peak_bytes: The most that was in use, as the arena counted it; None where an earlier run
            of the same profile had more.
        held_bytes: What the arena had from the system in the end, beyond what the weights took.
        unseen: Blocks that nodes may have needed while they ran, too small to show.
        unexplained_bytes: What nodes allocated beyond their outputs and did not free.
    """

    names: tuple[str, ...]
    lifetimes: Lifetimes
    peak_bytes: int | None
    held_bytes: int
    unseen: frozenset[int]
    unexplained_bytes: int


def trace(
    path: Path, feeds: Sequence[Mapping[str, Array]], *, is_default: bool = False
) -> list[Trace]:
    """The lifetimes of a model's tensors in a run of each feed; see `onnx_profile.profile`."""
    found = profile(path, feeds, is_default=is_default)
    graph = _graph(found)
    base = found.runs[0][0].used_bytes - _rounded(found.runs[0][0].requested_bytes)
    held = found.runs[0][0].held_bytes
    traces: list[Trace] = []
    # Loading the model has left a mark too, and no node of ours made it.
    highest = found.runs[0][0].peak_bytes
    for run in found.runs:
        nodes = graph.matched(run)
        traces.append(_Reading(graph, nodes).trace(base, held, highest))
        highest = run[-1].peak_bytes
    return traces


_ROUNDING = 256
"""The arena's blocks are multiples of it."""


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // _ROUNDING) * _ROUNDING


@dataclass(frozen=True, slots=True)
class _Node:
    """One node of the graph, and what the profile says of it."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ran: Ran


class _Graph:
    """Who makes what, and who needs it."""

    def __init__(self, model: Any) -> None:
        self.outputs = [output.name for output in model.graph.output]
        self._named = {node.name: node for node in model.graph.node if node.name}
        self._unnamed: dict[str, list[Any]] = defaultdict(list)
        for node in model.graph.node:
            if not node.name:
                self._unnamed[node.op_type].append(node)

    def matched(self, run: Sequence[Ran]) -> list[_Node]:
        """The nodes in the order in which they ran; those inside of others are theirs."""
        unnamed = {kind: iter(nodes) for kind, nodes in self._unnamed.items()}
        found = []
        for ran in run:
            node = self._named.get(ran.name) or next(unnamed.get(ran.kind, iter(())), None)
            if node is not None:
                inputs = [*node.input, *_captured(node)]
                outputs = tuple(name for name in node.output if name)
                found.append(_Node(tuple(inputs), outputs, ran))
        return found


def _captured(node: Any) -> list[str]:
    """What the graphs inside a node use of what lies around it, and more: names do no harm."""
    return [
        name
        for attribute in node.attribute
        for graph in (attribute.g, *attribute.graphs)
        for inner in graph.node
        for name in (*inner.input, *_captured(inner))
    ]


def _graph(found: Profile) -> _Graph:
    try:
        import onnx
    except ImportError:
        raise InvalidSetting("to read a model's graph needs onnx: pip install onnx") from None
    return _Graph(onnx.load_from_string(found.graph))


class _Reading:
    """Goes through one run, node by node."""

    def __init__(self, graph: _Graph, nodes: Sequence[_Node]) -> None:
        self._nodes = nodes
        self._last = {name: step for step, node in enumerate(nodes) for name in node.inputs}
        self._last |= dict.fromkeys(graph.outputs, len(nodes))
        self._block_of: dict[str, int | None] = {}
        self._names: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._sizes: list[int] = []
        self._unseen: list[int] = []
        self._unexplained = 0

    def trace(self, base: int, held: int, highest: int) -> Trace:
        """Everything, against what the arena held before the first run and its highest mark."""
        first_highest = highest
        for step, node in enumerate(self._nodes):
            self._step(step, node)
            # What a node needs while it runs shows only where it lifts the highest mark.
            is_seen = node.ran.peak_bytes > highest
            over = max(0, node.ran.peak_bytes - node.ran.used_bytes) if is_seen else 0
            block = self._block(f"{node.ran.kind} {node.ran.name}", over, step, step + 1)
            if not is_seen:
                self._unseen.append(block)
            highest = max(highest, node.ran.peak_bytes)
        last = self._nodes[-1].ran
        return Trace(
            tuple(self._names),
            Lifetimes(tuple(self._starts), tuple(self._ends), tuple(self._sizes)),
            last.peak_bytes - base if last.peak_bytes > first_highest else None,
            last.held_bytes - held,
            frozenset(self._unseen),
            self._unexplained,
        )

    def _step(self, step: int, node: _Node) -> None:
        sizes = node.ran.outputs_bytes
        if len(sizes) != len(node.outputs):  # strings and sequences have no size
            sizes = (node.ran.requested_bytes, *[0] * (len(node.outputs) - 1))
        missing = sum(sizes) - node.ran.requested_bytes
        for name, size in zip(node.outputs, sizes, strict=False):
            if size and missing >= size:
                # It took nothing: it is a view of what it was made from.
                missing -= size
                self._alias(name, node.inputs, step)
            else:
                end = self._last.get(name, step) + 1
                self._block_of[name] = self._block(name, size, step, end)
        self._unexplained += max(0, -missing)

    def _alias(self, name: str, inputs: Sequence[str], step: int) -> None:
        block = self._block_of.get(inputs[0]) if inputs else None
        self._block_of[name] = block
        if block is not None:
            self._ends[block] = max(self._ends[block], self._last.get(name, step) + 1)

    def _block(self, name: str, size_bytes: int, start: int, end: int) -> int:
        self._names.append(name)
        self._starts.append(start)
        self._ends.append(end)
        self._sizes.append(size_bytes)
        return len(self._names) - 1
