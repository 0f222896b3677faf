"""Load, probe and warm one model."""

import os
from dataclasses import dataclass

from xirang.backends.executable import Executable
from xirang.backends.onnx import OnnxExecutable
from xirang.backends.python import PythonExecutable, import_object
from xirang.config import ModelSettings
from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy
from xirang.core.signature import Signature
from xirang.engine.clock import Clock
from xirang.engine.model import Model
from xirang.engine.probe import Findings, probe
from xirang.repository.discover import Kind, Source
from xirang.text.pooling import PooledExecutable
from xirang.text.tokenizer import TextModel

RUN_TINY_NS = 1_000_000
"""Below this a full run takes less than two threads lose by waiting for the interpreter."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to serve.

    Attributes:
        model: For the engine.
        text: Its tokenizer, for a text model.
    """

    model: Model
    text: TextModel | None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load(source: Source, settings: ModelSettings, *, clock: Clock) -> Loaded:
    """Load a model, find out how it may be batched, and measure it.

    Raises:
        InvalidSetting: It cannot be loaded, and why.
    """
    executable, text = _executable(source, settings)
    length_max = settings.length_max or (text.length_max if text is not None else None)
    if source.kind is Kind.PYTHON:
        # A callable may have effects: it is never run on made-up inputs, only equal shapes share.
        findings = None
    else:
        findings = probe(
            executable, rows_max=settings.max_batch_size, length_max=length_max, clock=clock
        )
    cost = CostModel()
    if findings is not None and findings.samples:
        cost.fit(findings.samples)
    return Loaded(_model(source, settings, executable, findings, cost, length_max), text)


def _model(
    source: Source,
    settings: ModelSettings,
    executable: Executable,
    findings: Findings | None,
    cost: CostModel,
    length_max: int | None,
) -> Model:
    if findings is None:
        findings = _unprobed(executable)
    return Model(
        name=source.name,
        version=source.version,
        executable=executable,
        signature=findings.signature,
        policy=_policy(settings, findings, _instances(settings, executable, cost)),
        budget_ns=int(settings.budget_ms * 1e6),
        cost=cost,
        length_max=length_max,
        verdict=findings.verdict,
    )


def _executable(source: Source, settings: ModelSettings) -> tuple[Executable, TextModel | None]:
    if source.kind is Kind.PYTHON:
        return PythonExecutable(import_object(source.target), name=source.name), None
    assert source.path is not None
    executable: Executable = OnnxExecutable(source.path, threads=settings.threads)
    if source.kind is Kind.ONNX:
        return executable, None
    pooled = PooledExecutable(executable)
    text = TextModel(
        source.name,
        source.path.parent / "tokenizer.json",
        input_names=[spec.name for spec in pooled.inputs],
        dimension=pooled.dimension,
    )
    return pooled, text


def _instances(settings: ModelSettings, executable: Executable, cost: CostModel) -> int:
    """As many as asked for; else one a core, or one alone where a second could not help."""
    if not executable.is_reentrant:
        return 1  # a callable that was not written for threads is never run by two
    if settings.instances:
        return settings.instances
    full_ns = cost.predict_ns(rows=settings.max_batch_size, length=1)
    return 1 if not cost.is_cold and full_ns < RUN_TINY_NS else cores()


def _policy(settings: ModelSettings, findings: Findings, instances: int) -> Policy:
    return Policy(
        instances=instances,
        batching=Batching(settings.batching),
        max_batch_size=settings.max_batch_size if findings.can_batch else 1,
        elements_max=settings.max_batch_elements or findings.elements_max,
        window_ns_max=int(settings.window_ms * 1e6),
        efficiency=settings.efficiency,
        depth_max=settings.queue,
        can_pad=findings.can_pad,
    )


def _unprobed(executable: Executable) -> Findings:
    signature = Signature(
        inputs=executable.inputs,
        outputs=executable.outputs,
        is_batched=True,
    )
    verdict = "a list of inputs: only equal shapes share a run"
    return Findings(signature, verdict, can_batch=True)
