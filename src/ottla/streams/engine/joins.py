"""Processors of joins: stream with table, table with table, stream with stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.tables import View, ViewAt
from ottla.streams.engine.task import Context
from ottla.streams.serdes import LONG, Serde, header_parts, headers_of, joined, parted
from ottla.streams.values import Change, Record

Joiner = Callable[[Any, Any], Any]
JoinerWithKey = Callable[[Any, Any, Any], Any]
"""The key and both values to the joined value."""
LEFT, RIGHT = b"\1", b"\0"
"""The sides of a join, as they are ordered among records of one time."""
NEVER = 2**62


class StreamTableJoin:
    """Looks up the row that belongs to each record; the table's updates trigger nothing.

    With `view_at`, of a versioned table, it is the row that was valid at the record's time.
    """

    def __init__(
        self, view: View, table_key: Callable[[Any, Any], Any], joiner: JoinerWithKey, *, left: bool,
        view_at: ViewAt | None = None,
    ) -> None:  # fmt: skip
        self._view, self._table_key, self._joiner, self._left = view, table_key, joiner, left
        self._view_at = view_at

    def init(self, context: Context) -> None:
        """Take the way to the table's rows."""
        self._context = context
        self._row = self._view(context)
        self._row_at = self._view_at(context) if self._view_at else None

    def process(self, record: Record) -> None:
        """Join one record; one without a value, or without a key in an inner join, is dropped and counted (KIP-962)."""
        key = None if record.value is None else self._table_key(record.key, record.value)
        if record.value is None or (key is None and not self._left):
            self._context.drop()
            return
        row = None if key is None else self._row_at(key, record.timestamp) if self._row_at else self._row(key)
        value = row.value if row else None
        if value is not None or self._left:
            self._context.forward(record.with_value(self._joiner(record.key, record.value, value)))


class GraceJoin:
    """Holds the records of a join with a versioned table back until stream time is past theirs by a grace (KIP-923).

    Stream time is here that of the records that waited: the table's updates do not move it.
    """

    def __init__(self, join: StreamTableJoin, store: str, key: Serde, value: Serde, grace_ms: int) -> None:
        self._join, self._store_name, self._key, self._value, self._grace_ms = join, store, key, value, grace_ms

    def init(self, context: Context) -> None:
        """Take the store of the records that wait."""
        self._context = context
        self._join.init(context)
        self._store = context.store(self._store_name)

    def process(self, record: Record) -> None:
        """Keep one record and join those whose time has come; a late one, or one without a key, is joined at once."""
        times, name = self._context.times, self._context.name
        late = record.timestamp < times.seen.get(name, -1) - self._grace_ms
        if late or record.key is None or record.value is None:
            self._join.process(record)
            return
        self._keep(record)
        closed = times.raise_to(name, record.timestamp) - self._grace_ms
        for time, waiting, data in self._store.in_order():
            if time > closed:
                return
            key = self._key.read(waiting[: -LONG.size])
            for one in parted(data):
                value, *headers = parted(one)
                waited = Record(key, self._value.read(value), time, headers_of(headers))
                self._context.process_waited(self._join.process, waited)
            self._store.remove(waiting)

    def _keep(self, record: Record) -> None:
        """Keep a record behind those of the same key and time."""
        key, value = self._key.to_bytes(record.key), self._value.to_bytes(record.value)
        assert key is not None
        assert value is not None
        waiting = key + LONG.pack(record.timestamp)
        written = joined([joined([value, *header_parts(record.headers)])])
        self._store.put(record.timestamp, waiting, (self._store.get(waiting) or b"") + written)


class TableTableJoin:
    """One side of a join of tables: an update of this side meets the other side's row."""

    def __init__(
        self, other: View, joiner: Joiner, send_old: Callable[[], bool], *, keeps_this: bool, keeps_other: bool
    ) -> None:
        self._other, self._joiner, self._send_old = other, joiner, send_old
        self._keeps_this, self._keeps_other = keeps_this, keeps_other

    def init(self, context: Context) -> None:
        """Take the way to the other side's rows."""
        self._context = context
        self._row = self._other(context)

    def process(self, record: Record) -> None:
        """Send the joined row; an inner join is silent without the other side's row, an outer one without any."""
        change = record.value
        if record.key is None or not change.latest:  # an older version: the other side has met a newer one (KIP-914)
            self._context.drop()
            return
        row = self._row(record.key)
        other = row.value if row else None
        if other is None and (not self._keeps_this or (change.new is None and change.old is None)):
            return
        time = record.timestamp if other is None or row is None else max(record.timestamp, row.timestamp)
        new = self._joined(change.new, other)
        old = self._joined(change.old, other) if self._send_old() else None
        self._context.forward(record.with_value(Change(new, old, change.latest)).with_timestamp(time))

    def _joined(self, this: Any, other: Any) -> Any:
        if this is None and (other is None or not self._keeps_other):
            return None
        if other is None and not self._keeps_this:
            return None
        return self._joiner(this, other)


class JoinMerge:
    """Sends on the rows of both sides of a join of tables, and keeps them if the result has a store."""

    def __init__(self, store: Callable[[], str | None], send_old: Callable[[], bool]) -> None:
        self._store_name, self._send_old = store, send_old

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        name = self._store_name()
        self._store = context.store(name) if name else None

    def process(self, record: Record) -> None:
        """Keep one row and send it on."""
        if self._store is None:
            self._context.forward(record)
            return
        before = self._store.get(record.key)
        self._store.put(record.key, record.value.new, record.timestamp)
        old = before.value if before and self._send_old() else None
        self._context.forward(record.with_value(Change(record.value.new, old, record.value.latest)))


class JoinWindow:
    """Keeps the records of one side of a join of streams."""

    def __init__(self, store: str) -> None:
        self._store_name = store

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        self._store = context.store(self._store_name)

    def process(self, record: Record) -> None:
        """Send one record on to the join and keep it; one without a key is not kept."""
        self._context.forward(record)
        if record.key is not None:
            self._store.add(record.key, record.value, record.timestamp)


class StreamStreamJoin:
    """One side of a join of streams: a record meets those of the other side within the window.

    Records that meet nobody wait in a store that both sides share, until their window and the grace are over;
    Kafka looks there once a second of the time of day, this engine at every record that moves stream time.
    """

    def __init__(
        self,
        other_store: str,
        unmatched_store: str | None,
        joiner: JoinerWithKey,
        *,
        left: bool,
        outer: bool,
        before_ms: int,
        after_ms: int,
        grace_ms: int,
        clock: str,
        values: tuple[Serde, Serde],
    ) -> None:
        self._other_name, self._unmatched_name, self._joiner = other_store, unmatched_store, joiner
        self._left, self._outer, self._clock, self._oldest = left, outer, clock, clock + " oldest"
        self._grace_ms, self._values = grace_ms, {LEFT: values[0], RIGHT: values[1]}
        # The window as the left side sees it; the right side looks the other way.
        self._before_ms, self._after_ms = (before_ms, after_ms) if left else (after_ms, before_ms)
        self._waits = {LEFT: after_ms, RIGHT: before_ms}

    def init(self, context: Context) -> None:
        """Take the stores."""
        self._context = context
        self._other = context.store(self._other_name)
        self._unmatched = context.store(self._unmatched_name) if self._unmatched_name else None

    def process(self, record: Record) -> None:
        """Join one record with all that it meets, oldest first."""
        now = self._context.times.raise_to(self._clock, record.timestamp)
        if self._outer and record.key is None and record.value is not None:
            self._context.forward(record.with_value(self._joined(record.key, record.value, None)))
            return
        if record.key is None or record.value is None:
            self._context.drop()
            return
        if record.timestamp == now and self._unmatched is not None:
            self._give_up(record, now)
        first, last = max(0, record.timestamp - self._before_ms), max(0, record.timestamp + self._after_ms)
        met = self._other.within(record.key, first, last)
        for time, value in met:
            if self._unmatched is not None:
                self._unmatched.remove(self._waiting_key(RIGHT if self._left else LEFT, time, record.key))
            joined = record.with_value(self._joined(record.key, record.value, value))
            self._context.forward(joined.with_timestamp(max(record.timestamp, time)))
        if not met and self._outer:
            if self._unmatched is None or last < now:
                self._context.forward(record.with_value(self._joined(record.key, record.value, None)))
            else:
                self._wait(record)

    def _wait(self, record: Record) -> None:
        """Keep a record that met nobody, behind those of the same key, side and time."""
        assert self._unmatched is not None
        side = LEFT if self._left else RIGHT
        key = self._waiting_key(side, record.timestamp, record.key)
        waiting = self._unmatched.get(key) or b""
        self._unmatched.put(record.timestamp, key, waiting + joined([self._values[side].write(record.value)]))
        self._context.times.set(self._oldest, min(self._oldest_waiting(), record.timestamp))

    def _give_up(self, record: Record, now: int) -> None:
        """Send the records that can meet nobody any more, by time, side and key, as far as Kafka looks."""
        if self._oldest_waiting() + self._after_ms + self._grace_ms >= now:
            return
        assert self._unmatched is not None
        oldest = NEVER
        still_open: set[bytes] = set()
        for time, waiting, data in self._unmatched.in_order():
            side, oldest = waiting[:1], time
            if len(still_open) == 2:
                break
            if time + self._waits[side] + self._grace_ms >= now:
                still_open.add(side)
                continue
            self._unmatched.remove(waiting)
            key = self._other.key.read(waiting[1:-8])
            for value in map(self._values[side].read, parted(data)):
                sent = self._joiner(key, value, None) if side == LEFT else self._joiner(key, None, value)
                self._context.forward(Record(key, sent, time, record.headers))
        self._context.times.set(self._oldest, oldest)

    def _oldest_waiting(self) -> int:
        return self._context.times.seen.get(self._oldest, NEVER)

    def _joined(self, key: Any, this: Any, other: Any) -> Any:
        return self._joiner(key, this, other) if self._left else self._joiner(key, other, this)

    def _waiting_key(self, side: bytes, time: int, key: Any) -> bytes:
        written: bytes = self._other.key.write(key)
        return side + written + time.to_bytes(8, "big")
