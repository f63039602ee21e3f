"""The right to be a lake's one loader, on stores that know no locks: a claim that its holder renews again and again.

A claim is replaced only by compare-and-swap. A claim that has not changed for its own number of seconds, by the clock
of another process, belongs to a holder that is dead or stands still; clocks of two machines are never compared.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ottla.stores.base import LakeHeld, LakeRefused, StoreUnreachable

SECONDS = "OTTLA_LAKE_LEASE_SECONDS"
_DEFAULT_SECONDS = 20.0
_RENEWALS = 5
"""The number of renewals within the lease time."""
_GIVES_UP_AFTER = 5
"""The lease times for which a holder that could not renew goes on trying, unless another has taken over."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that the holder writes. A free lease has no owner."""

    owner: str
    token: str
    count: int
    seconds: float

    @property
    def free(self) -> bool:
        return not self.owner


class SeenClaim(NamedTuple):
    """A claim, and the version by which the store tells it from every other."""

    claim: Claim
    version: tuple[str, ...]


class ClaimCell(Protocol):
    """The one place of a store where the claim stands."""

    def look(self) -> SeenClaim | None:
        """The claim that stands there; None where there was never one."""

    def swap(self, seen: SeenClaim | None, claim: Claim) -> tuple[str, ...] | None:
        """Put a claim in place of the one that was seen; its version, or None where another one stands."""


def lease_seconds() -> float:
    """The lease time of this process: 20 seconds, or the value in the environment."""
    text = os.environ.get(SECONDS)
    if text is None:
        return _DEFAULT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise LakeRefused(f"{SECONDS} is '{text}': give a number of seconds from 1 to 3600")
    return seconds


def take(cell: ClaimCell, owner: str, place: str, seconds: float) -> LoaderLease:
    """Claim the lease; LakeRefused where another holder renews it. Waits out the lease of a holder that does not."""
    seen = _looked(cell, seconds)
    if seen is not None and not seen.claim.free:
        seen = _abandoned(cell, seen, place, seconds)
    claim = Claim(owner or "unknown", uuid.uuid4().hex, 0, seconds)
    sent = _now()
    swapped = _swap(cell, seen, claim)
    if swapped is None:
        other = cell.look()
        raise _refused(other.claim if other is not None else claim, place)
    return LoaderLease(cell, SeenClaim(claim, swapped.version), sent, place)


def _abandoned(cell: ClaimCell, first: SeenClaim, place: str, seconds: float) -> SeenClaim | None:
    """The claim once it is free or has stood still for its lease time."""
    since = _now()
    while _now() - since < first.claim.seconds:
        time.sleep(min(first.claim.seconds / 20, 1.0))
        seen = _looked(cell, seconds)
        if seen is None or seen.claim.free:
            return seen
        if seen != first:
            raise _refused(seen.claim, place)
    return first


def _looked(cell: ClaimCell, seconds: float) -> SeenClaim | None:
    """The claim that stands. Nothing is held yet, so that the store may take a lease time to answer.

    A renewal cannot wait that long, for which reason one request of the cell gives up early.
    """
    since = _now()
    while True:
        try:
            return cell.look()
        except StoreUnreachable:
            if _now() - since >= seconds:
                raise
            time.sleep(min(seconds / 20, 1.0))


def _refused(claim: Claim, place: str) -> LakeHeld:
    return LakeHeld(f"another loader ({claim.owner or 'unknown'}) is at work on {place}")


class _Swapped(NamedTuple):
    version: tuple[str, ...]
    now: bool
    """True if this very request swapped; else an earlier one may have, whose answer was lost."""


def _swap(cell: ClaimCell, seen: SeenClaim | None, claim: Claim) -> _Swapped | None:
    """Swap; if the outcome is in doubt, read the claim, as a repeated request is refused by its own first try."""
    lost: StoreUnreachable | None = None
    try:
        version = cell.swap(seen, claim)
        if version is not None:
            return _Swapped(version, now=True)
    except StoreUnreachable as fault:
        lost = fault
    found = cell.look()
    if found is not None and found.claim == claim:
        return _Swapped(found.version, now=False)
    if lost is not None:
        raise lost
    return None


class LoaderLease:
    """A claim that a thread of this process keeps renewing."""

    def __init__(self, cell: ClaimCell, seen: SeenClaim, sent: float, place: str) -> None:
        self._cell = cell
        self._seen = seen
        self._place = place
        self._renewed = sent
        """The time at which the request for the present claim was sent."""
        self._asked: float | None = None
        """The time at which the first request for the next claim was sent, if its outcome is not known."""
        self._lost = ""
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._keep, name="ottla-lake-lease", daemon=True)
        self._thread.start()
        atexit.register(self.release)  # a thread inside the store's client must not outlive the interpreter

    def check(self) -> None:
        """Return while the claim is fresh; else wait for a renewal, and raise LakeRefused where there is none.

        A claim that is not fresh may be taken over. A renewal swaps the claim that this holder wrote last, so if it
        succeeds no other loader has taken over meanwhile.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lost or self.is_fresh(), _GIVES_UP_AFTER * self._seen.claim.seconds)
            if self._lost or not self.is_fresh():
                raise LakeRefused(self._lost or self._not_renewed())

    def is_fresh(self) -> bool:
        """True if the lease time has not passed since the last renewal: until then no other takes over."""
        return _now() - self._renewed < self._seen.claim.seconds

    def _not_renewed(self) -> str:
        silent = _now() - self._renewed
        return f"this loader could not renew its lease of {self._place} for {silent:.0f} s and gives it up: start again"

    def release(self) -> None:
        """Write that the lease is free, if the claim is still ours."""
        atexit.unregister(self.release)
        self._ended.set()
        self._thread.join(self._seen.claim.seconds)
        if not self._lost and not self._thread.is_alive():
            self._lost = f"this loader has released {self._place}"
            free = Claim("", self._seen.claim.token, self._seen.claim.count + 1, self._seen.claim.seconds)
            with contextlib.suppress(OSError, LakeRefused):
                _swap(self._cell, self._seen, free)

    def _keep(self) -> None:
        while not self._lost and not self._ended.wait(self._seen.claim.seconds / _RENEWALS):
            with contextlib.suppress(OSError, LakeRefused):  # the next turn tries again, `check` counts the time
                self._renew()

    def _renew(self) -> None:
        sent = _now()
        self._asked = self._asked or sent
        claim = replace(self._seen.claim, count=self._seen.claim.count + 1)
        try:
            swapped = _swap(self._cell, self._seen, claim)
        except (OSError, LakeRefused):
            if _now() - self._renewed >= _GIVES_UP_AFTER * self._seen.claim.seconds:
                self._lose(self._not_renewed())
            raise
        if swapped is None:
            other = self._cell.look()
            owner = other.claim.owner if other is not None else ""
            self._lose(f"another loader ({owner or 'unknown'}) took over {self._place}")
            return
        with self._changed:
            self._seen = SeenClaim(claim, swapped.version)
            self._renewed = sent if swapped.now else self._asked
            self._asked = None
            self._changed.notify_all()

    def _lose(self, sentence: str) -> None:
        with self._changed:
            self._lost = sentence
            self._changed.notify_all()


def _now() -> float:
    """Seconds of a clock that also runs while the machine is suspended, where the system has one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
