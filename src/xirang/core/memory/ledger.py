"""The memory of all models of one scheduler: who takes part, who waits, what is."""

from xirang.core.event import EvictionProposed
from xirang.core.memory.account import Account, Claim
from xirang.core.memory.arena import Refused
from xirang.core.memory.pool import Pool, PoolSettings
from xirang.core.snapshot import MemorySnapshot, ShareSnapshot


class Ledger:
    """All accounts.

    Attributes:
        pool: What they share.
        accounts: By model.
    """

    __slots__ = ("_proposed", "accounts", "pool")

    def __init__(self, settings: PoolSettings) -> None:
        """Nobody takes part yet."""
        self.pool = Pool(settings)
        self.accounts: dict[str, Account] = {}
        self._proposed: set[str] = set()

    # ------------------------------------------------------------------ models

    def refusal(self, claim: Claim) -> str:
        """Why a model cannot have what it asks for, in words; empty if it can."""
        pool = self.pool
        asked = max(pool.slabs(claim.guarantee_bytes), pool.slabs(claim.fixed_bytes))
        limit = claim.limit_bytes // pool.slab_bytes if claim.limit_bytes else pool.broker.capacity
        free = pool.broker.unpromised()
        if asked > min(free, limit):
            return (
                f"it holds {claim.fixed_bytes} bytes and wants {claim.guarantee_bytes} promised; "
                f"of the pool {free * pool.slab_bytes} bytes are not promised to others, "
                f"and its limit is {limit * pool.slab_bytes} bytes"
            )
        return ""

    def open(self, name: str, claim: Claim, *, instances: int) -> Account:
        """One more model takes part; nothing speaks against it."""
        assert not self.refusal(claim)
        account = self.accounts[name] = Account(name, claim, self.pool, instances=instances)
        return account

    def close(self, name: str) -> None:
        """It goes, with all that it has."""
        account = self.accounts.pop(name, None)
        if account is not None:
            self.pool.remove_share(account.share)
            self._proposed.discard(name)

    # ------------------------------------------------------------------ time

    def refused(self, account: Account, refused: Refused, now_ns: int) -> EvictionProposed | None:
        """Not even the smallest run of a model fits now: it stands in line.

        Returns:
            Who could go to make room, unless that was said before.
        """
        self.pool.stand_in_line(account.share)
        if refused.evict is None or refused.evict in self._proposed:
            return None
        self._proposed.add(refused.evict)
        self.pool.broker.shares[refused.evict].counts.evict += 1
        return EvictionProposed(refused.evict, account.share.name, now_ns)

    def tidy(self, now_ns: int) -> None:
        """Look for what recent runs did not need, if it is time for that."""
        tidy_ns = self.pool.tidy_ns
        if tidy_ns is not None and now_ns >= tidy_ns:
            self.pool.tidy(now_ns=now_ns)
            self._proposed.clear()

    # ------------------------------------------------------------------ observers

    def snapshot(self) -> MemorySnapshot:
        """What is."""
        pool = self.pool
        return MemorySnapshot(
            capacity_bytes=pool.broker.capacity * pool.slab_bytes,
            held_bytes=pool.broker.held * pool.slab_bytes,
            shares=tuple([self._share(account) for account in self.accounts.values()]),
        )

    def _share(self, account: Account) -> ShareSnapshot:
        pool, share = self.pool, account.share
        slab = pool.slab_bytes
        arenas = [pool.arenas[number].snapshot(slab) for number in account.arenas]
        return ShareSnapshot(
            model=share.name,
            guarantee_bytes=share.guarantee * slab,
            limit_bytes=share.limit * slab,
            fixed_bytes=share.fixed * slab,
            reserved_bytes=sum([arena.reserved_bytes for arena in arenas]),
            committed_bytes=sum([arena.committed_bytes for arena in arenas]),
            leased_bytes=sum([arena.leased_bytes for arena in arenas]),
            surplus_bytes=sum([arena.surplus_bytes for arena in arenas]),
            waiting_bytes=sum([arena.waiting_bytes for arena in arenas]),
            predicted_bytes=account.predicted_bytes,
            real_bytes=account.real_bytes,
            counts=share.counts.pairs(),
        )

    def check_integrity(self) -> None:
        """What must hold after every call."""
        self.pool.check_integrity()
        for account in self.accounts.values():
            account.check_integrity()
        arenas = sum([len(account.arenas) for account in self.accounts.values()])
        assert arenas == len(self.pool.arenas)
