"""Processors of windows: time windows, sliding windows and sessions. Late records are dropped and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ottla.streams.engine.tables import TableSettings
from ottla.streams.engine.task import Context
from ottla.streams.values import Change, Record, Stamped, Windowed

Start = Callable[[], Any]
Add = Callable[[Any, Any, Any], Any]


def windows_of(timestamp: int, size_ms: int, advance_ms: int) -> Iterator[int]:
    """The starts of the time windows that a timestamp falls into, oldest first."""
    first = max(0, timestamp - size_ms + advance_ms) // advance_ms * advance_ms
    return iter(range(first, timestamp + 1, advance_ms))


class _Windows:
    """The parts in common: stream time, when windows close, what is sent on."""

    def __init__(
        self, settings: TableSettings, start: Start | None, add: Add, *, size_ms: int, grace_ms: int, on_close: bool
    ) -> None:
        self._settings, self._start, self._add = settings, start, add
        self._size_ms, self._grace_ms, self._on_close = size_ms, grace_ms, on_close

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        assert self._settings.store
        self._store = context.store(self._settings.store)
        self._emitted = context.name + " emitted"

    def _close_time(self, record: Record) -> int:
        return self._context.times.raise_to(self._context.name, record.timestamp) - self._grace_ms

    def _added(self, record: Record, before: Stamped | None) -> tuple[Any, Any]:
        """The aggregate before, which begins with `start`, and the one with the record; neither changes the other."""
        if before is not None:
            old = before.value
        elif self._start is not None:
            old = self._start()
        else:
            return None, record.value
        aggregate = self._store.value.from_bytes(self._store.value.to_bytes(old))
        return old, self._add(record.key, record.value, aggregate)

    def _put_and_forward(self, record: Record, start: int, new: Any, old: Any, time: int) -> None:
        self._store.put(record.key, new, time, start)
        self._forward(record, Windowed(record.key, start, start + self._size_ms), new, old, time)

    def _forward(self, record: Record, window: Windowed, new: Any, old: Any, time: int) -> None:
        if not self._on_close:
            sent = old if self._settings.send_old else None
            self._context.forward(Record(window, Change(new, sent), time, record.headers))

    def _closed_since(self, closed: int) -> int | None:
        """The close time at the last emission, or None if nothing is due."""
        last = self._context.times.seen.get(self._emitted, -1)
        return last if self._on_close and last < closed else None

    def _emit(self, record: Record, closed: int, first: int, last: int) -> None:
        for window, kept in self._store.all_within(first, last):
            self._context.forward(Record(window, Change(kept.value, None), kept.timestamp, record.headers))
        self._context.times.set(self._emitted, closed)


class TimeWindowAggregate(_Windows):
    """An aggregate a key and time window [start, end)."""

    def __init__(
        self, settings: TableSettings, start: Start | None, add: Add, *, advance_ms: int, **options: Any
    ) -> None:
        super().__init__(settings, start, add, **options)
        self._advance_ms = advance_ms

    def process(self, record: Record) -> None:
        """Add one record to its open windows; in a closed window it is late."""
        if record.key is None or (self._start is None and record.value is None):
            self._context.drop()
            return
        closed = self._close_time(record)
        for start in windows_of(record.timestamp, self._size_ms, self._advance_ms):
            if start + self._size_ms <= closed:
                self._context.drop()
                continue
            before = self._store.fetch(record.key, start)
            old, new = self._added(record, before)
            time = max(record.timestamp, before.timestamp) if before else record.timestamp
            self._put_and_forward(record, start, new, old, time)
        last = self._closed_since(closed)
        if last is not None and closed >= self._size_ms:
            first = 0 if last < 0 else max(0, last - self._size_ms) + 1
            upper = closed - self._size_ms
            if last < 0 or list(self._starts(upper)) != list(self._starts(first - 1)):
                self._emit(record, closed, first, upper)

    def _starts(self, timestamp: int) -> Iterator[int]:
        return windows_of(timestamp, self._size_ms, self._advance_ms)


class SlidingWindowAggregate(_Windows):
    """An aggregate a key and window [t - d, t] for every record, and [t + 1, t + 1 + d] where records follow."""

    def process(self, record: Record) -> None:
        """Add one record to the windows that hold it, and make those that it begins or ends."""
        if record.key is None or record.value is None:
            self._context.drop()
            return
        closed = self._close_time(record)
        time, size = record.timestamp, self._size_ms
        if time + size < closed:
            self._context.drop()
            return
        if time < size:
            self._early(record, closed)
        else:
            self._usual(record, closed)
            last = self._closed_since(closed)
            if last is not None and closed > size:
                self._emit(record, closed, 0 if last < 0 else max(0, last - size), closed - size - 1)

    def _usual(self, record: Record, closed: int) -> None:
        time, size = record.timestamp, self._size_ms
        left = right = previous = None
        has_left = has_right = False
        starts = set()
        for start, kept in reversed(self._store.within(record.key, max(0, time - 2 * size), time + 1)):
            starts.add(start)
            if start == time + 1:
                has_right = True
            elif start + size > time:
                right = right or kept
                self._update(record, start, kept, closed)
            elif start + size == time:
                has_left = True
                self._update(record, start, kept, closed)
                if kept.timestamp >= time:
                    return
                previous = kept.timestamp
            else:
                left, previous = kept, kept.timestamp
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + size >= time:
            self._update(record, previous + 1, None, closed)
        if not has_left:
            follows = previous is not None and previous >= time - size and left is not None
            self._update(record, time - size, Stamped(left.value, time) if follows and left else None, closed)
        if not has_right and right is not None and right.timestamp > time:
            self._copy(record, right)

    def _early(self, record: Record, closed: int) -> None:
        """The windows of a record before the first full window: all such records share [0, d]."""
        time = record.timestamp
        first = right = previous = None
        has_right = False
        starts = set()
        for start, kept in self._store.within(record.key, 0, time + 1):
            starts.add(start)
            if start == 0:
                first = kept
                if kept.timestamp < time:
                    previous = kept.timestamp
            elif start <= time:
                right = kept
                self._update(record, start, kept, closed)
            else:
                has_right = True
        if right is None and first is not None and first.timestamp > time:
            right = first
        if not has_right and right is not None and right.timestamp > time:
            self._copy(record, right)
        if previous is not None and previous + 1 not in starts:
            self._update(record, previous + 1, None, closed)
        self._update(record, 0, first, closed)

    def _copy(self, record: Record, right: Stamped) -> None:
        """The window behind this record holds what the window around it held before."""
        start = record.timestamp + 1
        self._put_and_forward(record, start, right.value, None, right.timestamp)

    def _update(self, record: Record, start: int, kept: Stamped | None, closed: int) -> None:
        if start + self._size_ms < closed:
            self._context.drop()
            return
        old, new = self._added(record, kept)
        time = max(record.timestamp, kept.timestamp) if kept else record.timestamp
        self._put_and_forward(record, start, new, old, time)


class SessionAggregate(_Windows):
    """An aggregate a key and session: records no further apart than the gap, which is `size_ms` here."""

    def __init__(
        self,
        settings: TableSettings,
        start: Start | None,
        add: Add,
        merge: Callable[[Any, Any, Any], Any],
        **options: Any,
    ) -> None:
        super().__init__(settings, start, add, **options)
        self._merge = merge

    def process(self, record: Record) -> None:
        """Merge the sessions within the gap of a record; each merged one is deleted before the new one is sent."""
        if record.key is None or (self._start is None and record.value is None):
            self._context.drop()
            return
        closed = self._close_time(record) - self._size_ms
        time = record.timestamp
        merged = self._store.find(record.key, time - self._size_ms, time + self._size_ms)
        aggregate = self._start() if self._start else None
        for _, value in merged:
            aggregate = value if aggregate is None else self._merge(record.key, aggregate, value)
        start = min([time, *(window.start for window, _ in merged)])
        end = max([time, *(window.end for window, _ in merged)])
        if end < closed:
            self._context.drop()
        else:
            if (start, end) != (time, time):
                for window, value in merged:
                    self._store.put(window, None)
                    self._forward(Record(None, None, end), window, None, value, window.end)
            aggregate = record.value if aggregate is None else self._add(record.key, record.value, aggregate)
            session = Windowed(record.key, start, end)
            self._store.put(session, aggregate)
            self._forward(Record(None, None, end), session, aggregate, None, end)
        last = self._closed_since(closed)
        if last is not None and closed - 1 >= max(0, last):
            for window, value in self._store.ended_within(max(0, last), closed - 1):
                self._context.forward(Record(window, Change(value, None), window.end, record.headers))
            self._context.times.set(self._emitted, closed)
