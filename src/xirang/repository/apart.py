"""Which models run in processes of their own, and what those load."""

from xirang.backends.isolated.executable import IsolatedExecutable
from xirang.backends.isolated.messages import Load
from xirang.config import ModelSettings
from xirang.errors import InvalidSetting
from xirang.repository.discover import Kind, Source

CALLABLES = frozenset({Kind.PYTHON, Kind.TRITON_PYTHON})


def opened_apart(source: Source, settings: ModelSettings) -> IsolatedExecutable | None:
    """The model in a process; None if it shall run in this one.

    Unless the settings say otherwise a Python callable is apart: it may do anything to its process,
    and while it computes it would hold the lock that everybody else here needs.

    Raises:
        InvalidSetting: It cannot be loaded, and why.
    """
    is_apart = settings.process == "yes"
    if settings.process == "auto":
        is_apart = source.kind in CALLABLES
    if not is_apart:
        if source.kind is Kind.TRITON_PYTHON:
            raise InvalidSetting(f"process of {source.name} is no; a model.py needs its own: auto")
        return None
    load = Load(
        kind=_kind(source),
        target=source.target or str(source.path),
        name=source.name,
        threads=settings.threads,
        device=settings.device,
        options=dict(source.options),
        # A callable allocates as it likes: there is nothing to be found out by tiny runs.
        is_governed=settings.memory_native and source.kind not in CALLABLES,
    )
    return IsolatedExecutable(
        load, hang_s=settings.hang_s, resident_bytes_max=settings.worker_mib_max << 20
    )


def _kind(source: Source) -> str:
    if source.path is None or source.kind is Kind.TRITON_PYTHON:
        return source.kind.value
    return "onnx" if source.path.suffix == ".onnx" else "torch"
