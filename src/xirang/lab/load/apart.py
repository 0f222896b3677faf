"""Runs a point in a process of its own, so the client never shares the server's interpreter."""

import asyncio
import os
import pickle
import sys
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from xirang.errors import XirangError
from xirang.lab.load.client import Target
from xirang.lab.load.plan import ArrivalPlan
from xirang.lab.load.point import AnswerCall, Progress, ProgressCall, run_point
from xirang.lab.load.result import PointResult

Result = TypeVar("Result")
CHILD = "from xirang.lab.load.apart import answer_job; answer_job()"


@dataclass(frozen=True, slots=True)
class Job:
    """What the child process is to do."""

    target: Target
    payloads: tuple[bytes, ...]
    plan: ArrivalPlan
    model: str | None
    keep_answers: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, as the child hands it to its parent after the run."""

    payload_index: int
    status: int
    body: bytes


Message = Progress | Answer | PointResult | XirangError


def run_on_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end, on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def run_point_apart(
    target: Target,
    payloads: Sequence[bytes],
    plan: ArrivalPlan,
    *,
    on_progress: ProgressCall | None = None,
    on_answer: AnswerCall | None = None,
    model: str | None = None,
) -> PointResult:
    """Like `run_point`, in a child process; answers are handed over after the run.

    Raises:
        XirangError: As the child raised it.
        RuntimeError: The child ended without a result.
    """
    job = Job(target, tuple(payloads), plan, model, keep_answers=on_answer is not None)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CHILD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    result: PointResult | None = None
    try:
        process.stdin.write(pickle.dumps(job))
        process.stdin.write_eof()
        while (message := await _read_message(process.stdout)) is not None:
            match message:
                case Progress():
                    if on_progress is not None:
                        on_progress(message)
                case Answer():
                    assert on_answer is not None, "answers are kept only on request"
                    on_answer(message.payload_index, message.status, message.body)
                case PointResult():
                    result = message
                case error:
                    raise error
    finally:
        if process.returncode is None and result is None:
            process.kill()
        await process.wait()
    if result is None:
        raise RuntimeError(f"the load process ended with status {process.returncode}, no result")
    return result


def answer_job() -> None:
    """The child: read a job, run it, write messages; standard output carries nothing else."""
    job: Job = pickle.load(sys.stdin.buffer)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # whatever else is printed goes to standard error
        for message in _play(job, out):
            _write_message(out, message)


def _play(job: Job, out: IO[bytes]) -> Iterator[Message]:
    answers: list[Answer] = []

    def keep(payload_index: int, status: int, body: bytes) -> None:
        answers.append(Answer(payload_index, status, body))

    def tell(progress: Progress) -> None:
        _write_message(out, progress)

    point = run_point(
        job.target,
        job.payloads,
        job.plan,
        on_progress=tell,
        on_answer=keep if job.keep_answers else None,
        model=job.model,
    )
    try:
        result = run_on_loop(point)
    except XirangError as error:
        yield error
        return
    yield from answers
    yield result


def _write_message(out: IO[bytes], message: Message) -> None:
    content = pickle.dumps(message)
    out.write(len(content).to_bytes(8, "little") + content)
    out.flush()


async def _read_message(source: asyncio.StreamReader) -> Message | None:
    try:
        size_bytes = int.from_bytes(await source.readexactly(8), "little")
        message: Message = pickle.loads(await source.readexactly(size_bytes))
    except asyncio.IncompleteReadError:
        return None
    return message
