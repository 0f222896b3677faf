"""A model in processes of its own, as an executable like any other.

It has as many processes as it shall make runs at once, and a run takes whichever is idle. A thread
beside each process sees to it that it lives: one that dies, hangs or grows too large is started
anew at once, and after several in a row that came to nothing with a pause. The run that a process
took along raises `WorkerDied`; what becomes of it the engine decides.
"""

import logging
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import msgspec

from xirang.backends.executable import WorkerDied
from xirang.backends.isolated.leases import Lesson, WorkerFootprint, WorkerRoom, room_here
from xirang.backends.isolated.life import Life, LifeEnded
from xirang.backends.isolated.messages import Load, Loaded
from xirang.backends.isolated.segment import Named
from xirang.backends.isolated.worker import in_columns
from xirang.backends.requests import Asked, Line, Responded
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array

log = logging.getLogger(__name__)

HANG_S = 60.0

FAREWELL_S_MAX = 2.0
"""Longest time that a model takes to say farewell before its process is ended."""

_T = TypeVar("_T")

BACKOFF_S = (0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.3, 1.0, 3.0)
"""Wait before the n-th start in a row without a run that succeeded; the last one for all later.

To find the one guilty request among 16 takes five lives; starting them costs a core for a second.
"""


class IsolatedExecutable:
    """The server's side of a model's worker processes; see `Executable` and `Workers`.

    Attributes:
        footprint: What its runs take; None if it allocates as it likes.
        planning: How much of that is planned, in words, if the library says.
    """

    is_reentrant = True
    keeps_inputs = False

    def __init__(self, load: Load, *, hang_s: float = HANG_S, resident_bytes_max: int = 0) -> None:
        """Start one process and load the model in it.

        Args:
            load: What the process loads.
            hang_s: A run that takes longer is taken for hung, and its process ended.
            resident_bytes_max: A process that holds more is replaced between two runs; 0: never.

        Raises:
            InvalidSetting: The model cannot be loaded, and why.
        """
        self._load = msgspec.structs.replace(load, tells_memory=resident_bytes_max > 0)
        self._resident_bytes_max = resident_bytes_max
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._lives: list[Life] = []
        # Each gets its turn: whoever runs something as often as there are processes reaches all.
        self._idle: deque[Life] = deque()
        self._stuck = 0
        self._lesson: Lesson | None = None
        self._heard: tuple[dict[str, Array], list[str]] | None = None
        self.footprint: WorkerFootprint | None = None
        self.planning = ""
        self.takes_requests = False
        self._keepers: list[threading.Thread] = []
        self.hang_s = hang_s
        self.living = 0
        self.restarts = 0
        loaded = self.grow(1)
        self.platform = loaded.platform
        self.inputs = loaded.inputs
        self.outputs = loaded.outputs
        self.device = loaded.device
        self.bounds = loaded.bounds
        self.takes_lists = loaded.takes_lists
        self.is_packed = loaded.is_packed
        self.takes_requests = loaded.takes_requests
        self.is_decoupled = loaded.is_decoupled
        self.optional = loaded.optional
        self.declared = loaded.declared

    def grow(self, count: int) -> Loaded:
        """Have so many processes more; return when all of them have loaded the model.

        Raises:
            InvalidSetting: One of them could not.
        """
        firsts: list[Future[Loaded]] = [Future() for _ in range(count)]
        for first in firsts:
            name = f"{self._load.name}-keeper-{len(self._keepers)}"
            load = msgspec.structs.replace(self._load, instance=len(self._keepers))
            keeper = threading.Thread(target=self._keep, args=[first, load], name=name, daemon=True)
            self._keepers.append(keeper)
            keeper.start()
        try:
            loaded = [first.result() for first in firsts]
        except InvalidSetting:
            self.close()
            raise
        return loaded[0]

    @property
    def process_ids(self) -> list[int]:
        """Of the processes that live now."""
        with self._changed:
            return [life.process.pid for life in self._lives]

    # ------------------------------------------------------------------ memory

    @property
    def is_governed(self) -> bool:
        """Whether its memory is to be planned and shared with other models."""
        return self._load.is_governed

    @property
    def held_bytes(self) -> int:
        """What is its processes' own: the model, and all that runs it."""
        with self._changed:
            return sum(life.held_bytes for life in self._lives)

    def heard(self, run: Callable[[], object]) -> tuple[dict[str, Array], list[str]]:
        """What it is given, and asked for, while something around it is run."""
        self._heard = {}, []
        try:
            run()
            return self._heard
        finally:
            self._heard = None

    def study(self, lesson: Lesson) -> WorkerFootprint | None:
        """Have each process find out how much memory runs take; those to come will do so too.

        Raises:
            WorkerDied: There is none, and none can be started.
        """
        self._lesson = lesson
        for _ in self._keepers:  # each gets its turn
            life = self._take()
            try:
                studied = life.study(lesson)
            except LifeEnded as error:
                log.warning("a worker of model %s: %s", self._load.name, error)
                continue
            finally:
                self._give_back(life)
            self.planning = studied.planning
            if studied.peaks:
                self.footprint = WorkerFootprint(studied.peaks)
        if self.footprint is None:
            self._lesson = None
        return self.footprint

    # ------------------------------------------------------------------ runs

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the model in a process; see `Executable.run`.

        Raises:
            WorkerDied: The process ended under it, or there is none and none can be started.
        """
        return dict(self._run(list(inputs.items()), wanted, is_list=False))

    def run_lists(
        self, columns: Mapping[str, Sequence[Array]], wanted: Sequence[str]
    ) -> dict[str, list[Array]]:
        """Run it with rows that need not be of one shape; see `ListExecutable.run_lists`.

        Raises:
            WorkerDied: As for `run`.
        """
        rows = [(name, row) for name, column in columns.items() for row in column]
        return in_columns(self._run(rows, wanted, is_list=True))

    def run_requests(self, requests: Sequence[Asked], line: Line) -> list[Responded]:
        """Run it with requests as they are; see `requests.RequestExecutable`.

        Raises:
            WorkerDied: As for `run`.
        """
        timeout_s = self.hang_s
        return self._in_a_life(lambda life: life.run_requests(requests, line, timeout_s=timeout_s))

    def _run(self, arrays: Sequence[Named], wanted: Sequence[str], *, is_list: bool) -> list[Named]:
        timeout_s, room = self.hang_s, room_here()
        if self._heard is not None:
            self._heard = dict(arrays), list(wanted)
        return self._in_a_life(
            lambda life: life.run(arrays, wanted, is_list=is_list, timeout_s=timeout_s, room=room),
            room,
        )

    def _in_a_life(self, run: Callable[[Life], _T], room: WorkerRoom | None = None) -> _T:
        life = self._take(room)
        try:
            return run(life)
        except LifeEnded as error:
            log.warning("a worker of model %s: %s", self._load.name, error)
            raise WorkerDied(str(error), self) from None
        finally:
            self._give_back(life)
            if room is not None:
                self._look_after(room)

    def _look_after(self, room: WorkerRoom) -> None:
        """What outlived its run in a process keeps its pages for as long as that lives."""
        with self._changed:
            pinned = [life.pinned_bytes.get(room.number, 0) for life in self._lives]
        room.arena.pinned_bytes = max([0, *pinned])

    def _take(self, room: WorkerRoom | None = None) -> Life:
        """An idle process; if there is one that knows the arena already, that one."""
        with self._changed:
            while not self._idle:
                if not self._may_come():
                    raise WorkerDied("no process can be started", self, is_suspect=False)
                self._changed.wait()
            if room is not None and room.number not in self._idle[0].pinned_bytes:
                for life in self._idle:
                    if room.number in life.pinned_bytes:
                        self._idle.remove(life)
                        return life
            return self._idle.popleft()

    def _give_back(self, life: Life) -> None:
        held_bytes = life.resident_bytes
        is_too_large = 0 < self._resident_bytes_max < held_bytes
        with self._changed:
            is_alive = life.process.returncode is None and life in self._lives
            if is_alive and not is_too_large:
                self._idle.append(life)
                self._changed.notify()
                return
        if is_alive:
            log.warning("a worker of model %s holds %d MiB", self._load.name, held_bytes >> 20)
        life.end()

    # ------------------------------------------------------------------ lives

    def wait(self, timeout_s: float) -> bool:
        """Whether a process takes a run, now or within that time; see `Workers`."""
        with self._changed:
            self._changed.wait_for(lambda: self._idle or not self._may_come(), timeout_s)
            return bool(self._idle)

    def close(self) -> None:
        """End the processes and their keepers."""
        self._closing.set()
        with self._changed:
            for life in self._lives:
                if life in self._idle and self.takes_requests:
                    life.dismiss()
                else:
                    life.process.kill()
            leaving = list(self._lives)
            self._changed.notify_all()
        for life in leaving:
            try:
                life.process.wait(FAREWELL_S_MAX)
            except subprocess.TimeoutExpired:
                life.process.kill()
        for keeper in self._keepers:
            keeper.join()

    def _may_come(self) -> bool:
        return self._stuck < len(self._keepers) and not self._closing.is_set()

    def _keep(self, first: "Future[Loaded]", load: Load) -> None:
        """One keeper's life, which is as long as the model's: a process dies with its thread."""
        failures, is_stuck = 0, False
        while not self._closing.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]):
            try:
                life, loaded = self._start(load)
            except InvalidSetting as error:
                failures += 1
                if not first.done():
                    first.set_exception(error)
                    return
                log.warning("%s; it is tried again", error)
                self._count(stuck=not is_stuck)
                is_stuck = True
                continue
            self._enter(life, restarts=first.done(), stuck=-is_stuck)
            is_stuck = False
            if not first.done():
                first.set_result(loaded)
            life.process.wait()
            self._leave(life)
            failures = 0 if life.runs else failures + 1

    def _start(self, load: Load) -> tuple[Life, Loaded]:
        name = load.name
        try:
            life = Life()
        except OSError as error:
            raise InvalidSetting(f"cannot start a worker of model {name}: {error}") from error
        with self._changed:
            self._lives.append(life)
            if self._closing.is_set():
                life.process.kill()  # whoever closes has not seen it
        try:
            loaded = life.load(load)
            if self._lesson is not None:
                life.study(self._lesson)
            return life, loaded
        except Exception as error:
            with self._changed:
                self._lives.remove(life)
            life.end()
            if isinstance(error, InvalidSetting):
                raise
            raise InvalidSetting(f"the worker of model {name} did not start: {error}") from None

    def _enter(self, life: Life, *, restarts: int, stuck: int) -> None:
        with self._changed:
            self._idle.append(life)
            self.living += 1
            self.restarts += restarts
            self._count(stuck=stuck)

    def _leave(self, life: Life) -> None:
        with self._changed:
            self._lives.remove(life)
            self.living -= 1
            self._changed.notify_all()
            if life not in self._idle:
                return  # a run has it, and closes it
            self._idle.remove(life)
        life.end()

    def _count(self, *, stuck: int) -> None:
        """So many keepers more, whose last start failed."""
        with self._changed:
            self._stuck += stuck
            self._changed.notify_all()
