"""Topologies of tests, by the names under which StreamsOracle.java builds the same ones."""

from __future__ import annotations

import re
from typing import Any

from ottla.streams import (
    TEXT,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Stream,
    StreamsBuilder,
    Table,
    TimeWindows,
    Topology,
)
from ottla.streams.patterns import SourceOf


def pair(left: Any, right: Any) -> str:
    return f"{'null' if left is None else left},{'null' if right is None else right}"


def append(_key: Any, value: Any, aggregate: str) -> str:
    return aggregate + ("null" if value is None else value)


def foreign(_key: str, value: str) -> str | None:
    return {"1": "k", "2": "j"}.get(value)


def windowed(builder: StreamsBuilder, windows: Any, *, on_close: bool) -> None:
    grouped = builder.stream("a").group_by_key().windowed_by(windows)
    merge = (lambda _, one, two: f"{one}&{two}") if isinstance(windows, SessionWindows) else None
    shown((grouped.emit_on_close() if on_close else grouped).aggregate(lambda: "0", append, merge))


def shown(table: Table) -> None:
    table.to_stream().map(lambda k, v: (f"{k.key}@{k.start}-{k.end}", v)).to("out")


def texts(table: Table) -> None:
    table.to_stream().map_values(lambda v: "null" if v is None else str(v), value=TEXT).to("out")


def stateless(builder: StreamsBuilder) -> None:
    split = builder.stream("a").filter(lambda k, v: v is not None).split()
    one = split.branch(lambda k, v: "1" in v)
    two = split.branch(lambda k, v: "2" in v)
    split.default()
    one = one.map_values(lambda v: v + "!")
    two = two.map(lambda k, v: (v, k))
    one.merge(two).flat_map_values(lambda v: [v, plus(v)]).peek(pair).to("out")


def plus(value: str | None) -> str:
    return f"{'null' if value is None else value}+"


def cogroup(builder: StreamsBuilder) -> None:
    first = builder.stream("a").group_by_key()
    both = first.cogroup(lambda _, v, a: f"{a}a{v}")
    both = both.cogroup(builder.stream("b").group_by_key(), lambda _, v, a: f"{a}b{v}")
    both.aggregate(lambda: "0").to_stream().to("out")


def cogroup_rekeyed(builder: StreamsBuilder) -> None:
    both = builder.stream("a").group_by(lambda _, v: v).cogroup(lambda _, v, a: f"{a}a{v}")
    other = builder.stream("b").select_key(lambda k, _: k).group_by_key(name="second")
    both.cogroup(other, lambda _, v, a: f"{a}b{v}").aggregate(lambda: "0").to_stream().to("out")


def cogroup_windows(builder: StreamsBuilder, windows: Any) -> None:
    both = builder.stream("a").group_by(lambda _, v: v).cogroup(lambda k, v, a: append(k, v, f"{a}a"))
    both = both.cogroup(builder.stream("b").group_by_key(), lambda k, v, a: append(k, v, f"{a}b"))
    merge = (lambda _, one, two: f"{one}&{two}") if isinstance(windows, SessionWindows) else None
    shown(both.windowed_by(windows).aggregate(lambda: "0", merge))


def window_reduce(builder: StreamsBuilder) -> None:
    shown(builder.stream("a").group_by_key().windowed_by(TimeWindows(10, grace_ms=5)).reduce(pair))


def versioned(builder: StreamsBuilder) -> Table:
    return builder.table("b", history_ms=20, store="history")


def named(builder: StreamsBuilder) -> None:
    some = builder.stream("a", name="in").filter(lambda _, v: v is not None, name="some")
    turned = some.map(lambda k, v: (v, k), name="turned")
    reduced = turned.group_by_key(name="by-value").reduce(pair, name="reduced", store="kept")
    chosen = builder.stream("b", name="other").select_key(lambda _, v: v, name="chosen")
    joined = chosen.join(reduced, pair, name="joined")
    again = turned.repartition(name="again")
    joined.left_join(again, pair, windows=WITHIN, name="paired", store="pairs").to("out", name="end")


def tables_kept_group(builder: StreamsBuilder) -> None:
    joined = builder.table("a").outer_join(builder.table("b"), pair, store="joined")
    texts(joined.group_by(lambda k, v: (v, k)).count())


def tables_twice(builder: StreamsBuilder) -> None:
    joined = builder.table("a").left_join(builder.table("b"), pair)
    joined.outer_join(builder.table("c").map_values(lambda v: v + "c"), pair).to_stream().to("out")


def by_pattern(builder: StreamsBuilder) -> None:
    matched = builder.stream(re.compile("[ab]")).filter(lambda _, v: v is not None)
    texts(matched.merge(builder.stream("c")).group_by_key().count())


def left_out(_key: Any, value: Any, count: int) -> list[int] | None:
    """No partition for "1", the last one for "2", Kafka's choice for others."""
    return [] if value == "1" else [count - 1] if value == "2" else None


def spread_by_value(_key: Any, value: Any, count: int) -> Any:
    """The last partition for "one", every one for "all", no one for "none", Kafka's choice for others."""
    return {"one": count - 1, "all": range(count), "none": ()}.get(value)


def read_by(topology: Topology) -> str:
    """The topics among a, b and c that a topology reads."""
    source_of = SourceOf(topology.sources())
    return "".join(topic for topic in "abc" if source_of.reads(topic))


def same(builder: StreamsBuilder) -> Stream:
    return builder.stream("a").select_key(lambda k, _: k)


WITHIN = JoinWindows.of(6, grace_ms=3)
TOPOLOGIES = {
    "stateless": stateless,
    "count": lambda b: texts(b.stream("a").group_by_key().count()),
    "group_count": lambda b: texts(b.stream("a").group_by(lambda _, v: v).count()),
    "reduce": lambda b: same(b).group_by_key().reduce(pair, store="kept").to_stream().to("out"),
    "aggregate": lambda b: b.stream("a").group_by_key().aggregate(lambda: "0", append).to_stream().to("out"),
    "count_of_counts": lambda b: texts(b.stream("a").group_by_key().count().group_by(lambda k, v: (str(v), k)).count()),
    "table_group": lambda b: b.table("a").group_by(lambda k, v: (v, k)).aggregate(
        lambda: "0", lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}").to_stream().to("out"),
    "table_reduce": lambda b: b.table("a").group_by(lambda k, v: (v[:1], v)).reduce(
        lambda a, v: f"{a}+{v}", lambda a, v: f"{a}-{v}").to_stream().to("out"),
    "table_filter": lambda b: b.table("a").filter(lambda k, v: "1" in v).map_values(lambda v: v + "!").to_stream().to(
        "out"),
    "table_filter_group": lambda b: texts(b.table("a").filter(lambda k, v: "1" in v).map_values(lambda v: v + "!")
                                          .group_by(lambda k, v: (v, k)).count()),
    "to_table": lambda b: b.stream("a").map(lambda k, v: (k, v)).to_table().filter_not(
        lambda k, v: "1" in v).to_stream().to("out"),
    "tumbling": lambda b: windowed(b, TimeWindows(10, grace_ms=5), on_close=False),
    "hopping": lambda b: windowed(b, TimeWindows(10, 4, grace_ms=5), on_close=False),
    "tumbling_close": lambda b: windowed(b, TimeWindows(10, grace_ms=5), on_close=True),
    "hopping_close": lambda b: windowed(b, TimeWindows(10, 4, grace_ms=5), on_close=True),
    "sliding": lambda b: windowed(b, SlidingWindows(8, grace_ms=5), on_close=False),
    "sliding_close": lambda b: windowed(b, SlidingWindows(8, grace_ms=5), on_close=True),
    "session": lambda b: windowed(b, SessionWindows(5, grace_ms=3), on_close=False),
    "session_close": lambda b: windowed(b, SessionWindows(5, grace_ms=3), on_close=True),
    "window_count_suppress": lambda b: shown(b.stream("a").group_by_key().windowed_by(TimeWindows(10, grace_ms=5))
                                             .count().suppress_until_window_closes().map_values(str)),
    "session_suppress": lambda b: shown(b.stream("a").group_by_key().windowed_by(SessionWindows(5, grace_ms=3))
                                        .count().suppress_until_window_closes().map_values(str)),
    "suppress_time": lambda b: b.table("a").suppress_until_time_limit(7).to_stream().to("out"),
    "cogroup": cogroup,
    "cogroup_rekeyed": cogroup_rekeyed,
    "cogroup_tumbling": lambda b: cogroup_windows(b, TimeWindows(10, grace_ms=5)),
    "cogroup_sliding": lambda b: cogroup_windows(b, SlidingWindows(8, grace_ms=5)),
    "cogroup_session": lambda b: cogroup_windows(b, SessionWindows(5, grace_ms=3)),
    "named": named,
    "by_pattern": by_pattern,
    "by_pattern_named": lambda b: b.stream(re.compile("a|b|x.*"), name="some").map_values(plus).to("out"),
    "partitioned": lambda b: b.stream("a").to("out", partitioner=left_out),
    "stream_table": lambda b: b.stream("a").join(b.table("b"), pair).to("out"),
    "stream_table_left": lambda b: same(b).left_join(b.table("b"), pair).to("out"),
    "stream_global": lambda b: b.stream("a").join(b.global_table("b"), pair, table_key=lambda k, _: k).to("out"),
    "stream_global_left": lambda b: b.stream("a").left_join(
        b.global_table("b"), pair, table_key=lambda k, _: k).to("out"),
    "versioned_stream": lambda b: b.stream("a").left_join(versioned(b), pair).to("out"),
    "versioned_mapped": lambda b: b.stream("a").left_join(versioned(b).map_values(lambda v: v + "!"), pair).to("out"),
    "grace": lambda b: b.stream("a").join(versioned(b), pair, grace_ms=5).to("out"),
    "grace_left": lambda b: same(b).left_join(
        versioned(b).map_values(lambda v: v + "!"), pair, grace_ms=20).to("out"),
    "grace_named": lambda b: b.stream("a").left_join(versioned(b), pair, grace_ms=0, name="met").to("out"),
    "versioned_tables": lambda b: b.table("a").left_join(versioned(b), pair).to_stream().to("out"),
    "versioned_group": lambda b: texts(versioned(b).group_by(lambda k, v: (v, k)).count()),
    "versioned_alone": lambda b: texts(versioned(b)),
    "tables_inner": lambda b: b.table("a").join(b.table("b"), pair).to_stream().to("out"),
    "tables_left": lambda b: b.table("a").left_join(b.table("b"), pair).to_stream().to("out"),
    "tables_outer": lambda b: b.table("a").outer_join(b.table("b"), pair).to_stream().to("out"),
    "tables_kept_group": tables_kept_group,
    "tables_twice": tables_twice,
    "foreign": lambda b: b.table("a").join_on_foreign_key(b.table("b"), foreign, pair).to_stream().to("out"),
    "foreign_left": lambda b: b.table("a").left_join_on_foreign_key(b.table("b"), foreign, pair).filter(
        lambda k, v: True).to_stream().to("out"),
    "streams_inner": lambda b: b.stream("a").join(b.stream("b"), pair, windows=WITHIN).to("out"),
    "streams_left": lambda b: b.stream("a").left_join(b.stream("b"), pair, windows=WITHIN).to("out"),
    "streams_outer": lambda b: b.stream("a").outer_join(b.stream("b"), pair, windows=WITHIN).to("out"),
    "streams_uneven": lambda b: same(b).outer_join(
        b.stream("b"), pair, windows=JoinWindows(2, 8, grace_ms=3)).to("out"),
}  # fmt: skip


def built(name: str) -> Topology:
    """One of the topologies; keys and values are text."""
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    TOPOLOGIES[name](builder)
    return builder.build()
