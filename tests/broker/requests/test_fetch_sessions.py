"""Fetch sessions by the rules of KIP-227, without a broker around them."""

from __future__ import annotations

import pytest

from ottla.broker.requests.fetch_sessions import FetchSessions, Session
from ottla.kernel.errors import ErrorCode
from ottla.sim.loop import SimLoop
from ottla.wire.hot import Fetch

ME, SOMEBODY = "User:me", "User:somebody"
FULL, FINAL = 0, -1
T1, T2 = bytes([1]) * 16, bytes([2]) * 16
EVICTION_MS = 1000


class CountingEntropy:
    def __init__(self) -> None:
        self._next = 0

    def bytes(self, count: int) -> bytes:
        self._next += 1
        return self._next.to_bytes(count, "big")


class Cache:
    """A cache of sessions on a clock of its own."""

    def __init__(self, slots: int = 2) -> None:
        self.loop = SimLoop(1)
        self.sessions = FetchSessions(self.loop, CountingEntropy(), slots=slots, eviction_ms=EVICTION_MS)

    def fetch(
        self,
        session_id: int,
        epoch: int,
        wanted: dict[bytes, dict[int, int]] | None = None,
        *,
        forgotten: dict[bytes, list[int]] | None = None,
        principal: str = ME,
        by_id: bool = True,
        replica: bool = False,
    ) -> tuple[Session, bool] | ErrorCode:
        topics = [
            ("", topic_id, [(index, -1, offset, -1, -1, 1000) for index, offset in places.items()])
            for topic_id, places in (wanted or {}).items()
        ]
        gone = [("", topic_id, indexes) for topic_id, indexes in (forgotten or {}).items()]
        request = Fetch(-1, -1, 0, 1, 1 << 20, 0, session_id, epoch, topics, gone, "")
        return self.sessions.open(request, principal, by_id=by_id, replica=replica)

    def opened(self, *args: object, **how: object) -> Session:
        found = self.fetch(*args, **how)  # type: ignore[arg-type]
        assert not isinstance(found, ErrorCode), found
        return found[0]


def positions(session: Session) -> dict[tuple[bytes, int], int]:
    return {(watch.topic_id, watch.index): watch.fetch_offset for watch in session.watches.values()}


def test_a_full_fetch_makes_a_session_and_is_answered_in_full():
    cache = Cache()
    found = cache.fetch(0, FULL, {T1: {0: 5}})
    assert not isinstance(found, ErrorCode)
    session, full = found
    assert full
    assert session.id != 0
    assert positions(session) == {(T1, 0): 5}


def test_an_incremental_fetch_adds_moves_and_forgets():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5, 1: 7}})
    found = cache.fetch(session.id, 1, {T1: {0: 6}, T2: {3: 1}}, forgotten={T1: [1]})
    assert found == (session, False)
    assert positions(session) == {(T1, 0): 6, (T2, 3): 1}


def test_an_incremental_fetch_that_names_nothing_keeps_all_it_had():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5}})
    assert cache.opened(session.id, 1) is session
    assert positions(session) == {(T1, 0): 5}


@pytest.mark.parametrize("epoch", [2, 5])
def test_an_epoch_out_of_turn_is_refused_and_the_session_stays(epoch: int):
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5}})
    assert cache.fetch(session.id, epoch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.opened(session.id, 1) is session


def test_a_repeated_epoch_is_refused():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5}})
    cache.opened(session.id, 1)
    assert cache.fetch(session.id, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_after_the_largest_is_one():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5}})
    session.epoch = (1 << 31) - 1
    cache.opened(session.id, (1 << 31) - 1)
    assert cache.opened(session.id, 1) is session


def test_an_unknown_session_is_not_found():
    assert Cache().fetch(77, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_is_its_principals_own():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5}})
    assert cache.fetch(session.id, 1, principal=SOMEBODY) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    cache.fetch(session.id, FINAL, principal=SOMEBODY)
    assert cache.opened(session.id, 1) is session, "nobody else can close it"


def test_a_session_by_ids_cannot_be_gone_on_with_by_names():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5}})
    assert cache.fetch(session.id, 1, by_id=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_final_fetch_closes_the_session_and_opens_none():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 5}})
    last = cache.opened(session.id, FINAL, {T1: {0: 6}})
    assert last.id == 0
    assert len(cache.sessions) == 0
    assert cache.fetch(session.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_fetch_with_an_id_replaces_that_session():
    cache = Cache()
    first = cache.opened(0, FULL, {T1: {0: 5}})
    second = cache.opened(first.id, FULL, {T1: {1: 2}})
    assert second.id != first.id
    assert len(cache.sessions) == 1


def test_a_full_fetch_of_nothing_needs_no_session():
    assert Cache().opened(0, FULL).id == 0


def test_a_full_cache_gives_no_session_until_the_oldest_has_been_idle_for_long():
    cache = Cache(slots=2)
    oldest = cache.opened(0, FULL, {T1: {0: 0}})
    cache.loop.run_for(10)
    used = cache.opened(0, FULL, {T1: {0: 0}})
    assert cache.opened(0, FULL, {T1: {0: 0}}).id == 0
    cache.loop.run_for(EVICTION_MS - 10)
    newest = cache.opened(0, FULL, {T1: {0: 0}})
    assert newest.id != 0
    assert cache.sessions.evictions == 1
    assert cache.fetch(oldest.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.opened(used.id, 1) is used


def test_using_a_session_keeps_it():
    cache = Cache(slots=1)
    session = cache.opened(0, FULL, {T1: {0: 0}})
    cache.loop.run_for(EVICTION_MS - 1)
    cache.opened(session.id, 1)
    cache.loop.run_for(EVICTION_MS - 1)
    assert cache.opened(0, FULL, {T1: {0: 0}}).id == 0


def test_a_waiting_session_is_woken_once_per_turn_however_many_marks_come():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 0, 1: 0}})
    woken: list[int] = []
    session.wait().when_full(lambda: woken.append(cache.loop.turns))
    for watch in session.watches.values():
        watch.mark()
        watch.mark()
    assert woken == []
    cache.loop.run_for(0)
    assert len(woken) == 1


def test_closing_a_session_ends_its_wait():
    cache = Cache()
    session = cache.opened(0, FULL, {T1: {0: 0}})
    wait = session.wait()
    cache.opened(session.id, FINAL)
    assert wait.full


def test_a_follower_has_a_session_however_full_the_cache_is_and_its_newest_alone():
    cache = Cache(slots=0)
    assert cache.opened(0, FULL, {T1: {0: 1}}).id == 0
    first = cache.opened(0, FULL, {T1: {0: 1}}, principal="Broker:2", replica=True)
    assert first.id != 0
    assert cache.opened(first.id, 1, principal="Broker:2", replica=True) is first
    newest = cache.opened(0, FULL, {T1: {0: 1}}, principal="Broker:2", replica=True)
    gone = cache.fetch(first.id, 2, principal="Broker:2", replica=True)
    assert gone is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not first.watches
    assert cache.opened(newest.id, 1, principal="Broker:2", replica=True) is newest
    assert len(cache.sessions) == 0
