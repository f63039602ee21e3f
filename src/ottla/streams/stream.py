"""Streams of records and the operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ottla.streams.draft import Draft
from ottla.streams.engine.joins import GraceJoin, JoinerWithKey, JoinWindow, StreamStreamJoin, StreamTableJoin
from ottla.streams.engine.stateless import Branches, FixedKey, pass_on
from ottla.streams.errors import TopologyError
from ottla.streams.graph import Partitioner, TopicOf
from ottla.streams.grouped import GroupedStream
from ottla.streams.serdes import Serde
from ottla.streams.stores import JoinStore, OrderedStore
from ottla.streams.table import GlobalTable, Table, source_table
from ottla.streams.values import Record
from ottla.streams.vectorised import Vectorised, together
from ottla.streams.windows import JoinWindows, not_negative

KeyAndValue = Callable[[Any, Any], Any]
"""Or a `Vectorised` function, where the operation takes columns."""


class Stream:
    """Records of a topic, or what operations made of them. Functions take key and value unless said otherwise."""

    def __init__(
        self, draft: Draft, node: str, key: Serde | None, value: Serde | None, *, rekeyed: bool = False
    ) -> None:
        self.draft, self.node, self.key, self.value, self.rekeyed = draft, node, key, value, rekeyed
        self._by_key: Stream | None = None

    def filter(self, holds: KeyAndValue, *, name: str | None = None) -> Stream:
        """The records for which a condition holds."""
        if isinstance(holds, Vectorised):
            return self._columns("filter", "KSTREAM-FILTER-", name, holds, self.key, self.value, rekeyed=False)
        return self._same("KSTREAM-FILTER-", name, lambda r: (r,) if holds(r.key, r.value) else ())

    def filter_not(self, holds: KeyAndValue, *, name: str | None = None) -> Stream:
        """The records for which a condition does not hold."""
        if isinstance(holds, Vectorised):
            return self._columns("filter_not", "KSTREAM-FILTER-", name, holds, self.key, self.value, rekeyed=False)
        return self._same("KSTREAM-FILTER-", name, lambda r: () if holds(r.key, r.value) else (r,))

    def map(
        self, change: KeyAndValue, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> Stream:
        """Another key and value, as a pair, for each record."""
        if isinstance(change, Vectorised):
            return self._columns("map", "KSTREAM-MAP-", name, change, key, value, rekeyed=True)

        def pair(r: Record) -> Iterable[Record]:
            new_key, new_value = change(r.key, r.value)
            return (Record(new_key, new_value, r.timestamp, r.headers),)

        return self._new("KSTREAM-MAP-", name, pair, key, value, rekeyed=True)

    def map_values(
        self, change: Callable[..., Any], *, with_key: bool = False, value: Serde | None = None, name: str | None = None
    ) -> Stream:
        """Another value for each record; the function takes the value, or `with_key` the key and the value."""
        if isinstance(change, Vectorised):
            if with_key:
                raise TopologyError("map_values() of columns takes the values alone: leave with_key=True out")
            return self._columns("map_values", "KSTREAM-MAPVALUES-", name, change, self.key, value, rekeyed=False)

        def changed(r: Record) -> Iterable[Record]:
            return (r.with_value(change(r.key, r.value) if with_key else change(r.value)),)

        return self._new("KSTREAM-MAPVALUES-", name, changed, self.key, value, rekeyed=False)

    def flat_map(
        self, change: KeyAndValue, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> Stream:
        """Any number of pairs of key and value for each record."""

        def pairs(r: Record) -> Iterable[Record]:
            return [Record(k, v, r.timestamp, r.headers) for k, v in change(r.key, r.value)]

        return self._new("KSTREAM-FLATMAP-", name, pairs, key, value, rekeyed=True)

    def flat_map_values(
        self, change: Callable[..., Iterable[Any]], *, with_key: bool = False, value: Serde | None = None,
        name: str | None = None,
    ) -> Stream:  # fmt: skip
        """Any number of values for each record; the function takes the value, or `with_key` the key and the value."""

        def values(r: Record) -> Iterable[Record]:
            return [r.with_value(v) for v in (change(r.key, r.value) if with_key else change(r.value))]

        return self._new("KSTREAM-FLATMAPVALUES-", name, values, self.key, value, rekeyed=False)

    def select_key(self, choose: KeyAndValue, *, key: Serde | None = None, name: str | None = None) -> Stream:
        """The same records under other keys."""
        if isinstance(choose, Vectorised):
            return self._columns("select_key", "KSTREAM-KEY-SELECT-", name, choose, key, self.value, rekeyed=True)

        def chosen(r: Record) -> Iterable[Record]:
            return (r.with_key(choose(r.key, r.value)),)

        return self._new("KSTREAM-KEY-SELECT-", name, chosen, key, self.value, rekeyed=True)

    def peek(self, look: KeyAndValue, *, name: str | None = None) -> Stream:
        """The same records, after a function has looked at each."""

        def looked(r: Record) -> Iterable[Record]:
            look(r.key, r.value)
            return (r,)

        return self._same("KSTREAM-PEEK-", name, looked)

    def foreach(self, look: KeyAndValue, *, name: str | None = None) -> None:
        """Call a function for each record; the stream ends here."""

        def looked(r: Record) -> Iterable[Record]:
            look(r.key, r.value)
            return ()

        self._same("KSTREAM-FOREACH-", name, looked)

    def split(self, *, name: str | None = None) -> Split:
        """Send each record to the first branch whose condition holds."""
        return Split(self, self.draft.numbers.node("KSTREAM-BRANCH-", name))

    def merge(self, other: Stream, *, name: str | None = None) -> Stream:
        """The records of both streams; where their serdes differ, the builder's are used."""
        self.draft.shares(other.draft)
        node = self.draft.numbers.node("KSTREAM-MERGE-", name)
        self.draft.processor(node, dict.fromkeys((self.node, other.node)), pass_on)
        key, value = (self.key if self.key == other.key else None), (self.value if self.value == other.value else None)
        return Stream(self.draft, node, key, value, rekeyed=self.rekeyed or other.rekeyed)

    def repartition(
        self,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        partitions: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Send the records through a topic of the topology's own, so that equal keys come together.

        Records without a key are left out, unless a left or outer join is behind it, which keeps them (KIP-962).
        """
        prefix = name or self.draft.numbers.number("KSTREAM-REPARTITION-")
        if name:
            self.draft.numbers.number("KSTREAM-REPARTITION-")
        key, value = key or self.key, value or self.value
        source = self.draft.repartition(
            self.node, prefix, key, value, partitions=partitions, numbered=name is None, keyed=True
        )
        return Stream(self.draft, source, key, value)

    def to(
        self, topic: TopicOf, *, key: Serde | None = None, value: Serde | None = None,
        partitioner: Partitioner | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Write the records to a topic, or to the topic that a function of the record names.

        `partitioner(key, value, count)` chooses the partition among `count`, by default the key's as in Kafka: a
        number, or several, each of which gets the record; an empty list leaves it out; None is the default.
        """
        node = self.draft.numbers.node("KSTREAM-SINK-", name)
        self.draft.sink(node, self.node, topic, key or self.key, value or self.value, partitioner=partitioner)

    def process(
        self, make: Callable[[], Any], *, stores: Iterable[str] = (), key: Serde | None = None,
        value: Serde | None = None, name: str | None = None,
    ) -> Stream:  # fmt: skip
        """The records that a processor of the user's sends on; `make` makes one for each task."""
        node = self.draft.numbers.node("KSTREAM-PROCESSOR-", name)
        self.draft.processor(node, (self.node,), make, stores=[self.draft.known_store(store) for store in stores])
        return Stream(self.draft, node, key, value, rekeyed=True)

    def process_values(
        self,
        make: Callable[[], Any],
        *,
        stores: Iterable[str] = (),
        value: Serde | None = None,
        name: str | None = None,
    ) -> Stream:
        """As `process`, with a processor that keeps the keys."""
        node = self.draft.numbers.node("KSTREAM-PROCESSVALUES-", name)
        known = [self.draft.known_store(store) for store in stores]
        self.draft.processor(node, (self.node,), lambda: FixedKey(make()), stores=known)
        return Stream(self.draft, node, self.key, value, rekeyed=self.rekeyed)

    def group_by_key(
        self, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> GroupedStream:
        """Group the records by their keys."""
        return GroupedStream(self.draft, self.node, key or self.key, value or self.value, self.rekeyed, name)

    def group_by(
        self, choose: KeyAndValue, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> GroupedStream:
        """Group the records by other keys."""
        chosen = self.select_key(choose, key=key, name=name)
        return GroupedStream(self.draft, chosen.node, key, value or self.value, True, name)

    def to_table(
        self, *, key: Serde | None = None, value: Serde | None = None, store: str | None = None, name: str | None = None
    ) -> Table:
        """The newest value of each key as a table."""
        node = self.draft.numbers.node("KSTREAM-TOTABLE-", name)
        kept = store or self.draft.numbers.store("KSTREAM-TOTABLE-")
        parent, key, value = self.node, key or self.key, value or self.value
        if self.rekeyed:
            parent = self.draft.repartition(parent, name or node, key, value, numbered=name is None)
        key, value = key or self.draft.key, value or self.draft.value
        return source_table(self.draft, node, parent, key, value, kept, keep=store is not None)

    def join(
        self, other: Stream | Table | GlobalTable, joiner: Callable[..., Any], *, windows: JoinWindows | None = None,
        table_key: KeyAndValue | None = None, with_key: bool = False, grace_ms: int | None = None,
        value: Serde | None = None, store: str | None = None, name: str | None = None,
    ) -> Stream:  # fmt: skip
        """Each record with what it meets in a stream (within `windows`), a table or a global table (by `table_key`).

        The joiner takes both values, `with_key` the record's key before them. With `grace_ms`, of a versioned table,
        a record waits until this stream's time has gone on by so much, for updates that come late. `store` begins the
        names of the stores that a join of two streams keeps.
        """
        keyed = _keyed(joiner, with_key)
        return self._join(other, keyed, windows, table_key, grace_ms, value, store, name, left=False, outer=False)

    def left_join(
        self, other: Stream | Table | GlobalTable, joiner: Callable[..., Any], *, windows: JoinWindows | None = None,
        table_key: KeyAndValue | None = None, with_key: bool = False, grace_ms: int | None = None,
        value: Serde | None = None, store: str | None = None, name: str | None = None,
    ) -> Stream:  # fmt: skip
        """As `join`, and the records that meet nothing, with None for the other side."""
        keyed = _keyed(joiner, with_key)
        return self._join(other, keyed, windows, table_key, grace_ms, value, store, name, left=True, outer=False)

    def outer_join(
        self, other: Stream, joiner: Callable[..., Any], *, windows: JoinWindows, with_key: bool = False,
        value: Serde | None = None, store: str | None = None, name: str | None = None,
    ) -> Stream:  # fmt: skip
        """As `join` of two streams, and the records of both sides that meet nothing."""
        keyed = _keyed(joiner, with_key)
        return self._join(other, keyed, windows, None, None, value, store, name, left=True, outer=True)

    def _join(
        self, other: Stream | Table | GlobalTable, joiner: JoinerWithKey, windows: JoinWindows | None,
        table_key: KeyAndValue | None, grace_ms: int | None, value: Serde | None, store: str | None, name: str | None,
        *, left: bool, outer: bool,
    ) -> Stream:  # fmt: skip
        self.draft.shares(other.draft)
        if isinstance(other, Stream) == (windows is None):
            raise TopologyError("a join of two streams needs windows=JoinWindows.of(…), and no other join takes them")
        if isinstance(other, GlobalTable) == (table_key is None):
            raise TopologyError("a join with a global table needs table_key=…, and no other join takes it")
        if grace_ms is not None:
            _check_grace(other, grace_ms)
        if isinstance(other, Stream):
            assert windows is not None
            return self._join_stream(other, joiner, windows, value, store, name, left=left, outer=outer)
        if store is not None:
            raise TopologyError(f"a join with a table names no store: leave store={store!r} out")
        return self._join_table(other, joiner, table_key, grace_ms, value, name, left=left)

    def _join_table(
        self, other: Table | GlobalTable, joiner: JoinerWithKey, table_key: KeyAndValue | None, grace_ms: int | None,
        value: Serde | None, name: str | None, *, left: bool,
    ) -> Stream:  # fmt: skip
        this = self if isinstance(other, GlobalTable) else self._copartitioned(name)
        prefix = "KSTREAM-LEFTJOIN-" if left or isinstance(other, GlobalTable) else "KSTREAM-JOIN-"
        node = self.draft.numbers.node(prefix, name)
        choose = table_key or (lambda key, _: key)
        view, stores = other.view(), other.view_stores()
        join = partial(StreamTableJoin, view, choose, joiner, left=left, view_at=other.view_at)
        make: Callable[[], StreamTableJoin | GraceJoin] = join
        if grace_ms is not None:
            buffer, make = this._with_grace(node, join, grace_ms)
            stores = (*stores, buffer)
        self.draft.processor(node, (this.node,), make, stores=stores)
        if left:
            self.draft.keeps_keyless(node)
        return Stream(self.draft, node, this.key, value, rekeyed=this.rekeyed)

    def _with_grace(
        self, node: str, join: Callable[[], StreamTableJoin], grace_ms: int
    ) -> tuple[str, Callable[[], GraceJoin]]:
        """The store where the records of a join wait, and the join with it."""
        draft, buffer = self.draft, node + "-Buffer"
        key, value = self.key or draft.key, self.value or draft.value
        draft.store(buffer, lambda: OrderedStore(buffer, f"{key.name} to {value.name}"))
        return buffer, lambda: GraceJoin(join(), buffer, key, value, grace_ms)

    def _join_stream(
        self, other: Stream, joiner: JoinerWithKey, windows: JoinWindows, value: Serde | None, store: str | None,
        name: str | None, *, left: bool, outer: bool,
    ) -> Stream:  # fmt: skip
        draft, numbers = self.draft, self.draft.numbers
        this, other = self._copartitioned(name, "-left"), other._copartitioned(name, "-right")
        kept = [numbers.node("KSTREAM-WINDOWED-", name, side) for side in ("-this-windowed", "-other-windowed")]
        this_number = numbers.number("KSTREAM-OUTERTHIS-" if outer else "KSTREAM-JOINTHIS-")
        other_number = numbers.number("KSTREAM-OUTEROTHER-" if left else "KSTREAM-JOINOTHER-")
        this_side = f"{name}{'-outer' * outer}-this-join" if name else this_number
        other_side = f"{name}{'-outer' * left}-other-join" if name else other_number
        merged = numbers.node("KSTREAM-MERGE-", name, "-merge")
        bases = [this_number, other_number]
        if store:
            bases = [f"{store}{'-outer' * outer}-this-join", f"{store}{'-outer' * left}-other-join"]
        stores = [base + "-store" for base in bases]
        for kept_name, stream, node in zip(stores, (this, other), kept, strict=True):
            key, kept_value = stream.key or draft.key, stream.value or draft.value
            draft.store(kept_name, _join_store(kept_name, key, kept_value, windows))
            draft.processor(node, (stream.node,), partial(JoinWindow, kept_name), stores=(kept_name,))
        unmatched = None
        sides = (this.value or draft.value, other.value or draft.value)
        if left:
            holds = f"{sides[0].name} and {sides[1].name}"
            base = this_number.replace("JOINTHIS", "OUTERSHARED").replace("OUTERTHIS", "OUTERSHARED")
            if store:
                base = f"{store}-{'outer' if outer else 'left'}-shared-join"
            unmatched = draft.store(base + "-store", lambda: OrderedStore(base + "-store", holds))
        side = partial(
            StreamStreamJoin, unmatched_store=unmatched, joiner=joiner, before_ms=windows.before_ms,
            after_ms=windows.after_ms, grace_ms=windows.grace_ms, clock=merged, values=sides,
        )  # fmt: skip
        shared = (unmatched,) if unmatched else ()
        draft.processor(
            this_side, kept[:1], partial(side, stores[1], left=True, outer=left), stores=(stores[1], *shared)
        )
        draft.processor(
            other_side, kept[1:], partial(side, stores[0], left=False, outer=outer), stores=(stores[0], *shared)
        )
        draft.processor(merged, (this_side, other_side), pass_on)
        if left:
            draft.keeps_keyless(merged)
        return Stream(draft, merged, this.key, value)

    def _copartitioned(self, name: str | None, suffix: str = "") -> Stream:
        """This stream, or its records from a repartition topic if their keys were changed."""
        if not self.rekeyed:
            return self
        if name is None and self._by_key is not None:
            self.draft.numbers.skip(3)  # as Kafka, which numbers nodes that it does not add
            return self._by_key
        prefix = name + suffix if name else self.node
        source = self.draft.repartition(self.node, prefix, self.key, self.value, numbered=name is None)
        sent = Stream(self.draft, source, self.key, self.value)
        if name is None:
            self._by_key = sent
        return sent

    def _columns(
        self, operation: str, prefix: str, name: str | None, function: Vectorised, key: Serde | None,
        value: Serde | None, *, rekeyed: bool,
    ) -> Stream:  # fmt: skip
        make = together(operation, function, self.key or self.draft.key, self.value or self.draft.value)
        node = self.draft.processor(self.draft.numbers.node(prefix, name), (self.node,), make).name
        return Stream(self.draft, node, key, value, rekeyed=self.rekeyed or rekeyed)

    def _same(self, prefix: str, name: str | None, make: Callable[[Record], Iterable[Record]]) -> Stream:
        return self._new(prefix, name, make, self.key, self.value, rekeyed=False)

    def _new(
        self, prefix: str, name: str | None, make: Callable[[Record], Iterable[Record]],
        key: Serde | None, value: Serde | None, *, rekeyed: bool,
    ) -> Stream:  # fmt: skip
        node = self.draft.stateless(self.draft.numbers.node(prefix, name), self.node, make)
        return Stream(self.draft, node, key, value, rekeyed=self.rekeyed or rekeyed)


def _keyed(joiner: Callable[..., Any], with_key: bool) -> JoinerWithKey:
    """A joiner that takes the key too."""
    return joiner if with_key else lambda _, left, right: joiner(left, right)


def _check_grace(other: Stream | Table | GlobalTable, grace_ms: int) -> None:
    """Refuse a grace where no row from before can be looked up, as Kafka does."""
    not_negative("grace_ms", grace_ms)
    if not isinstance(other, Table):
        raise TopologyError("grace_ms= is for joins with a table; windows=JoinWindows.of(…, grace_ms=…) has its own")
    if other.history_ms is None:
        raise TopologyError(
            f"grace_ms={grace_ms} needs a versioned table, whose rows can be looked up later: name history_ms= of "
            "table(), and keep no store of an operation between it and the join"
        )
    if grace_ms > other.history_ms:
        raise TopologyError(
            f"grace_ms={grace_ms} is longer than the table's history_ms={other.history_ms}: the rows would be gone"
        )


def _join_store(name: str, key: Serde, value: Serde, windows: JoinWindows) -> Callable[[], JoinStore]:
    return lambda: JoinStore(name, key, value, windows.retention_ms)


class Split:
    """The branches of a stream, in the order in which their conditions are asked."""

    def __init__(self, stream: Stream, node: str) -> None:
        self._stream, self._node = stream, node
        self._branches: list[tuple[str, KeyAndValue | None]] = []
        stream.draft.processor(node, (stream.node,), lambda: Branches(tuple(self._branches)))

    def branch(self, holds: KeyAndValue, *, name: str | None = None) -> Stream:
        """The records that no earlier branch took and for which a condition holds."""
        return self._branch(holds, str(len(self._branches) + 1) if name is None else name)

    def default(self, *, name: str | None = None) -> Stream:
        """The records that no branch took."""
        return self._branch(None, "0" if name is None else name)

    def _branch(self, holds: KeyAndValue | None, suffix: str) -> Stream:
        if self._branches and self._branches[-1][1] is None:
            raise TopologyError(f"{self._node} has its default branch already: it is the last one")
        stream = self._stream
        node = self._node + suffix
        stream.draft.numbers.number(node)
        self._branches.append((node, holds))
        stream.draft.processor(node, (self._node,), pass_on)
        return Stream(stream.draft, node, stream.key, stream.value, rekeyed=stream.rekeyed)
