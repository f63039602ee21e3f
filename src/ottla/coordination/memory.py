"""The metadata log in memory: for `--memory`, and the model against which the real engines are tested.

One `MemoryStore` is what a database file or an ensemble would be; each broker opens a `MemoryCoordination` on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, LogEntry, StoredSnapshot, Unknown, Written
from ottla.kernel.story import Slot


class MemoryStore:
    """The log itself: every operation is atomic and ends before it returns."""

    __slots__ = ("_entries", "_first", "_snapshots", "ages", "listeners", "live")

    def __init__(self) -> None:
        self._first = 1
        self._entries: list[bytes] = []
        self._snapshots: list[StoredSnapshot] = []
        self.ages: dict[str, int] = {}
        """By name, the greatest number that was kept."""
        self.live: dict[BrokerId, object] = {}
        """The brokers that are alive, each with the session by which it joined."""
        self.listeners: dict[BrokerId, Callable[[], None]] = {}
        """By broker; called after each event that a broker may want to know of."""

    @property
    def head(self) -> int:
        return self._first + len(self._entries) - 1

    def append(self, entries: Sequence[bytes], expected_version: int) -> Written | Conflict:
        if expected_version != self.head:
            return Conflict(self.head)
        self._entries.extend(entries)
        return Written(self.head)

    def read(self, after_version: int, limit: int) -> list[LogEntry]:
        if after_version < self._first - 1:
            raise LookupError(f"the metadata log begins at {self._first}")
        start = after_version + 1 - self._first
        bodies = self._entries[start : start + limit]
        return [LogEntry(after_version + 1 + index, body) for index, body in enumerate(bodies)]

    def load_snapshot(self) -> StoredSnapshot | None:
        return self._snapshots[-1] if self._snapshots else None

    def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Cut the log below the snapshot before this one; a snapshot older than the present one is ignored."""
        if self._snapshots and snapshot.version <= self._snapshots[-1].version:
            return
        self._snapshots = [*self._snapshots[-1:], snapshot]
        if len(self._snapshots) == 2 and self._snapshots[0].version >= self._first:
            cut = self._snapshots[0].version + 1 - self._first
            del self._entries[:cut]
            self._first += cut

    def raise_age(self, name: str, age: int) -> int:
        self.ages[name] = max(age, self.ages.get(name, 0))
        return self.ages[name]

    def saved(self) -> Callable[[], None]:
        """A copy of the log, as a function that puts it back."""
        first, entries, snapshots, ages = self._first, list(self._entries), list(self._snapshots), dict(self.ages)

        def put_back() -> None:
            self.ages = dict(ages)
            self._first, self._entries, self._snapshots = first, list(entries), list(snapshots)

        return put_back

    def join(self, broker_id: BrokerId, session: object) -> None:
        self.live[broker_id] = session
        self.tell_others(broker_id)

    def leave(self, broker_id: BrokerId, session: object) -> None:
        """End a session; a later one of the same broker goes on."""
        if self.live.get(broker_id) is session:
            del self.live[broker_id]
            self.listeners.pop(broker_id, None)
            self.tell_others(broker_id)

    def tell_others(self, broker_id: BrokerId) -> None:
        for other in sorted(self.listeners):
            if other != broker_id and (listener := self.listeners.get(other)) is not None:
                listener()


class MemoryCoordination:
    """One broker's connection to a `MemoryStore`; every slot comes back full."""

    def __init__(self, store: MemoryStore, broker_id: BrokerId) -> None:
        self.name = "memory"
        self._store = store
        self._broker_id = broker_id
        self._closed = False
        store.join(broker_id, self)

    def append(self, entries: Sequence[bytes], expected_version: int) -> Slot[Written | Conflict | Unknown]:
        outcome = self._store.append(entries, expected_version)
        slot: Slot[Written | Conflict | Unknown] = Slot()
        slot.fill(outcome)
        if isinstance(outcome, Written):
            self._store.tell_others(self._broker_id)
        return slot

    def read(self, after_version: int, limit: int = 1000) -> Slot[list[LogEntry]]:
        slot: Slot[list[LogEntry]] = Slot()
        try:
            slot.fill(self._store.read(after_version, limit))
        except LookupError as cut:
            slot.fail(cut)
        return slot

    def head(self) -> Slot[int]:
        slot: Slot[int] = Slot()
        slot.fill(self._store.head)
        return slot

    def load_snapshot(self) -> Slot[StoredSnapshot | None]:
        slot: Slot[StoredSnapshot | None] = Slot()
        slot.fill(self._store.load_snapshot())
        return slot

    def save_snapshot(self, snapshot: StoredSnapshot) -> Slot[None]:
        slot: Slot[None] = Slot()
        self._store.save_snapshot(snapshot)
        slot.fill(None)
        return slot

    def raise_age(self, name: str, age: int) -> Slot[int]:
        slot: Slot[int] = Slot()
        slot.fill(self._store.raise_age(name, age))
        return slot

    def on_change(self, listener: Callable[[], None]) -> None:
        self._store.listeners[self._broker_id] = listener

    def live(self) -> frozenset[BrokerId]:
        return frozenset(self._store.live)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._store.leave(self._broker_id, self)
