"""Tables: the newest row of each key, and the operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.streams.draft import Draft
from ottla.streams.engine.joins import Joiner, JoinMerge, TableTableJoin
from ottla.streams.engine.tables import (
    Getter,
    GetterAt,
    Regroup,
    Suppress,
    TableMap,
    TableSettings,
    TableSource,
    View,
    ViewAt,
    suppressed,
)
from ottla.streams.engine.task import Context
from ottla.streams.errors import TopologyError
from ottla.streams.foreign_key import Side, join_on_foreign_key
from ottla.streams.serdes import Serde
from ottla.streams.stores import KeyValueStore, OrderedStore, Store, VersionedStore
from ottla.streams.values import Stamped

if TYPE_CHECKING:
    from ottla.streams.grouped import GroupedTable
    from ottla.streams.stream import Stream


EnableOld = Callable[[bool], bool]
"""Let updates of a table carry the row before, and say whether they do; only if True may a store be made for it."""


class GlobalTable:
    """A table that every task holds whole; streams join with it by any key."""

    view_at: ViewAt | None = None

    def __init__(self, draft: Draft, store: str) -> None:
        self.draft, self._store = draft, store

    def view(self) -> View:
        """The way for a processor to look up rows."""
        return lambda context: _getter(context, self._store)

    def view_stores(self) -> tuple[str, ...]:
        """None to connect with: every task has the store."""
        return ()


class Table:
    """Rows by key. `store=` of an operation keeps its rows under a name that tests and queries can ask."""

    def __init__(
        self,
        draft: Draft,
        node: str,
        key: Serde | None,
        value: Serde | None,
        settings: TableSettings,
        *,
        enable_old: EnableOld,
        derived: Callable[[], tuple[View, tuple[str, ...]]] | None = None,
        materialize: Callable[[], None] = lambda: None,
        grace_ms: int | None = None,
        view_at: ViewAt | None = None,
        history_ms: int | None = None,
    ) -> None:
        self.draft, self.node, self.key, self.value, self.settings = draft, node, key, value, settings
        self.enable_old, self._derived, self._materialize = enable_old, derived, materialize
        self.grace_ms, self.view_at, self.history_ms = grace_ms, view_at, history_ms

    def view(self) -> View:
        """The way for a processor to look up rows: in the store, or computed from the rows before."""
        if self.settings.store is None and self._derived is not None:
            return self._derived()[0]
        self._materialize()
        return lambda context: _getter(context, self.settings.store)

    def view_stores(self) -> tuple[str, ...]:
        """The stores that the view reads."""
        if self.settings.store is None and self._derived is not None:
            return self._derived()[1]
        self._materialize()
        assert self.settings.store is not None
        return (self.settings.store,)

    def filter(self, holds: Callable[[Any, Any], Any], *, store: str | None = None, name: str | None = None) -> Table:
        """The rows for which a condition on key and value holds; a row that ceases to is deleted."""
        return self._map("KTABLE-FILTER-", lambda k, v: v if holds(k, v) else None, self.value, store, name, True)

    def filter_not(
        self, holds: Callable[[Any, Any], Any], *, store: str | None = None, name: str | None = None
    ) -> Table:
        """The rows for which a condition does not hold."""
        return self._map("KTABLE-FILTER-", lambda k, v: None if holds(k, v) else v, self.value, store, name, True)

    def map_values(
        self, change: Callable[..., Any], *, with_key: bool = False, value: Serde | None = None,
        store: str | None = None, name: str | None = None,
    ) -> Table:  # fmt: skip
        """Another value for each row; the function takes the value, never None, or `with_key` the key and the value."""
        compute = change if with_key else lambda _, v: change(v)
        return self._map("KTABLE-MAPVALUES-", compute, value, store, name, False)

    def to_stream(self, *, name: str | None = None) -> Stream:
        """Every update as a record; a deleted row has the value None."""
        from ottla.streams.stream import Stream

        node = self.draft.numbers.node("KTABLE-TOSTREAM-", name)
        self.draft.stateless(node, self.node, lambda r: (r.with_value(r.value.new),))
        return Stream(self.draft, node, self.key, self.value)

    def group_by(
        self, choose: Callable[[Any, Any], tuple[Any, Any]], *, key: Serde | None = None, value: Serde | None = None,
        name: str | None = None,
    ) -> GroupedTable:  # fmt: skip
        """Group the rows by the key of the pair that a function makes of each."""
        from ottla.streams.grouped import GroupedTable

        node = self.draft.numbers.node("KTABLE-SELECT-", name)
        self.draft.processor(node, (self.node,), lambda: Regroup(choose))
        self.enable_old(True)
        return GroupedTable(self.draft, node, key, value, name)

    def suppress_until_window_closes(self, *, name: str | None = None) -> Table:
        """Only the last update of each window, once stream time has passed its end and the grace."""
        if self.grace_ms is None:
            raise TopologyError(
                "suppress_until_window_closes() follows a windowed aggregate: this table has no windows"
            )
        return self._suppress(self.grace_ms, True, None, name)

    def suppress_until_time_limit(self, wait_ms: int, *, most: int | None = None, name: str | None = None) -> Table:
        """The last update of each key once stream time has gone on by `wait_ms`, or once `most` keys wait."""
        return self._suppress(wait_ms, False, most, name)

    def join(
        self, other: Table, joiner: Joiner, *, value: Serde | None = None, store: str | None = None,
        name: str | None = None,
    ) -> Table:  # fmt: skip
        """The rows whose key both tables have."""
        return self._join(other, joiner, value, store, name, left=False, outer=False)

    def left_join(
        self, other: Table, joiner: Joiner, *, value: Serde | None = None, store: str | None = None,
        name: str | None = None,
    ) -> Table:  # fmt: skip
        """Every row of this table, with None where the other table lacks the key."""
        return self._join(other, joiner, value, store, name, left=True, outer=False)

    def outer_join(
        self, other: Table, joiner: Joiner, *, value: Serde | None = None, store: str | None = None,
        name: str | None = None,
    ) -> Table:  # fmt: skip
        """Every row of both tables, with None for the one that lacks the key."""
        return self._join(other, joiner, value, store, name, left=True, outer=True)

    def join_on_foreign_key(
        self, other: Table, foreign_key: Callable[[Any, Any], Any], joiner: Joiner, *, value: Serde | None = None,
        store: str | None = None, name: str | None = None,
    ) -> Table:  # fmt: skip
        """The rows whose `foreign_key(key, value)` is a key of the other table, under this table's keys."""
        return self._join_foreign(other, foreign_key, joiner, value, store, name, left=False)

    def left_join_on_foreign_key(
        self, other: Table, foreign_key: Callable[[Any, Any], Any], joiner: Joiner, *, value: Serde | None = None,
        store: str | None = None, name: str | None = None,
    ) -> Table:  # fmt: skip
        """Every row of this table, with None where the other table lacks the foreign key."""
        return self._join_foreign(other, foreign_key, joiner, value, store, name, left=True)

    def _join_foreign(
        self, other: Table, foreign_key: Callable[[Any, Any], Any], joiner: Joiner, value: Serde | None,
        store: str | None, name: str | None, *, left: bool,
    ) -> Table:  # fmt: skip
        draft = self.draft
        draft.shares(other.draft)
        other.enable_old(True)
        self.enable_old(True)
        joined = join_on_foreign_key(draft, self._side(), other._side(), foreign_key, joiner, name, left=left)
        node = draft.numbers.node("KTABLE-FK-JOIN-OUTPUT-", name, "-result")
        kept = store or draft.numbers.store("KTABLE-FK-JOIN-OUTPUT-")
        key, value = self.key or draft.key, value or draft.value
        return source_table(draft, node, joined, key, value, kept, keep=store is not None)

    def _side(self) -> Side:
        return Side(
            self.node, self.key or self.draft.key, self.value or self.draft.value, self.view(), self.view_stores()
        )

    def _map(
        self, prefix: str, compute: Callable[[Any, Any], Any], value: Serde | None, store: str | None,
        name: str | None, is_filter: bool,
    ) -> Table:  # fmt: skip
        node = self.draft.numbers.node(prefix, name)
        settings = TableSettings(store)
        if store:
            kept_key, kept_value = self.key or self.draft.key, value or self.draft.value
            self.draft.store(store, lambda: KeyValueStore(store, kept_key, kept_value))
        self.draft.processor(
            node,
            (self.node,),
            lambda: TableMap(settings, compute, is_filter=is_filter),
            stores=(store,) if store else (),
        )

        def enable_old(force: bool) -> bool:
            settings.send_old = bool(store) or self.enable_old(force) or settings.send_old
            return settings.send_old

        if is_filter:
            enable_old(False)  # so that no row is deleted that was never there (KAFKA-10077)

        def derived() -> tuple[View, tuple[str, ...]]:
            view = self.view()
            return (lambda context: _computed(view(context), compute)), self.view_stores()

        before_at = self.view_at

        def at(context: Context) -> GetterAt:
            assert before_at is not None
            return _computed_at(before_at(context), compute)

        return Table(
            self.draft, node, self.key, value, settings, enable_old=enable_old, derived=derived, grace_ms=self.grace_ms,
            view_at=at if before_at and not store else None, history_ms=None if store else self.history_ms,
        )  # fmt: skip

    def _suppress(self, wait_ms: int, by_window_end: bool, most: int | None, name: str | None) -> Table:
        if self.view_at is not None:
            raise TopologyError("suppress is not for versioned tables: its updates may be older than those it sent")
        node = self.draft.numbers.node("KTABLE-SUPPRESS-", name) if name is None else name
        store = name + "-store" if name else self.draft.numbers.store("KTABLE-SUPPRESS-")
        key, value = self.key or self.draft.key, self.value or self.draft.value
        self.enable_old(True)
        self.draft.store(store, lambda: OrderedStore(store, f"{key.name} to {value.name}"))
        self.draft.processor(
            node, (self.node,),
            lambda: Suppress(store, key, value, wait_ms, by_window_end=by_window_end, most=most), stores=(store,),
        )  # fmt: skip

        def derived() -> tuple[View, tuple[str, ...]]:
            return suppressed(store, key, value, self.view()), (store, *self.view_stores())

        return Table(
            self.draft, node, self.key, self.value, TableSettings(), enable_old=self.enable_old, derived=derived
        )

    def _join(
        self, other: Table, joiner: Joiner, value: Serde | None, store: str | None, name: str | None,
        *, left: bool, outer: bool,
    ) -> Table:  # fmt: skip
        draft = self.draft
        draft.shares(other.draft)
        merged = draft.numbers.node("KTABLE-MERGE-", name)
        if left:
            self.enable_old(True)
        if outer:
            other.enable_old(True)
        this_side = draft.numbers.node("KTABLE-JOINTHIS-", name, "-join-this")
        other_side = draft.numbers.node("KTABLE-JOINOTHER-", name, "-join-other")
        settings = TableSettings(store)
        views, stores = (self.view(), other.view()), (self.view_stores(), other.view_stores())

        def sends_old() -> bool:
            return settings.send_old and not store

        draft.processor(
            this_side, (self.node,),
            lambda: TableTableJoin(views[1], joiner, sends_old, keeps_this=left, keeps_other=outer), stores=stores[1],
        )  # fmt: skip
        draft.processor(
            other_side, (other.node,),
            lambda: TableTableJoin(
                views[0], lambda o, t: joiner(t, o), sends_old, keeps_this=outer, keeps_other=left
            ), stores=stores[0],
        )  # fmt: skip
        if store:
            kept_key, kept_value = self.key or draft.key, value or draft.value
            draft.store(store, lambda: KeyValueStore(store, kept_key, kept_value))
        draft.processor(
            merged, (this_side, other_side), lambda: JoinMerge(lambda: store, lambda: settings.send_old),
            stores=(store,) if store else (),
        )  # fmt: skip

        def enable_old(_: bool) -> bool:
            if not store:
                self.enable_old(True)
                other.enable_old(True)
            settings.send_old = True
            return True

        def derived() -> tuple[View, tuple[str, ...]]:
            return (
                lambda context: _joined(views[0](context), views[1](context), joiner, left=left, outer=outer),
                tuple(dict.fromkeys((*stores[0], *stores[1]))),
            )

        return Table(draft, merged, self.key, value, settings, enable_old=enable_old, derived=derived)


def source_table(
    draft: Draft, node: str, parent: str, key: Serde, value: Serde, store: str, *, keep: bool,
    history_ms: int | None = None,
) -> Table:  # fmt: skip
    """A table of the records of a node; its store is made at once if `keep`, else when somebody looks rows up.

    With `history_ms` it is a versioned one.
    """
    settings = TableSettings()
    added = draft.processor(node, (parent,), lambda: TableSource(settings))
    view_at: ViewAt | None = None if history_ms is None else lambda context: context.store(store).get

    def make() -> Store:
        if history_ms is None:
            return KeyValueStore(store, key, value)
        return VersionedStore(store, key, value, history_ms)

    def materialize() -> None:
        if settings.store is None:
            settings.store = draft.store(store, make)
            added.stores.append(store)

    def enable_old(force: bool) -> bool:
        if force:
            materialize()
        settings.send_old = settings.store is not None
        return settings.send_old

    if keep or history_ms is not None:
        materialize()
    return Table(
        draft, node, key, value, settings, enable_old=enable_old, materialize=materialize, view_at=view_at,
        history_ms=history_ms,
    )  # fmt: skip


def _getter(context: Context, store: str | None) -> Getter:
    assert store is not None
    get: Getter = context.store(store).get
    return get


def _computed_at(get: GetterAt, compute: Callable[[Any, Any], Any]) -> GetterAt:
    return lambda key, at: _computed(lambda known: get(known, at), compute)(key)


def _computed(get: Getter, compute: Callable[[Any, Any], Any]) -> Getter:
    def computed(key: Any) -> Stamped | None:
        row = get(key)
        value = None if row is None else compute(key, row.value)
        return None if row is None or value is None else Stamped(value, row.timestamp)

    return computed


def _joined(this: Getter, other: Getter, joiner: Joiner, *, left: bool, outer: bool) -> Getter:
    def joined(key: Any) -> Stamped | None:
        mine, theirs = this(key), other(key)
        if (mine is None and not outer) or (theirs is None and not left) or (mine is None and theirs is None):
            return None
        value = joiner(mine.value if mine else None, theirs.value if theirs else None)
        times: Iterable[int] = (row.timestamp for row in (mine, theirs) if row)
        return None if value is None else Stamped(value, max(times))

    return joined
