"""The lease alone, on a cell in memory that loses requests and answers on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ottla.stores.base import LakeRefused, StoreUnreachable
from ottla.stores.lease import Claim, SeenClaim, _now, lease_seconds, take

SECONDS = 1.0


class MemoryCell:
    """A cell whose next requests may be lost, or their answers."""

    def __init__(self) -> None:
        self.seen: SeenClaim | None = None
        self.swaps = 0
        self.lose_answers = 0
        self.lose_requests = 0
        self.lose_looks = 0
        self.lose_looks_after = -1
        """The number of reads that are answered before one is lost."""
        self.landed = 0.0
        """The time at which the claim was last swapped."""
        self._lock = threading.Lock()

    def look(self) -> SeenClaim | None:
        with self._lock:
            if self.lose_looks:
                self.lose_looks -= 1
                raise StoreUnreachable("the look was lost")
            if self.lose_looks_after >= 0:
                self.lose_looks_after -= 1
                if self.lose_looks_after < 0:
                    raise StoreUnreachable("the look was lost")
            return self.seen

    def swap(self, seen: SeenClaim | None, claim: Claim) -> tuple[str, ...] | None:
        with self._lock:
            if self.lose_requests:
                self.lose_requests -= 1
                raise StoreUnreachable("the request was lost")
            if seen != self.seen:
                return None
            self.swaps += 1
            self.landed = _now()
            self.seen = SeenClaim(claim, (str(self.swaps),))
            if self.lose_answers:
                self.lose_answers -= 1
                raise StoreUnreachable("the answer was lost")
            return self.seen.version


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_lost(lease) -> bool:  # type: ignore[no-untyped-def]
    try:
        lease.check()
    except LakeRefused:
        return True
    return False


def test_a_lease_is_renewed_again_and_again():
    cell = MemoryCell()
    lease = take(cell, "one", "the lake", SECONDS)
    until(lambda: cell.swaps > 8)
    lease.check()
    lease.release()
    assert cell.seen is not None
    assert cell.seen.claim.free


def test_a_lost_answer_is_found_to_be_ones_own():
    cell = MemoryCell()
    cell.lose_answers = 1
    lease = take(cell, "one", "the lake", SECONDS)
    cell.lose_answers = 2
    until(lambda: cell.swaps > 5)
    lease.check()
    lease.release()


def test_a_renewal_found_later_counts_from_its_first_request():
    """The holder must not count the lease as longer than its heir does, who counts from the claim's change."""
    cell = MemoryCell()
    lease = take(cell, "one", "the lake", 5.0)
    cell.lose_answers, cell.lose_looks = 1, 1
    until(lambda: cell.swaps == 2 and lease._seen.claim.count == 1)
    assert lease._renewed <= cell.landed
    lease.release()


def test_a_store_that_does_not_answer_at_first_is_asked_again():
    cell = MemoryCell()
    cell.lose_looks = 3
    take(cell, "one", "the lake", 60.0).release()
    assert cell.lose_looks == 0


def test_a_store_that_does_not_answer_for_the_lease_time_is_unreachable():
    cell = MemoryCell()
    cell.lose_looks = 10_000
    with pytest.raises(StoreUnreachable, match="the look was lost"):
        take(cell, "one", "the lake", SECONDS)
    assert cell.lose_looks < 9_999


def test_one_who_waits_for_a_dead_holder_bears_a_lost_look():
    cell = MemoryCell()
    cell.seen = SeenClaim(Claim("dead", "token", 3, SECONDS), ("dead",))
    cell.lose_looks_after = 2
    lease = take(cell, "heir", "the lake", 60.0)
    assert cell.lose_looks_after == -1
    lease.release()


def test_lost_requests_are_made_up_for_within_the_lease_time():
    cell = MemoryCell()
    lease = take(cell, "one", "the lake", 2.0)
    cell.lose_requests = 2
    until(lambda: cell.swaps > 3)
    lease.check()
    lease.release()


def test_a_holder_whose_requests_are_all_lost_gives_up_by_its_own_clock():
    cell = MemoryCell()
    lease = take(cell, "one", "the lake", SECONDS)
    cell.lose_requests = 1_000_000
    until(lambda: is_lost(lease))
    cell.lose_requests = 0
    until(lambda: not lease._thread.is_alive())
    assert is_lost(lease), "what was lost for a moment stays lost"
    lease.release()


def test_one_who_takes_over_waits_until_the_holder_has_given_up():
    """The holder cannot reach the store; at the moment of the takeover its own check fails."""
    cell = MemoryCell()
    holder = take(cell, "one", "the lake", SECONDS)

    class FarCell:
        look = cell.look

        def swap(self, seen: SeenClaim | None, claim: Claim) -> tuple[str, ...] | None:
            assert not holder.is_fresh()
            cell.lose_requests = 0
            return cell.swap(seen, claim)

    cell.lose_requests = 1_000_000
    heir = take(FarCell(), "two", "the lake", SECONDS)
    heir.check()
    with pytest.raises(LakeRefused, match="two"):
        holder.check()
    heir.release()
    holder.release()


def test_a_holder_that_could_not_renew_goes_on_once_it_can_where_nobody_took_over():
    """After a suspended machine or a slow store, the loader continues without an administrator."""
    cell = MemoryCell()
    lease = take(cell, "one", "the lake", SECONDS)
    cell.lose_requests = 1_000_000
    until(lambda: not lease.is_fresh())
    threading.Timer(0, setattr, (cell, "lose_requests", 0)).start()
    lease.check()
    assert lease.is_fresh()
    lease.release()


def test_the_time_to_wait_is_the_holders_own():
    cell = MemoryCell()
    cell.seen = SeenClaim(Claim("one", "token", 0, 2.0), ("0",))
    began = time.monotonic()
    take(cell, "two", "the lake", 60.0).release()
    assert time.monotonic() - began >= 2.0, "a lower bound, which no slow machine breaks"


def test_a_holder_that_is_overtaken_learns_by_whom():
    cell = MemoryCell()
    lease = take(cell, "one", "the lake", SECONDS)
    with cell._lock:
        cell.seen = SeenClaim(Claim("two", "other", 0, SECONDS), ("x",))
    until(lambda: is_lost(lease))
    with pytest.raises(LakeRefused, match="two"):
        lease.check()
    lease.release()
    assert cell.seen.claim.owner == "two"


def test_of_racing_claims_one_wins_and_the_others_name_it():
    cell = MemoryCell()
    start = threading.Barrier(5)
    won, refused = [], []

    def claim(number: int) -> None:
        start.wait()
        try:
            won.append((number, take(cell, f"loader {number}", "the lake", SECONDS)))
        except LakeRefused as fault:
            refused.append(str(fault))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert refused == [f"another loader (loader {won[0][0]}) is at work on the lake"] * 4
    won[0][1].release()


@pytest.mark.parametrize("text", ["", "0", "-3", "soon", "1e9"])
def test_a_lease_time_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("OTTLA_LAKE_LEASE_SECONDS", text)
    with pytest.raises(LakeRefused, match="from 1 to 3600"):
        lease_seconds()


def test_the_lease_time_is_20_seconds_or_what_the_environment_says(monkeypatch):
    monkeypatch.delenv("OTTLA_LAKE_LEASE_SECONDS", raising=False)
    assert lease_seconds() == 20
    monkeypatch.setenv("OTTLA_LAKE_LEASE_SECONDS", "7.5")
    assert lease_seconds() == 7.5
