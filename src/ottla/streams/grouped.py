"""Groups of records or rows, windows over them, and their aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.streams.draft import Draft
from ottla.streams.engine.stateless import pass_on
from ottla.streams.engine.tables import StreamAggregate, TableAggregate, TableSettings
from ottla.streams.engine.windows import SessionAggregate, SlidingWindowAggregate, TimeWindowAggregate
from ottla.streams.errors import TopologyError
from ottla.streams.serdes import INT64, Serde, changes, session_windowed, time_windowed
from ottla.streams.stores import KeyValueStore, SessionStore, StoreMaker, WindowStore
from ottla.streams.table import Table
from ottla.streams.windows import SessionWindows, SlidingWindows, TimeWindows

Windows = TimeWindows | SlidingWindows | SessionWindows
Reducer = Callable[[Any, Any], Any]
"""The aggregate and a value, to the next aggregate."""
Aggregator = Callable[[Any, Any, Any], Any]
"""A key, a value and the aggregate, to the next aggregate."""


def _zero() -> int:
    return 0


def _plus_one(_key: Any, _value: Any, count: int) -> int:
    return count + 1


def _minus_one(_key: Any, _value: Any, count: int) -> int:
    return count - 1


class GroupedStream:
    """Records by key, to be aggregated at once or by windows."""

    def __init__(
        self, draft: Draft, node: str, key: Serde | None, value: Serde | None, rekeyed: bool, name: str | None
    ) -> None:
        self.draft, self.node, self.key, self.value, self.rekeyed, self.name = draft, node, key, value, rekeyed, name
        self._repartitioned: str | None = None

    def count(self, *, store: str | None = None, name: str | None = None) -> Table:
        """The number of records of each key."""
        return self._aggregate("KSTREAM-AGGREGATE-", _zero, _plus_one, INT64, store, name)

    def reduce(self, reducer: Reducer, *, store: str | None = None, name: str | None = None) -> Table:
        """Each key's values combined; the first value is the first aggregate."""
        return self._aggregate(
            "KSTREAM-REDUCE-", None, lambda _, value, aggregate: reducer(aggregate, value), self.value, store, name
        )

    def aggregate(
        self, start: Callable[[], Any], add: Aggregator, *, value: Serde | None = None, store: str | None = None,
        name: str | None = None,
    ) -> Table:  # fmt: skip
        """Each key's values added to an aggregate that begins with `start()`; `value` is the aggregate's serde."""
        return self._aggregate("KSTREAM-AGGREGATE-", start, add, value, store, name)

    def windowed_by(self, windows: Windows) -> WindowedStream:
        """Aggregate each window of each key by itself."""
        return WindowedStream(self, windows, on_close=False)

    def cogroup(self, add: Aggregator) -> CogroupedStream:
        """Aggregate the records of several grouped streams together."""
        return CogroupedStream(((self, add),))

    def repartitioned(self, store: str) -> str:
        """The node behind which equal keys are together; a named group shares one repartition topic."""
        if not self.rekeyed:
            return self.node
        if self.name and self._repartitioned:
            for _ in range(3):
                self.draft.numbers.number("")
            return self._repartitioned
        numbered = self.name is None and store.startswith("KSTREAM-")
        self._repartitioned = self.draft.repartition(
            self.node, self.name or store, self.key, self.value, numbered=numbered
        )
        return self._repartitioned

    def _aggregate(
        self, prefix: str, start: Callable[[], Any] | None, add: Aggregator, value: Serde | None,
        store: str | None, name: str | None
    ) -> Table:  # fmt: skip
        draft = self.draft
        kept = store or draft.numbers.store(prefix)
        node = draft.numbers.node(prefix, name)
        key, value = self.key or draft.key, value or draft.value
        parent = self.repartitioned(kept)
        settings = TableSettings(kept)
        draft.store(kept, lambda: KeyValueStore(kept, key, value))
        draft.processor(node, (parent,), lambda: StreamAggregate(settings, start, add), stores=(kept,))
        return aggregated(draft, node, key, value, settings)


def aggregated(
    draft: Draft, node: str, key: Serde, value: Serde, settings: TableSettings, *, grace_ms: int | None = None
) -> Table:
    """The table of an aggregate, which keeps its rows."""

    def enable_old(_: bool) -> bool:
        settings.send_old = True
        return True

    return Table(draft, node, key, value, settings, enable_old=enable_old, grace_ms=grace_ms)


class WindowedStream:
    """Records by key and window; `emit_on_close` sends each window once, when nothing can change it any more."""

    def __init__(self, grouped: GroupedStream, windows: Windows, *, on_close: bool) -> None:
        self._grouped, self._windows, self._on_close = grouped, windows, on_close

    def emit_on_close(self) -> WindowedStream:
        """Send each window once, when stream time has passed its end and the grace."""
        return WindowedStream(self._grouped, self._windows, on_close=True)

    def count(self, *, store: str | None = None, retention_ms: int | None = None, name: str | None = None) -> Table:
        """The number of records in each window of each key; `retention_ms` lets queries find older windows."""
        return self._aggregate(
            "KSTREAM-AGGREGATE-", _zero, _plus_one, lambda _, one, two: one + two, INT64, store, retention_ms, name
        )

    def reduce(
        self, reducer: Reducer, *, store: str | None = None, retention_ms: int | None = None, name: str | None = None
    ) -> Table:
        """The values of each window combined; the first value is the first aggregate."""
        return self._aggregate(
            "KSTREAM-REDUCE-", None, lambda _, value, aggregate: reducer(aggregate, value),
            lambda _, one, two: reducer(one, two), self._grouped.value, store, retention_ms, name,
        )  # fmt: skip

    def aggregate(
        self, start: Callable[[], Any], add: Aggregator, merge: Aggregator | None = None, *, value: Serde | None = None,
        store: str | None = None, retention_ms: int | None = None, name: str | None = None,
    ) -> Table:  # fmt: skip
        """The values of each window added to an aggregate; `merge` (key, one, other) joins those of two sessions."""
        _check_merge(self._windows, merge)
        return self._aggregate("KSTREAM-AGGREGATE-", start, add, merge, value, store, retention_ms, name)

    def _aggregate(
        self, prefix: str, start: Callable[[], Any] | None, add: Aggregator, merge: Aggregator | None,
        value: Serde | None, store: str | None, retention_ms: int | None, name: str | None
    ) -> Table:  # fmt: skip
        grouped, draft, windows = self._grouped, self._grouped.draft, self._windows
        kept = store or draft.numbers.store(prefix)
        node = draft.numbers.node(prefix, name)
        key, value = grouped.key or draft.key, value or draft.value
        parent = grouped.repartitioned(kept)
        settings = TableSettings(kept)
        draft.store(kept, window_store(kept, key, value, windows, retention_ms))
        make = window_processor(settings, windows, start, add, merge, on_close=self._on_close)
        draft.processor(node, (parent,), make, stores=(kept,))
        return aggregated(draft, node, windowed_key(key, windows), value, settings, grace_ms=_grace(windows))


def windowed_key(key: Serde, windows: Windows) -> Serde:
    """The serde of a windowed aggregate's keys."""
    if isinstance(windows, SessionWindows):
        return session_windowed(key)
    return time_windowed(key, windows.size_ms if isinstance(windows, TimeWindows) else windows.difference_ms)


def _check_merge(windows: Windows, merge: Aggregator | None) -> None:
    if isinstance(windows, SessionWindows) == (merge is None):
        raise TopologyError("aggregate() over sessions needs merge=…, and over other windows takes none")


def _grace(windows: Windows) -> int:
    """A window may change for this long after its end: sessions can still be continued for the gap."""
    return windows.grace_ms + windows.gap_ms if isinstance(windows, SessionWindows) else windows.grace_ms


def window_store(name: str, key: Serde, value: Serde, windows: Windows, retention_ms: int | None = None) -> StoreMaker:
    """The store of a windowed aggregate; it keeps windows for `retention_ms`, else as long as they may change."""
    least = windows.retention_ms
    kept_ms = least if retention_ms is None else retention_ms
    if kept_ms < least:
        raise TopologyError(
            f"retention_ms={retention_ms} of the store {name} is below {least}: windows change that long"
        )
    if isinstance(windows, SessionWindows):
        return lambda: SessionStore(name, key, value, kept_ms)
    size_ms = windows.size_ms if isinstance(windows, TimeWindows) else windows.difference_ms
    return lambda: WindowStore(name, key, value, size_ms, kept_ms)


def window_processor(
    settings: TableSettings, windows: Windows,
    start: Callable[[], Any] | None, add: Aggregator, merge: Aggregator | None,
    *, on_close: bool,
) -> Callable[[], Any]:  # fmt: skip
    """The maker of a windowed aggregate's processor."""
    grace_ms = windows.grace_ms
    if isinstance(windows, TimeWindows):
        return lambda: TimeWindowAggregate(
            settings, start, add, advance_ms=windows.advance_ms, size_ms=windows.size_ms, grace_ms=grace_ms,
            on_close=on_close,
        )  # fmt: skip
    if isinstance(windows, SlidingWindows):
        return lambda: SlidingWindowAggregate(
            settings, start, add, size_ms=windows.difference_ms, grace_ms=grace_ms, on_close=on_close
        )
    assert merge is not None
    return lambda: SessionAggregate(
        settings, start, add, merge, size_ms=windows.gap_ms, grace_ms=grace_ms, on_close=on_close
    )


Members = Sequence[tuple[GroupedStream, Aggregator]]
"""The streams of a cogroup, each with its own aggregator."""


class CogroupedStream:
    """Several grouped streams of the same keys that share one aggregate."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def cogroup(self, grouped: GroupedStream, add: Aggregator) -> CogroupedStream:
        """Another grouped stream, with its own aggregator."""
        self._members[0][0].draft.shares(grouped.draft)
        return CogroupedStream((*self._members, (grouped, add)))

    def windowed_by(self, windows: Windows) -> WindowedCogroupedStream:
        """Aggregate each window of each key by itself."""
        return WindowedCogroupedStream(self._members, windows)

    def aggregate(
        self, start: Callable[[], Any], *, value: Serde | None = None, store: str | None = None,
        name: str | None = None,
    ) -> Table:  # fmt: skip
        """One aggregate a key over the records of all streams."""
        key, value = _serdes(self._members, value)

        def kept(named: str) -> StoreMaker:
            return lambda: KeyValueStore(named, key, value)

        def make(settings: TableSettings, add: Aggregator) -> Callable[[], Any]:
            return lambda: StreamAggregate(settings, start, add)

        return _cogrouped(self._members, store, name, key, value, kept, make)


class WindowedCogroupedStream:
    """Several grouped streams that share one aggregate a window; every update is sent on, as in Kafka."""

    def __init__(self, members: Members, windows: Windows) -> None:
        self._members, self._windows = members, windows

    def aggregate(
        self, start: Callable[[], Any], merge: Aggregator | None = None, *, value: Serde | None = None,
        store: str | None = None, retention_ms: int | None = None, name: str | None = None,
    ) -> Table:  # fmt: skip
        """One aggregate a window and key; `merge` (key, one, other) joins those of two sessions."""
        windows = self._windows
        _check_merge(windows, merge)
        key, value = _serdes(self._members, value)

        def kept(named: str) -> StoreMaker:
            return window_store(named, key, value, windows, retention_ms)

        def make(settings: TableSettings, add: Aggregator) -> Callable[[], Any]:
            return window_processor(settings, windows, start, add, merge, on_close=False)

        shown = windowed_key(key, windows)
        return _cogrouped(self._members, store, name, shown, value, kept, make, grace_ms=_grace(windows))


def _serdes(members: Members, value: Serde | None) -> tuple[Serde, Serde]:
    """The serdes of a cogroup's keys and aggregates."""
    first = members[0][0]
    return first.key or first.draft.key, value or first.draft.value


def _cogrouped(
    members: Members, store: str | None, name: str | None, key: Serde, value: Serde,
    make_store: Callable[[str], StoreMaker], make: Callable[[TableSettings, Aggregator], Callable[[], Any]],
    *, grace_ms: int | None = None,
) -> Table:  # fmt: skip
    """The nodes of a cogroup: an aggregate for each member over one store, and a merge behind them."""
    draft = members[0][0].draft
    kept = store or draft.numbers.store("COGROUPKSTREAM-AGGREGATE-")
    parents = [member.repartitioned(kept) for member, _ in members]
    draft.store(kept, make_store(kept))
    settings = TableSettings(kept)
    nodes = []
    for at, ((_, add), parent) in enumerate(zip(members, parents, strict=True)):
        node = draft.numbers.node("COGROUPKSTREAM-AGGREGATE-", name, f"-cogroup-agg-{at}")
        nodes.append(draft.processor(node, (parent,), make(settings, add), stores=(kept,)).name)
    merged = draft.numbers.node("COGROUPKSTREAM-MERGE-", name, "-cogroup-merge")
    draft.processor(merged, nodes, pass_on)
    return aggregated(draft, merged, key, value, settings, grace_ms=grace_ms)


class GroupedTable:
    """Rows of a table by another key: an aggregate adds new rows and takes old ones away."""

    def __init__(self, draft: Draft, node: str, key: Serde | None, value: Serde | None, name: str | None) -> None:
        self.draft, self.node, self.key, self.value, self.name = draft, node, key, value, name

    def count(self, *, store: str | None = None, name: str | None = None) -> Table:
        """The number of rows of each group."""
        return self._aggregate("KTABLE-AGGREGATE-", _zero, _plus_one, _minus_one, INT64, store, name)

    def reduce(self, add: Reducer, subtract: Reducer, *, store: str | None = None, name: str | None = None) -> Table:
        """The rows of each group combined; `subtract` takes a row's old value away."""
        return self._aggregate(
            "KTABLE-REDUCE-", None, lambda _, value, aggregate: add(aggregate, value),
            lambda _, value, aggregate: subtract(aggregate, value), self.value, store, name,
        )  # fmt: skip

    def aggregate(
        self, start: Callable[[], Any], add: Aggregator, subtract: Aggregator, *, value: Serde | None = None,
        store: str | None = None, name: str | None = None,
    ) -> Table:  # fmt: skip
        """The rows of each group added to an aggregate; `subtract` takes a row's old value away."""
        return self._aggregate("KTABLE-AGGREGATE-", start, add, subtract, value, store, name)

    def _aggregate(
        self, prefix: str, start: Callable[[], Any] | None, add: Aggregator, subtract: Aggregator,
        value: Serde | None, store: str | None, name: str | None,
    ) -> Table:  # fmt: skip
        draft = self.draft
        kept = store or draft.numbers.store("KTABLE-AGGREGATE-")
        sink = draft.numbers.node("KSTREAM-SINK-", name, "-sink")
        source = draft.numbers.node("KSTREAM-SOURCE-", name, "-source")
        node = draft.numbers.node(prefix, name)
        key, row = self.key or draft.key, self.value or draft.value
        value = value or draft.value
        topic = (self.name or kept) + "-repartition"
        draft.sink(sink, self.node, topic, key, changes(row), repartition=True)
        draft.source(source, (topic,), key, changes(row), repartition=True)
        settings = TableSettings(kept)
        draft.store(kept, lambda: KeyValueStore(kept, key, value))
        draft.processor(node, (source,), lambda: TableAggregate(settings, start, add, subtract), stores=(kept,))
        return aggregated(draft, node, key, value, settings)
