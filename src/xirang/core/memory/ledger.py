"""The memory of all models of one scheduler: who takes part, who waits, what is."""

from dataclasses import replace
from itertools import count

from xirang.core.event import EvictionProposed
from xirang.core.memory.account import Account, Claim
from xirang.core.memory.arena import Refused, Resize
from xirang.core.memory.pool import Pool, PoolSettings
from xirang.core.snapshot import MemorySnapshot, PoolSnapshot, ShareSnapshot


class Ledger:
    """All accounts.

    Attributes:
        pool: What those on the host share.
        devices: What those on a device share, by its name.
        accounts: By model.
    """

    __slots__ = ("_pools", "_proposed", "accounts", "devices", "pool")

    def __init__(self, settings: PoolSettings) -> None:
        """Nobody takes part yet."""
        numbers = count()  # an arena is told by its number, in whatever pool it is
        self.pool = Pool(settings, numbers)
        self.devices = {
            name: Pool(replace(settings, capacity_bytes=capacity_bytes, devices=()), numbers)
            for name, capacity_bytes in settings.devices
        }
        self._pools = (self.pool, *self.devices.values())
        self.accounts: dict[str, Account] = {}
        self._proposed: set[str] = set()

    # ------------------------------------------------------------------ models

    def refusal(self, claim: Claim) -> str:
        """Why a model cannot have what it asks for, in words; empty if it can."""
        pool = self._pool_of(claim)
        if pool is None:
            return f"nobody counts the memory of {claim.device}"
        asked, limit = _asked(claim, pool)
        free = pool.broker.unpromised()
        if asked > min(free, limit):
            return (
                f"it holds {claim.fixed_bytes} bytes and wants {claim.guarantee_bytes} promised; "
                f"of the pool {free * pool.slab_bytes} bytes are not promised to others, "
                f"and its limit is {limit * pool.slab_bytes} bytes"
            )
        return ""

    def who_goes(self, claim: Claim) -> list[str]:
        """Models that have to go for this one to come: the least recently used of those that may.

        None if nobody has to, or if that would not be enough.
        """
        pool = self._pool_of(claim)
        if pool is None:
            return []
        asked, limit = _asked(claim, pool)
        if asked > limit:
            return []
        missing = asked - pool.broker.unpromised()
        going = []
        for name in pool.idle_shares():
            share = pool.broker.shares[name]
            if missing > 0 and share.firm:
                missing -= share.firm
                going.append(name)
        return going if missing <= 0 else []

    def open(self, name: str, claim: Claim, *, instances: int) -> Account:
        """One more model takes part; nothing speaks against it."""
        pool = self._pool_of(claim)
        assert pool is not None
        assert not self.refusal(claim)
        account = self.accounts[name] = Account(name, claim, pool, instances=instances)
        return account

    def close(self, name: str) -> None:
        """It goes, with all that it has."""
        account = self.accounts.pop(name, None)
        if account is not None:
            account.pool.remove_share(account.share)
            self._proposed.discard(name)

    def _pool_of(self, claim: Claim) -> Pool | None:
        return self.devices.get(claim.device) if claim.device else self.pool

    # ------------------------------------------------------------------ time

    def refused(self, account: Account, refused: Refused, now_ns: int) -> EvictionProposed | None:
        """Not even the smallest run of a model fits now: it stands in line.

        Returns:
            Who could go to make room, unless that was said before.
        """
        account.pool.stand_in_line(account.share)
        if refused.evict is None or refused.evict in self._proposed:
            return None
        self._proposed.add(refused.evict)
        account.pool.broker.shares[refused.evict].counts.evict += 1
        return EvictionProposed(refused.evict, account.share.name, now_ns)

    def tidy(self, now_ns: int) -> None:
        """Look for what recent runs did not need, if it is time for that."""
        for pool in self._pools:
            if pool.tidy_ns is not None and now_ns >= pool.tidy_ns:
                pool.tidy(now_ns=now_ns)
                self._proposed.clear()

    def resize(self, capacity_bytes: int, *, is_pressed: bool) -> None:
        """The host has more memory for the pool now, or less.

        Args:
            capacity_bytes: How much.
            is_pressed: Whether it is short: then what no run uses goes back at once.
        """
        self.pool.resize(capacity_bytes)
        if is_pressed:
            self.pool.relieve()

    @property
    def tidy_ns(self) -> int | None:
        """When it is next; None while time alone would change nothing."""
        times = [pool.tidy_ns for pool in self._pools if pool.tidy_ns is not None]
        return min(times, default=None)

    @property
    def freed(self) -> int:
        """Goes up whenever a lease that was refused might be granted now."""
        return sum([pool.freed for pool in self._pools])

    def drain(self) -> list[Resize]:
        """What has to be done with pages, in this order."""
        return [resize for pool in self._pools for resize in pool.drain()]

    # ------------------------------------------------------------------ observers

    def snapshot(self) -> MemorySnapshot:
        """What is."""
        pool = self.pool
        return MemorySnapshot(
            capacity_bytes=pool.broker.capacity * pool.slab_bytes,
            held_bytes=pool.broker.held * pool.slab_bytes,
            shares=tuple([_share(account) for account in self.accounts.values()]),
            devices=tuple([_pool(name, each) for name, each in self.devices.items()]),
        )

    def check_integrity(self) -> None:
        """What must hold after every call."""
        for pool in self._pools:
            pool.check_integrity()
        for account in self.accounts.values():
            account.check_integrity()
        arenas = sum([len(account.arenas) for account in self.accounts.values()])
        assert arenas == sum([len(pool.arenas) for pool in self._pools])


def _asked(claim: Claim, pool: Pool) -> tuple[int, int]:
    """The slabs without which a model does not come, and the most that it may have."""
    asked = max(pool.slabs(claim.guarantee_bytes), pool.slabs(claim.fixed_bytes))
    limit = claim.limit_bytes // pool.slab_bytes if claim.limit_bytes else pool.broker.capacity
    return asked, limit


def _pool(name: str, pool: Pool) -> PoolSnapshot:
    slab = pool.slab_bytes
    return PoolSnapshot(name, pool.broker.capacity * slab, pool.broker.held * slab)


def _share(account: Account) -> ShareSnapshot:
    pool, share = account.pool, account.share
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
