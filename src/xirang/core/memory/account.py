"""One model's memory: what its runs need by its law, and what its share of the pool allows.

The law is exact where it was found well, but a run may turn out to take more slabs than that. Then
every later lease of the model is larger by as much, until runs show that it need not be.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from xirang.core.memory.arena import Lease, Refused
from xirang.core.memory.polynomial import Line, Polynomial, Size, rows_of, upper
from xirang.core.memory.pool import Pool

ROWS_END = 1 << 20
"""The answer where rows take no memory."""

LENGTHS_KEPT_MAX = 4096
"""What is known of a length is kept for so many; then all are forgotten."""

EXACT = 1024
"""The margin of a law that was never exceeded."""

MARGIN_MAX = 64 * EXACT
FORGETTING = 64
"""Each run that takes less than its lease takes back a part of the margin that small."""

_Lines = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a model asks of the pool.

    Attributes:
        peaks: What a run takes: the largest of these polynomials in rows and length; nothing of the
            pool where there are none.
        guarantee_bytes: What it always gets.
        wish_bytes: What it would like to get always, where that does nobody harm.
        limit_bytes: What it never passes; 0 for whatever the pool has.
        fixed_bytes: What it holds as long as it is there, its weights.
        keep_bytes: Pages that each of its instances is left with while it is idle.
        may_go: Whether it may be asked to go, if others need what it has.
        is_packed: Whether rows stand end to end: then the lengths that peaks go by are the elements
            of all rows and of the longest.
        device: Whose memory it is; empty for the host's.
    """

    peaks: tuple[Polynomial, ...]
    guarantee_bytes: int = 0
    limit_bytes: int = 0
    fixed_bytes: int = 0
    keep_bytes: int = 0
    may_go: bool = False
    device: str = ""
    is_packed: bool = False
    wish_bytes: int = 0


class Account:
    """One model's, for all of its instances.

    Attributes:
        pool: Where its memory is.
        share: Of the pool.
        arenas: The number of each instance's arena.
        predicted_bytes: What the largest run so far was expected to take.
        real_bytes: What the largest run so far took, as far as runs say so.
    """

    __slots__ = (
        "_changes",
        "_fit",
        "_is_packed",
        "_law",
        "_leases",
        "_lines",
        "_margin",
        "_most_bytes",
        "_peaks",
        "arenas",
        "pool",
        "predicted_bytes",
        "real_bytes",
        "share",
    )

    def __init__(self, name: str, claim: Claim, pool: Pool, *, instances: int) -> None:
        """Take part.

        Args:
            name: Of the model.
            claim: What it asks for; `Ledger.refusal` says whether that is to be had.
            pool: Whose.
            instances: Each gets an arena.
        """
        self._peaks = claim.peaks
        self._is_packed = claim.is_packed
        self.pool = pool
        limit_bytes = claim.limit_bytes or pool.broker.capacity * pool.slab_bytes
        self.share = pool.add_share(
            name,
            guarantee_bytes=claim.guarantee_bytes,
            wish_bytes=claim.wish_bytes,
            limit_bytes=limit_bytes,
            may_go=claim.may_go,
        )
        if claim.fixed_bytes:
            pool.hold(self.share, claim.fixed_bytes)
        self.arenas: Sequence[int] = [
            pool.add_arena(self.share, limit_bytes, keep_bytes=claim.keep_bytes)
            for _ in range(instances)
        ]
        self._leases: dict[int, Lease] = {}
        self._law: dict[int, int] = {}  # what the law says of each run that has a lease
        self._margin = EXACT
        self._lines: dict[Size, _Lines] = {}
        self._fit: dict[Size, int] = {}
        self._changes = -1
        self._most_bytes = 0
        self.predicted_bytes = self.real_bytes = 0

    # ------------------------------------------------------------------ the law

    def need_bytes(self, rows: int, length: Size) -> int:
        """What a run of this shape is expected to take."""
        return self._widened(self._law_bytes(rows, length))

    def _law_bytes(self, rows: int, length: Size) -> int:
        if self._is_packed:  # no two runs are alike: nothing is kept of them
            size = (rows * length, length) if isinstance(length, int) else length
            return max([peak.bytes_at(rows, size) for peak in self._peaks], default=0)
        need = 0
        if not self._peaks:
            return need
        for fixed, each, denominator in self._lines.get(length) or self._lines_at(length):
            need = max(need, -(-(fixed + each * rows) // denominator))
        return need

    def _widened(self, law_bytes: int) -> int:
        return law_bytes if self._margin == EXACT else -(-law_bytes * self._margin // EXACT)

    def rows_within(self, length: Size, size_bytes: int) -> int:
        """The largest run of a length that is expected to stay within so many bytes."""
        size_bytes = size_bytes * EXACT // self._margin
        if self._is_packed:
            rows = range(1, ROWS_END)
            return bisect_right(rows, size_bytes, key=lambda n: self._law_bytes(n, length))
        found = [
            rows_of(line, size_bytes) for line in self._lines.get(length) or self._lines_at(length)
        ]
        return min((rows for rows in found if rows is not None), default=ROWS_END)

    def rows_max(self, length: Size) -> int:
        """The largest run of a length that could ever be granted; 0 if not one row could."""
        if self._changes != self.pool.changes:
            self._look_again()
        rows = self._fit.get(length)
        if rows is None:
            rows = self._fit[length] = self.rows_within(length, self._most_bytes)
        return rows

    def most_bytes(self) -> int:
        """The largest lease that could ever be granted."""
        if self._changes != self.pool.changes:
            self._look_again()
        return self._most_bytes

    def _look_again(self) -> None:
        self._changes = self.pool.changes
        self._most_bytes = self.pool.most_bytes(self.share)
        self._fit.clear()

    def _lines_at(self, length: Size) -> _Lines:
        if len(self._lines) >= LENGTHS_KEPT_MAX:
            self._lines.clear()
            self._fit.clear()
        lines = self._lines[length] = upper([peak.line_at(length) for peak in self._peaks])
        return lines

    # ------------------------------------------------------------------ runs

    def lease(self, instance: int, rows: int, length: Size) -> Refused | None:
        """Memory for a run of this shape; None if it is there."""
        law_bytes = self._law_bytes(rows, length)
        need_bytes = self._widened(law_bytes)
        lease = self.pool.lease(self.arenas[instance], need_bytes)
        if isinstance(lease, Refused):
            return lease
        self._leases[instance] = lease
        self._law[instance] = law_bytes
        self.predicted_bytes = max(self.predicted_bytes, need_bytes)
        return None

    def leased_bytes(self, instance: int) -> int:
        """What the run on an instance may use."""
        return self._leases[instance].size_bytes

    def extend(self, instance: int, size_bytes: int) -> bool:
        """More for the run on an instance, which turns out to need it; whether it got that."""
        lease = self._leases[instance]
        self._widen(size_bytes, self._law[instance])
        return self.pool.extend(lease, size_bytes) is None

    def release(self, instance: int, *, now_ns: int, real_bytes: int = 0) -> None:
        """The run on an instance has ended.

        Args:
            instance: Its number.
            now_ns: When.
            real_bytes: What the run took; 0 if nobody knows.
        """
        lease = self._leases.pop(instance)
        if real_bytes:
            self._learn(lease, self._law[instance], real_bytes)
        self.pool.release(lease, now_ns=now_ns)

    def leave_line(self) -> None:
        """Nobody of this model waits for memory any more."""
        self.pool.leave_line(self.share)

    def _learn(self, lease: Lease, law_bytes: int, real_bytes: int) -> None:
        self.real_bytes = max(self.real_bytes, real_bytes)
        pool = self.pool
        if pool.slabs(real_bytes) > pool.slabs(lease.size_bytes):
            self.share.counts.extend += 1
            self._widen(real_bytes, law_bytes)
            return
        if pool.slabs(real_bytes) < pool.slabs(lease.size_bytes):
            self.share.counts.trim += 1
        if self._margin > EXACT:
            step = -(-(self._margin - EXACT) // FORGETTING)
            self._margin = max(EXACT, _ratio(real_bytes, law_bytes), self._margin - step)
            self._fit.clear()

    def _widen(self, real_bytes: int, law_bytes: int) -> None:
        self._margin = min(MARGIN_MAX, max(self._margin, _ratio(real_bytes, law_bytes)))
        self._fit.clear()

    def check_integrity(self) -> None:
        """Who runs has a lease of its own arena."""
        for instance, lease in self._leases.items():
            assert lease.arena == self.arenas[instance]
            assert self.pool.arenas[lease.arena].lease is lease


def _ratio(real_bytes: int, law_bytes: int) -> int:
    return -(-EXACT * real_bytes // max(1, law_bytes))
