"""Fetch sessions: a reader's watched partitions, what it was last told, and its wait for more (KIP-227, rule E5).

Called by broker/handlers/fetch.py. A partition marks the watches on it when its end, watermark or error changes; a
waiting session is looked at once per turn of the loop, for any number of marks. A fetch without a session is a session
of one request. An incremental fetch also gets partitions that it does not name: marked ones are read from the offset
cached here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Clock, Entropy
from ottla.kernel.story import Slot

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.wire.hot import Fetch, FetchedFrom

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_INT32_MAX = (1 << 31) - 1


class Watch:
    """One partition in a session: the reader's offset, and what it was last told."""

    __slots__ = (
        "current_leader_epoch",
        "dirty",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start",
        "max_bytes",
        "name",
        "partition",
        "sent_error",
        "sent_high_watermark",
        "sent_log_start",
        "session",
        "topic_id",
    )

    def __init__(self, session: Session, name: str, topic_id: bytes, asked: FetchedFrom) -> None:
        self.session = session
        self.name = name
        self.topic_id = topic_id
        self.index = asked[0]
        self.partition: Partition | None = None
        self.dirty = False
        self.sent_high_watermark = -1
        self.sent_log_start = -1
        self.sent_error = False
        self.move(asked)

    def move(self, asked: FetchedFrom) -> None:
        _, self.current_leader_epoch, self.fetch_offset, self.last_fetched_epoch, self.log_start, self.max_bytes = asked

    def mark(self) -> None:
        """Note that the partition has changed: it is looked at when this turn ends, or with the next fetch."""
        session = self.session
        if not self.dirty:
            self.dirty = True
            session.dirty[self] = None
        if session.waiting is not None:
            session.wakeups.add(session)


class Session:
    """The watches of one reader, the marked ones, and the waiting fetch."""

    __slots__ = (
        "by_id", "dirty", "epoch", "id", "principal", "replica", "rights", "used_ms", "waiting", "wakeups", "watches",
    )  # fmt: skip

    def __init__(self, session_id: int, principal: str, wakeups: Wakeups, *, by_id: bool) -> None:
        self.id = session_id
        self.epoch = 1
        self.principal = principal
        self.by_id = by_id
        self.replica = False
        """True if a follower reads here, up to the log's end."""
        self.watches: dict[tuple[str, bytes, int], Watch] = {}
        self.dirty: OrderedDict[Watch, None] = OrderedDict()
        """Marked watches, first in, first out: a partition that was sent goes to the end, so that none starves."""
        self.used_ms = 0
        self.rights = -1
        """The version of the rights at the last look."""
        self.wakeups = wakeups
        self.waiting: Slot[None] | None = None
        """The wait of the fetch that has found too little so far."""

    def add(self, name: str, topic_id: bytes, asked: FetchedFrom) -> Watch:
        """Watch a partition, or move the watch on it."""
        key = (name, topic_id, asked[0])
        watch = self.watches.get(key)
        if watch is None:
            watch = self.watches[key] = Watch(self, name, topic_id, asked)
        else:
            watch.move(asked)
        watch.mark()
        return watch

    def allowed_at(self, version: int) -> None:
        """Look at every watch if the rights have changed since the last look."""
        if self.rights != version:
            self.rights = version
            for watch in self.watches.values():
                watch.mark()

    def forget(self, name: str, topic_id: bytes, index: int) -> None:
        watch = self.watches.pop((name, topic_id, index), None)
        if watch is not None:
            self.dirty.pop(watch, None)
            self.unwatch(watch)

    def watch(self, watch: Watch, partition: Partition | None) -> None:
        """Tie a watch to the present object of its partition."""
        if watch.partition is not partition:
            self.unwatch(watch)
            watch.partition = partition
            if partition is not None:
                partition.readers.add(watch, follows=self.replica)
                partition.hurry()

    def unwatch(self, watch: Watch) -> None:
        if watch.partition is not None:
            watch.partition.readers.remove(watch)
            watch.partition = None

    def wait(self) -> Slot[None]:
        """A slot that is filled once a watch is marked; `wake` fills it too."""
        self.wake()
        self.waiting = Slot()
        return self.waiting

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.fill(None)

    def close(self) -> None:
        self.wake()
        for watch in self.watches.values():
            self.unwatch(watch)
        self.watches.clear()
        self.dirty.clear()


class Wakeups:
    """Sessions to look at before this turn of the loop ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[Session, None] = {}

    def add(self, session: Session) -> None:
        if not self._sessions:
            self._clock.call_soon(self._deliver)
        self._sessions[session] = None

    def _deliver(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            session.wake()


class FetchSessions:
    """The cache of incremental sessions; if it is full of recent ones, new readers get none.

    A follower always has a session, its newest, beside the cache: without it each of its fetches would be answered at
    once, as the leader would not know what it told last.
    """

    def __init__(self, clock: Clock, entropy: Entropy, *, slots: int, eviction_ms: int) -> None:
        self._clock = clock
        self._entropy = entropy
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._followers: dict[str, Session] = {}
        """Sessions of followers by principal."""
        self.wakeups = Wakeups(clock)
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_cached(self) -> int:
        return sum(len(session.watches) for session in self._sessions.values())

    def open(
        self, fetch: Fetch, principal: str, *, by_id: bool, replica: bool = False
    ) -> tuple[Session, bool] | ErrorCode:
        """The session of a fetch with its changes applied, and whether the answer must be full."""
        if fetch.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if fetch.session_id != NO_SESSION:
                self._close(fetch.session_id, principal)
            session_id = NO_SESSION
            if fetch.session_epoch == INITIAL_EPOCH and fetch.topics:
                session_id = self._draw_id() if replica else self._new_id()
            session = Session(session_id, principal, self.wakeups, by_id=by_id)
            session.replica = replica
            if session_id != NO_SESSION:
                self._keep(session)
            self._take_in(session, fetch)
            session.used_ms = self._clock.mono_ms()
            return session, True
        found = self._followers.get(principal) if replica else self._sessions.get(fetch.session_id)
        if found is None or found.principal != principal or found.id != fetch.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != fetch.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if found.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        found.epoch = 1 if found.epoch == _INT32_MAX else found.epoch + 1
        for name, topic_id, indexes in fetch.forgotten:
            for index in indexes:
                found.forget(name, topic_id, index)
        self._take_in(found, fetch)
        found.used_ms = self._clock.mono_ms()
        if not replica:
            self._sessions.move_to_end(found.id)
        return found, False

    def drop(self, session: Session) -> None:
        """Forget a session of which its reader was not told."""
        self._close(session.id, session.principal)

    @staticmethod
    def _take_in(session: Session, fetch: Fetch) -> None:
        add = session.add
        for name, topic_id, partitions in fetch.topics:
            for asked in partitions:
                add(name, topic_id, asked)

    def _keep(self, session: Session) -> None:
        if session.replica:
            before = self._followers.get(session.principal)
            self._followers[session.principal] = session
            if before is not None:
                before.close()
        else:
            self._sessions[session.id] = session

    def _close(self, session_id: int, principal: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.principal == principal:
            del self._sessions[session_id]
            session.close()
            return
        session = self._followers.get(principal)
        if session is not None and session.id == session_id:
            del self._followers[principal]
            session.close()

    def _new_id(self) -> int:
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._clock.mono_ms() - oldest.used_ms < self._eviction_ms:
                return NO_SESSION
            self._close(oldest.id, oldest.principal)
            self.evictions += 1
        return self._draw_id()

    def _draw_id(self) -> int:
        while True:
            session_id = int.from_bytes(self._entropy.bytes(4), "big") & _INT32_MAX
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id


FindPartition = Callable[[str, bytes, int], "Partition | ErrorCode"]
