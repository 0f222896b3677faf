"""Load, probe and warm one model."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xirang.backends.executable import Executable, takes_lists
from xirang.backends.isolated.executable import IsolatedExecutable
from xirang.backends.python import PythonExecutable, import_object
from xirang.backends.requests import takes_requests
from xirang.backends.torch import torch_file, torch_module
from xirang.config import ModelSettings
from xirang.core.cost import CostModel
from xirang.core.rules import BatcherRules
from xirang.core.signature import Signature
from xirang.engine.clock import Clock
from xirang.engine.model import Model
from xirang.engine.probe import Findings, Kind as Verdict
from xirang.engine.warmup import timed, warm_up
from xirang.errors import InvalidSetting
from xirang.memory.machine import private_bytes
from xirang.repository.apart import opened_apart
from xirang.repository.calibrate import calibrate
from xirang.repository.claims import claim_of, files_bytes
from xirang.repository.costs import kind_of, recall, settled
from xirang.repository.discover import Kind, Source
from xirang.repository.learned import Learned
from xirang.repository.rewrite import rewritten
from xirang.repository.sizes import equal_shapes, plan_of, policy_of
from xirang.repository.slicing import open_onnx
from xirang.repository.verdicts import examine
from xirang.text.folder import read_folder
from xirang.text.task import purpose_of
from xirang.text.tokenizer import TextModel, load_tokenizer

log = logging.getLogger(__name__)

RUN_TINY_NS = 1_000_000
"""Below this a full run takes less than two threads lose by waiting for the interpreter."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to serve.

    Attributes:
        model: For the engine.
        text: Its tokenizer, for a text model.
        learned: Where what is learned about it is kept.
        cost_kind: As what its cost model is kept.
        findings: Of the probe; None for a callable, which is not probed.
    """

    model: Model
    text: TextModel | None
    learned: Learned
    cost_kind: str
    findings: Findings | None = None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Adapted:
    """A model as a configuration beside it wants it.

    Attributes:
        executable: What clients see.
        is_single: Whether a request is always a run of its own, first axis and all.
        settings: How it is served, if the model itself had a say in that.
        rules: Of Triton's batcher, if it asks for them.
        mixes_shapes: Whether requests of different shapes may share a run by these rules.
    """

    executable: Executable
    is_single: bool
    settings: ModelSettings | None = None
    rules: BatcherRules | None = None
    mixes_shapes: bool = False


def load(
    source: Source,
    settings: ModelSettings,
    *,
    clock: Clock,
    adapt: Callable[[Executable], Adapted] | None = None,
) -> Loaded:
    """Load a model, find out how it may be batched, and measure it.

    Args:
        source: What to load.
        settings: How it is served.
        clock: Measures runs.
        adapt: Puts a configuration between the model and its clients.

    Raises:
        InvalidSetting: It cannot be loaded, and why.
    """
    begun_ns = clock.now_ns()
    opened = _opened(source, settings)
    try:
        loaded = _examined(source, settings, opened, clock, adapt)
        loaded.model.load_ns = clock.now_ns() - begun_ns
        return loaded
    except BaseException:
        if opened.workers is not None:
            opened.workers.close()
        raise


def check_readers(loaded: Sequence[Loaded]) -> None:
    """Hold the stand-ins of text models against them: they get tokens that they did not make.

    Raises:
        InvalidSetting: One makes other tokens of the same text.
    """
    texts = {each.model.name: each.text for each in loaded}
    for each in loaded:
        other = texts.get(each.model.stand_in)
        if each.text is not None and other is not None and not each.text.reads_as(other):
            raise InvalidSetting(
                f"degrade_to of '{each.model.name}' is '{other.name}', which has another tokenizer "
                "or default prompt; expected one that reads texts alike"
            )


def _examined(
    source: Source,
    settings: ModelSettings,
    opened: "_Opened",
    clock: Clock,
    adapt: Callable[[Executable], Adapted] | None,
) -> Loaded:
    executable, text = opened.executable, opened.text
    is_single = False
    adapted = None
    if adapt is not None:
        adapted = adapt(executable)
        executable, is_single = adapted.executable, adapted.is_single
        settings = adapted.settings or settings
    length_max = settings.length_max or (text.length_max if text is not None else None)
    learned = Learned.of(source.path, where=settings.learned)
    if source.kind in {Kind.PYTHON, Kind.TRITON_PYTHON} or is_single:
        # A callable may have effects: it is never run on made-up inputs, only equal shapes share.
        findings = None
    else:
        findings = examine(
            executable,
            source.path,
            settings,
            learned=learned,
            length_max=length_max,
            clock=clock,
        )
    original = executable
    if adapt is None and opened.workers is None:  # what is rewritten lives in this process
        executable, findings = _freed(source, settings, executable, findings, clock)
    is_rewritten = executable is not original
    found = findings or _unprobed(executable, is_single=is_single)
    device = str(getattr(executable, "device", "cpu"))
    cost_kind = kind_of(device=device, threads=settings.threads, is_rewritten=is_rewritten)
    cost = _cost_of(recall(learned, cost_kind), found)
    plan = plan_of(settings, found, executable, cost)
    rules = None if adapted is None else adapted.rules
    if rules is not None and adapted is not None and not adapted.mixes_shapes:
        plan = equal_shapes(plan)
    instances = _instances(settings, executable, cost)
    if opened.workers is not None and instances > 1:
        opened.workers.grow(instances - 1)
    model = Model(
        name=source.name,
        version=source.version,
        executable=executable,
        signature=plan.signature,
        policy=policy_of(settings, found, plan, instances, rules),
        budget_ns=int(settings.budget_ms * 1e6),
        cost=cost,
        shapes=replace(plan.shapes, length_max=_least(length_max, plan.shapes.length_max)),
        verdict=found.verdict,
        overrides=plan.overrides,
        is_probed=found.kind not in {Verdict.UNPROBED, Verdict.BATCH_SENSITIVE},
        workers=opened.workers,
        hang_ns=int(settings.hang_s * 1e9),
        stand_in="" if settings.degrade_to == source.name else settings.degrade_to,
        length_degraded=settings.degrade_length,
        optional_outputs=settings.optional_outputs,
        keeps_answers=settings.cache,
    )
    _check_economy(model)
    _prepare(model, found, settings, clock)
    inner = executable if is_rewritten else opened.inner
    footprint = calibrate(model, inner, lengths_run=found.lengths_run, clock=clock)
    model.claim = claim_of(model, footprint, settings, held_bytes=opened.held_bytes(source.path))
    return Loaded(model, text, learned, cost_kind, findings)


def _cost_of(saved: CostModel | None, findings: Findings) -> CostModel:
    """What is known of its time now."""
    # What was measured at an earlier start says nothing about the machine's speed now.
    now, before = (findings.samples, ()) if findings.ran else ((), findings.samples)
    return settled(saved, now, probed=before)


def _check_economy(model: Model) -> None:
    """Hold what is left out under overload against the model."""
    outputs, optional = list(model.output_names), list(model.optional_outputs)
    if optional and not set(optional) < set(outputs):
        raise InvalidSetting(
            f"optional_outputs of '{model.name}' is {optional}; expected some of {outputs}, not all"
        )
    if model.length_degraded and not model.signature.lengths:
        raise InvalidSetting(
            f"degrade_length of '{model.name}' is {model.length_degraded}, but its rows have no "
            "length; expected 0"
        )


def _prepare(model: Model, findings: Findings, settings: ModelSettings, clock: Clock) -> None:
    """Say what was decided against the verdict, warm up, and see how fast the machine is."""
    if model.overrides:
        log.warning("%s: %s, against '%s'", model.name, ", ".join(model.overrides), model.verdict)
    if not settings.warmup_s or not (findings.ran or findings.samples):
        return  # what was not probed is not run either
    ran = {(size.rows, size.lengths) for size in findings.ran}
    lengths_run, seconds = findings.lengths_run, settings.warmup_s
    warmed = warm_up(model, lengths_run=lengths_run, ran=ran, seconds=seconds, clock=clock)
    if not ran:
        fresh = timed(model, warmed, clock=clock)
        model.cost = settled(model.cost, fresh, probed=findings.samples)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _freed(
    source: Source,
    settings: ModelSettings,
    executable: Executable,
    findings: Findings | None,
    clock: Clock,
) -> tuple[Executable, Findings | None]:
    """The model with its batch freed, if that is wanted and leaves its answers alone."""
    if findings is None or findings.kind is not Verdict.BATCH_FIXED or not settings.rewrite_batch:
        return executable, findings
    if source.kind is not Kind.ONNX or source.path is None or source.path.suffix != ".onnx":
        return executable, findings
    found = rewritten(source.path, executable, settings, clock=clock)
    return found or (executable, findings)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A model that can be run.

    Attributes:
        executable: It.
        text: Its tokenizer.
        workers: Its processes if it has any.
        inner: What runs it.
        grown_bytes: By how much this process grew over it.
    """

    executable: Executable
    text: TextModel | None
    workers: IsolatedExecutable | None
    inner: Executable
    grown_bytes: int

    def held_bytes(self, weights: Path | None) -> int:
        """What it holds as long as it is there.

        Of a model in processes all that is their own; else the size of its files, or where it has
        none what this process has grown by.
        """
        if self.workers is not None:
            return self.workers.held_bytes
        return self.grown_bytes if weights is None else files_bytes(weights)


def _opened(source: Source, settings: ModelSettings) -> _Opened:
    is_onnx = source.path is not None and source.path.suffix == ".onnx"
    if is_onnx and settings.device.startswith("cuda"):
        raise InvalidSetting(
            f"{source.path} runs on the CPU, as ONNX models do; expected device = auto or cpu"
        )
    before_bytes = private_bytes()
    workers = opened_apart(source, settings)
    executable = workers or _opened_here(source, settings)
    grown_bytes = max(0, private_bytes() - before_bytes)
    if source.kind is not Kind.TEXT:
        return _Opened(executable, None, workers, executable, grown_bytes)
    assert source.path is not None
    folder = read_folder(source.path)
    tokenizer = load_tokenizer(folder.tokenizer)
    purpose = purpose_of(executable, folder, tokenizer.get_vocab_size())
    text = TextModel(source.name, folder, purpose, tokenizer, length_max=settings.length_max)
    return _Opened(purpose.executable, text, workers, executable, grown_bytes)


def _opened_here(source: Source, settings: ModelSettings) -> Executable:
    threads, device, is_governed = settings.threads, settings.device, settings.memory_native
    if source.kind is Kind.PYTHON:
        return PythonExecutable(import_object(source.target), name=source.name)
    if source.kind is Kind.TORCH_MODULE:
        module = import_object(source.target)
        return torch_module(
            module, name=source.name, threads=threads, device=device, is_governed=is_governed
        )
    assert source.path is not None
    if source.path.suffix == ".onnx":
        return open_onnx(source.path, settings)
    return torch_file(source.path, threads=threads, device=device, is_governed=is_governed)


def _instances(settings: ModelSettings, executable: Executable, cost: CostModel) -> int:
    """As many as asked for; else one a core, or one alone where a second could not help."""
    if not executable.is_reentrant:
        return 1  # a callable that was not written for threads is never run by two
    if settings.instances:
        return settings.instances
    if executable.platform == PythonExecutable.platform:
        return 1  # each would be one more process with all that the callable loads
    full_ns = cost.predict_ns(rows=settings.max_batch_size, length=1)
    return 1 if not cost.is_cold and full_ns < RUN_TINY_NS else cores()


def _unprobed(executable: Executable, *, is_single: bool) -> Findings:
    signature = Signature(
        inputs=executable.inputs,
        outputs=executable.outputs,
        is_batched=not is_single,
    )
    if is_single:
        return Findings(signature, "max_batch_size is 0: a request is a run of its own")
    what = "requests" if takes_requests(executable) else "inputs"
    verdict = f"a list of {what}: only equal shapes share a run"
    if takes_lists(executable):
        verdict = f"ragged: a list of {what} of any lengths"
    return Findings(signature, verdict, can_batch=True)
