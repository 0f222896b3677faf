"""Real pages behind the pool's arenas, and a place for the runs of each instance.

What the scheduler decides about pages is done by a thread beside, in the scheduler's order, so that
a tail is cut before another arena grows into what that frees. The loop never waits for it; a run
waits in its own thread until the pages that it was promised are there.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from xirang.backends.executable import Executable, Room, footprint_of
from xirang.core.batching.shaping import emptied
from xirang.core.memory.arena import Resize
from xirang.core.memory.polynomial import Size
from xirang.core.run import Run
from xirang.core.scheduler import Scheduler
from xirang.engine.extent import Extent
from xirang.engine.model import Model
from xirang.errors import InvalidSetting
from xirang.memory.arena import DeviceArena, HostArena, NoMemory
from xirang.tensors.assemble import Take
from xirang.tensors.tensor import Array

log = logging.getLogger(__name__)

_Act = Callable[[], object]

Extend = Callable[[int, int], bool]
"""Takes a run's number and what it needs in bytes, and says whether it has that now."""


@dataclass(slots=True, eq=False)
class Backed:
    """An arena and its pages.

    Attributes:
        arena: The addresses.
        reach_bytes: How far its pages reach.
        ordered: How often it was told to grow.
        done: How often it has, or could not.
    """

    arena: DeviceArena
    reach_bytes: int = 0
    ordered: int = 0
    done: int = 0


class Pages:
    """All arenas of a pool, and the thread that moves their pages."""

    def __init__(self, make: Callable[[int], DeviceArena] = HostArena) -> None:
        """No arenas yet.

        Args:
            make: Reserves so many bytes of addresses.
        """
        self._make = make
        self._backed: dict[int, Backed] = {}
        self._inbox: SimpleQueue[_Act] = SimpleQueue()
        self._moved = threading.Condition()
        self._thread: threading.Thread | None = None

    def open(
        self, number: int, reserved_bytes: int, make: Callable[[int], DeviceArena] | None = None
    ) -> DeviceArena:
        """Reserve the addresses of one more arena.

        Args:
            number: Which.
            reserved_bytes: How many.
            make: Reserves them, if they are to be of a kind of their own.

        Raises:
            NoMemory: The system does not even reserve.
        """
        arena = (make or self._make)(reserved_bytes)
        self._backed[number] = Backed(arena)
        return arena

    def carry_out(self, resizes: Sequence[Resize]) -> None:
        """Move pages as the pool says, some time soon, in this order."""
        for resize in resizes:
            backed = self._backed.get(resize.arena)
            if backed is not None:
                self._order(backed, resize.after_bytes)

    def wait(self, number: int, size_bytes: int) -> int:
        """Wait for pages that were ordered; how far they reach then.

        It is less than `size_bytes` if the system had no more when it was asked again.
        """
        backed = self._backed[number]
        if backed.done < backed.ordered:
            self._wait_for(backed)
        if backed.reach_bytes < size_bytes:  # what was refused once may be there now
            self._order(backed, size_bytes)
            self._wait_for(backed)
        return backed.reach_bytes

    def close(self, number: int, *, in_use: bool = False) -> None:
        """An arena is needed no more.

        Args:
            number: Which.
            in_use: Whether a run hangs in it: then its pages go when that has ended, if it does.
        """
        backed = self._backed.pop(number)
        if not in_use:
            self._do(backed.arena.close)

    def settle(self) -> None:
        """Wait until everything that was ordered is done."""
        done = threading.Event()
        self._do(done.set)
        done.wait()

    def _order(self, backed: Backed, reach_bytes: int) -> None:
        with self._moved:
            backed.ordered += 1
        self._do(partial(self._move, backed, reach_bytes))

    def _wait_for(self, backed: Backed) -> None:
        with self._moved:
            ordered = backed.ordered
            self._moved.wait_for(lambda: backed.done >= ordered)

    def _do(self, act: _Act) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name="pages", daemon=True)
            self._thread.start()
        self._inbox.put(act)

    def _live(self) -> None:
        while True:
            self._inbox.get()()

    def _move(self, backed: Backed, reach_bytes: int) -> None:
        try:
            backed.arena.resize(backed.reach_bytes, reach_bytes)
            backed.reach_bytes = reach_bytes
        except NoMemory as error:
            log.warning("%s", error)
        finally:
            with self._moved:
                backed.done += 1
                self._moved.notify_all()


class Place:
    """Where the runs of one instance take their memory; it belongs to the instance's thread.

    Attributes:
        peak_bytes: How far the run that was begun last reached.
    """

    def __init__(
        self, pages: Pages, number: int, room: Room, *, slab_bytes: int, extend: Extend
    ) -> None:
        """A place in an arena.

        Args:
            pages: Behind it.
            number: Of the arena.
            room: In the arena.
            slab_bytes: A lease is rounded up to whole ones.
            extend: Gives a run more memory, by its number, if there is so much.
        """
        self.peak_bytes = 0
        self._extend = extend
        self._run_id = 0
        self._pages = pages
        self._number = number
        self._room = room
        self._slab_bytes = slab_bytes
        self._lease_bytes = 0

    def begin(self, run: Run) -> None:
        """All that is run until the next call belongs to this run."""
        self.peak_bytes = 0
        self._run_id = run.id
        self._lease(run.lease_bytes)

    def open(self, rows: int, length: Size) -> Take:
        """Where the inputs of some rows, padded to a length, shall lie."""
        self._room.open(rows, length, self._reach())
        return self._room.take

    def run(
        self, executable: Executable, inputs: Mapping[str, Array], wanted: Sequence[str]
    ) -> dict[str, Array]:
        """`Executable.run` within the lease; that is extended if it needs more.

        Raises:
            NoMemory: There is not so much now.
        """
        room = self._room
        try:
            return room.run(executable, inputs, wanted)
        except NoMemory as error:
            needed_bytes = -(-error.needed_bytes >> 10) << 10
            if needed_bytes <= self._lease_bytes or not self._extend(self._run_id, needed_bytes):
                raise
            log.info("run %d needs %d bytes, more than was expected", self._run_id, needed_bytes)
            self._lease(needed_bytes)
            room.extend(self._reach())
            return room.run(executable, inputs, wanted)
        finally:
            self.peak_bytes = max(self.peak_bytes, -(-room.peak_bytes >> 10) << 10)

    def _lease(self, size_bytes: int) -> None:
        slab = self._slab_bytes
        self._lease_bytes = -(-size_bytes // slab) * slab

    def _reach(self) -> int:
        """What there is of the lease, when its pages have come."""
        return min(self._lease_bytes, self._pages.wait(self._number, self._lease_bytes))


class Housing:
    """The places of all models of one scheduler."""

    def __init__(self, scheduler: Scheduler, pages: Pages | None = None) -> None:
        """Nobody has one yet."""
        self.pages = pages or Pages()
        self._scheduler = scheduler
        self._numbers: dict[str, list[int]] = {}

    def place(self, lanes: str, executable: Executable, extend: Extend) -> Place | None:
        """For the next instance of some lanes; None if its memory is not counted.

        Args:
            lanes: Their name.
            executable: What the instance runs.
            extend: Gives a run more memory, by its number, if there is so much.
        """
        ledger, footprint = self._scheduler.ledger, footprint_of(executable)
        if ledger is None or footprint is None or lanes not in ledger.accounts:
            return None
        taken = self._numbers.setdefault(lanes, [])
        number = ledger.accounts[lanes].arenas[len(taken)]
        pool = ledger.accounts[lanes].pool
        slab_bytes = pool.slab_bytes
        reserved_bytes = pool.arenas[number].reserved * slab_bytes
        arena = self.pages.open(number, reserved_bytes, getattr(footprint, "arena", None))
        taken.append(number)
        room = footprint.room(arena)
        return Place(self.pages, number, room, slab_bytes=slab_bytes, extend=extend)

    def check(self, model: Model) -> None:
        """Whether there is memory for one more model; who is refused has no processes any more.

        Raises:
            InvalidSetting: There is not, and how much there is.
        """
        ledger, claim = self._scheduler.ledger, model.claim
        if ledger is not None and claim is not None and (reason := ledger.refusal(claim)):
            if model.workers is not None:
                model.workers.close()
            raise InvalidSetting(f"there is no memory for model '{model.name}': {reason}")

    def who_goes(self, model: Model) -> list[str]:
        """Lanes that have to go, and may, for a model to come."""
        ledger, claim = self._scheduler.ledger, model.claim
        return [] if ledger is None or claim is None else ledger.who_goes(claim)

    def rows_max(self, model: Model, extent: Extent) -> int:
        """Most rows of a run of requests like this one."""
        rows_max = model.policy.max_batch_size
        ledger = self._scheduler.ledger
        account = None if ledger is None else ledger.accounts.get(model.lanes)
        if account is None or model.shapes.rows_max is not None:
            return rows_max  # rows that belong together are not parted
        fitting = emptied(account.rows_max(extent.lengths or extent.length), model.policy.row_sizes)
        return max(1, min(rows_max, fitting))

    def follow(self) -> None:
        """Do what the scheduler has decided about pages."""
        if resizes := self._scheduler.drain_resizes():
            self.pages.carry_out(resizes)

    def close(self, lanes: str, *, in_use: Sequence[int] = ()) -> None:
        """Lanes have gone.

        Args:
            lanes: Their name.
            in_use: Instances that hang.
        """
        numbers = list(enumerate(self._numbers.pop(lanes, ())))
        for instance, number in numbers:
            if instance in in_use:  # before its pages are told to go
                self.pages.close(number, in_use=True)
        self.follow()
        for instance, number in numbers:
            if instance not in in_use:
                self.pages.close(number)
