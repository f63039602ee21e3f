"""Processors of tables: rows and their updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.streams.engine.task import Context
from ottla.streams.serdes import LONG, Serde, changes, flagged, header_parts, headers_of, joined, parted
from ottla.streams.values import NO_TIMESTAMP, Change, Record, Stamped

Getter = Callable[[Any], Stamped | None]
GetterAt = Callable[[Any, int], Stamped | None]
"""The row of a key as it was at a time."""
ViewAt = Callable[[Context], GetterAt]
View = Callable[[Context], Getter]
"""Gives a processor the way to look up another table's rows."""


@dataclass(slots=True)
class TableSettings:
    """The store of a table's processor, and whether updates carry the row before; settled while the graph is built."""

    store: str | None = None
    send_old: bool = False


class TableSource:
    """Turns records into updates of rows; keeps the rows if anybody looks them up."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        self._store = context.store(self._settings.store) if self._settings.store else None

    def process(self, record: Record) -> None:
        """Update one row; a record without a key is dropped and counted."""
        if record.key is None:
            self._context.drop()
        elif self._store is None:
            self._context.forward(record.with_value(Change(record.value, None)))
        else:
            before = self._store.get(record.key)
            latest = self._store.put(record.key, record.value, record.timestamp)
            if latest is not None:
                old = before.value if before and self._settings.send_old else None
                self._context.forward(record.with_value(Change(record.value, old, latest)))


class TableMap:
    """Computes each row from the row of the table before: map_values, filter."""

    def __init__(self, settings: TableSettings, compute: Callable[[Any, Any], Any], *, is_filter: bool) -> None:
        self._settings, self._compute, self._is_filter = settings, compute, is_filter

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        self._store = context.store(self._settings.store) if self._settings.store else None

    def process(self, record: Record) -> None:
        """Compute the row again; a filter is silent where neither the old nor the new row is there."""
        change = record.value
        new = self._row(record.key, change.new)
        old = self._old(record.key, change)
        if self._is_filter and self._settings.send_old and old is None and new is None:
            return
        latest = change.latest
        if self._store is not None:
            latest = self._store.put(record.key, new, record.timestamp)
        self._context.forward(record.with_value(Change(new, old, latest)))

    def _row(self, key: Any, value: Any) -> Any:
        return None if value is None else self._compute(key, value)

    def _old(self, key: Any, change: Change) -> Any:
        if not self._settings.send_old:
            return None
        if self._store is None:
            return self._row(key, change.old)
        before = self._store.get(key)
        return before.value if before else None


class Regroup:
    """Sends each update of a table to its groups: the old row to be taken away, the new one to be added."""

    def __init__(self, choose: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self._choose = choose

    def init(self, context: Context) -> None:
        """Take the way to the nodes behind."""
        self._context = context

    def process(self, record: Record) -> None:
        """Send one update if the group stays the same, else two: the one that takes away first (KIP-904)."""
        change = record.value
        if not change.latest:  # of a versioned table: the group has a newer row (KIP-914)
            self._context.drop()
            return
        new = self._group(record.key, change.new)
        old = self._group(record.key, change.old)
        if new and old and new[0] == old[0]:
            self._send(record, new[0], Change(new[1], old[1], change.latest))
            return
        if old:
            self._send(record, old[0], Change(None, old[1], change.latest))
        if new:
            self._send(record, new[0], Change(new[1], None, change.latest))

    def _group(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        pair = None if value is None else self._choose(key, value)
        return None if pair is None or pair[0] is None or pair[1] is None else pair

    def _send(self, record: Record, key: Any, change: Change) -> None:
        self._context.forward(Record(key, change, record.timestamp, record.headers))


class TableAggregate:
    """Keeps an aggregate of the rows of each group, by adding new rows and taking old ones away."""

    def __init__(
        self,
        settings: TableSettings,
        start: Callable[[], Any] | None,
        add: Callable[[Any, Any, Any], Any],
        subtract: Callable[[Any, Any, Any], Any],
    ) -> None:
        self._settings, self._start, self._add, self._subtract = settings, start, add, subtract

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        assert self._settings.store
        self._store = context.store(self._settings.store)

    def process(self, record: Record) -> None:
        """Take the old row away, then add the new one; without `start` the first row is the aggregate itself."""
        change = record.value
        before = self._store.get(record.key)
        aggregate = before.value if before else None
        if change.old is not None and aggregate is not None:
            aggregate = self._subtract(record.key, change.old, aggregate)
        if change.new is not None:
            if aggregate is not None:
                aggregate = self._add(record.key, change.new, aggregate)
            elif self._start is None:
                aggregate = change.new
            else:
                aggregate = self._add(record.key, change.new, self._start())
        time = max(record.timestamp, before.timestamp) if before else record.timestamp
        latest = self._store.put(record.key, aggregate, time)
        old = before.value if before and self._settings.send_old else None
        self._context.forward(record.with_value(Change(aggregate, old, latest)).with_timestamp(time))


class StreamAggregate:
    """Keeps an aggregate of the records of each key."""

    def __init__(
        self, settings: TableSettings, start: Callable[[], Any] | None, add: Callable[[Any, Any, Any], Any]
    ) -> None:
        self._settings, self._start, self._add = settings, start, add

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        assert self._settings.store
        self._store = context.store(self._settings.store)

    def process(self, record: Record) -> None:
        """Add one record; without `start` the first value is the aggregate itself. Nulls are dropped and counted."""
        if record.key is None or record.value is None:
            self._context.drop()
            return
        before = self._store.get(record.key)
        time = max(record.timestamp, before.timestamp) if before else record.timestamp
        old = before.value if before else self._start() if self._start else None
        if old is None:
            new = record.value
        else:
            # On a copy: a function that changes its aggregate in place must not change `old`.
            copy = self._store.value.from_bytes(self._store.value.to_bytes(old)) if self._settings.send_old else old
            new = self._add(record.key, record.value, copy)
        latest = self._store.put(record.key, new, time)
        sent = old if self._settings.send_old else None
        self._context.forward(record.with_value(Change(new, sent, latest)).with_timestamp(time))


class Suppress:
    """Holds updates back until their time has come; the newest update of a key takes the waiting one's place."""

    def __init__(
        self,
        store: str,
        key: Serde,
        value: Serde,
        wait_ms: int,
        *,
        by_window_end: bool,
        most: int | None,
    ) -> None:
        self._store_name, self._key, self._wait_ms = store, key, wait_ms
        self._value, self._changes = value, changes(value)
        self._by_window_end, self._most = by_window_end, most

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        self._store = context.store(self._store_name)

    def process(self, record: Record) -> None:
        """Keep one update; send on those whose time has come. Final results leave out deleted windows."""
        now = self._context.times.raise_to(self._context.name, record.timestamp)
        time = record.key.end if self._by_window_end else record.timestamp
        key = self._key.write(record.key)
        waiting = self._store.get(key)
        shown = self._value.to_bytes(record.value.old) if waiting is None else _shown(waiting)
        self._store.put(time, key, self._written(record, shown))
        while (oldest := self._store.oldest()) and (oldest[0] <= now - self._wait_ms or self._too_many()):
            _, key, data = oldest
            waited = self._read(key, data)
            if waited.value.new is not None or not self._by_window_end:
                self._context.forward(waited)
            self._store.remove(key)  # after that, as in Kafka: a join of the table with itself sees the row before

    def _written(self, record: Record, shown: bytes | None) -> bytes:
        """A record without its key: the timestamp, the change, headers by name and value, the row sent on before.

        A flag says if the value of a header or the row is null.
        """
        written = self._changes.to_bytes(record.value)
        assert written is not None
        return joined([LONG.pack(record.timestamp), written, *header_parts(record.headers), flagged(shown)])

    def _read(self, key: bytes, data: bytes) -> Record:
        time, change, *headers = parted(data)
        named = headers_of(headers)  # the row sent on before is the odd one at the end
        return Record(self._key.read(key), self._changes.read(change), LONG.unpack(time)[0], named)

    def _too_many(self) -> bool:
        return self._most is not None and len(self._store) > self._most


def suppressed(store: str, key: Serde, value: Serde, parent: View) -> View:
    """The rows as they were sent on: those of a key that waits are the ones before, as in Kafka."""

    def view(context: Context) -> Getter:
        waiting, row = context.store(store), parent(context)

        def get(wanted: Any) -> Stamped | None:
            held = waiting.get(key.write(wanted))
            if held is None:
                return row(wanted)
            shown = value.from_bytes(_shown(held))
            return None if shown is None else Stamped(shown, NO_TIMESTAMP)

        return get

    return view


def _shown(waiting: bytes) -> bytes | None:
    """The row of a waiting entry that was sent on before; None where an earlier version of ottla wrote the entry."""
    _, _, *rest = parted(waiting)
    return rest[-1][1:] if len(rest) % 2 and rest[-1] else None
