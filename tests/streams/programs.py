"""Topologies made at random from the operations, as lists of steps that StreamsPrograms.java builds too.

A step is an operation, a number that chooses its variant, the steps whose results it takes, and a topic. Its result is
a stream or a table of text.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.streams.oracle import Row
from tests.streams.topologies import foreign, pair, plus

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

Step = tuple[str, int, list[int], str]
Program = list[Step]
LENGTH = 40
HISTORY_MS = 20
WINDOWS = (TimeWindows(10, grace_ms=5), TimeWindows(10, 4, grace_ms=5), SlidingWindows(8, grace_ms=5),
           SessionWindows(5, grace_ms=3))  # fmt: skip
WITHIN = (JoinWindows.of(6, grace_ms=3), JoinWindows(2, 8, grace_ms=3))


def said(value: str | None) -> str:
    return "null" if value is None else value


def short(text: str) -> str:
    """The end of a text: aggregates of aggregates would grow without end."""
    return text[-LENGTH:]


def joined(left: Any, right: Any) -> str:
    return short(pair(left, right))


def added(_key: Any, value: Any, aggregate: str) -> str:
    return short(f"{aggregate}+{said(value)}")


def taken(_key: Any, value: Any, aggregate: str) -> str:
    return short(f"{aggregate}-{said(value)}")


def windowed(stream: Stream, n: int) -> Stream:
    windows = WINDOWS[n % len(WINDOWS)]
    merge = (lambda _, one, two: short(f"{one}&{two}")) if isinstance(windows, SessionWindows) else None
    grouped = stream.group_by_key().windowed_by(windows)
    if n >= len(WINDOWS):
        grouped = grouped.emit_on_close()
    return grouped.aggregate(lambda: "0", added, merge).to_stream().map(lambda k, v: (f"{k.key}@{k.start}-{k.end}", v))


def suppressed(stream: Stream, n: int) -> Stream:
    windows = WINDOWS[(0, 1, 3)[n % 3]]
    counted = stream.group_by_key().windowed_by(windows).count().suppress_until_window_closes().map_values(str)
    return counted.to_stream().map(lambda k, v: (f"{k.key}@{k.start}-{k.end}", v), value=TEXT)


def of_stream_and_table(stream: Stream, table: Table, n: int) -> Stream:
    return stream.left_join(table, joined) if n % 2 else stream.join(table, joined)


def with_grace(stream: Stream, table: Table, n: int) -> Stream:
    join = stream.left_join if n % 2 else stream.join
    return join(table, joined, grace_ms=(0, 5, HISTORY_MS)[n % 3])


def of_streams(one: Stream, other: Stream, n: int) -> Stream:
    windows = WITHIN[n % 2]
    if n // 2 % 3 == 0:
        return one.join(other, joined, windows=windows)
    return (one.left_join if n // 2 % 3 == 1 else one.outer_join)(other, joined, windows=windows)


def of_tables(one: Table, other: Table, n: int) -> Table:
    return (one.join, one.left_join, one.outer_join)[n % 3](other, joined)


def by_foreign_key(one: Table, other: Table, n: int) -> Table:
    join = one.left_join_on_foreign_key if n % 2 else one.join_on_foreign_key
    return join(other, lambda k, v: foreign(k, v[-1:]), joined)


OPERATIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "filter": ("S>S", lambda s, n: s.filter(lambda k, v: v is not None and "1" in v)),
    "filter_not": ("S>S", lambda s, n: s.filter_not(lambda k, v: v is not None and "2" in v)),
    "map": ("S>S", lambda s, n: s.map(lambda k, v: (v, k))),
    "map_values": ("S>S", lambda s, n: s.map_values(lambda v: short(f"{said(v)}!"))),
    "flat_map": ("S>S", lambda s, n: s.flat_map(lambda k, v: [(k, v), (v, k)])),
    "flat_map_values": ("S>S", lambda s, n: s.flat_map_values(lambda v: [v, short(plus(v))])),
    "select_key": ("S>S", lambda s, n: s.select_key(lambda k, v: said(v)[-1:])),
    "merge": ("SS>S", lambda s, t, n: s.merge(t)),
    "repartition": ("S>S", lambda s, n: s.repartition()),
    "to_table": ("S>T", lambda s, n: s.to_table()),
    "count": ("S>T", lambda s, n: s.group_by_key().count().map_values(str, value=TEXT)),
    "reduce": ("S>T", lambda s, n: s.group_by_key().reduce(joined)),
    "aggregate": ("S>T", lambda s, n: s.group_by(lambda k, v: said(v)[-1:]).aggregate(lambda: "0", added)),
    "windowed": ("S>S", windowed),
    "suppressed": ("S>S", suppressed),
    "cogroup": ("SS>T", lambda s, t, n: s.group_by_key().cogroup(added).cogroup(t.group_by_key(), taken).aggregate(
        lambda: "0")),
    "table_filter": ("T>T", lambda t, n: t.filter(lambda k, v: "1" in v)),
    "table_filter_not": ("T>T", lambda t, n: t.filter_not(lambda k, v: "2" in v)),
    "table_map_values": ("T>T", lambda t, n: t.map_values(lambda v: short(v + "!"))),
    "table_group": ("T>T", lambda t, n: t.group_by(lambda k, v: (v[-1:], v)).aggregate(lambda: "0", added, taken)),
    "table_count": ("T>T", lambda t, n: t.group_by(lambda k, v: (v, k)).count().map_values(str, value=TEXT)),
    "to_stream": ("T>S", lambda t, n: t.to_stream()),
    "updates": ("V>S", lambda t, n: t.to_stream()),
    "time_limit": ("T>T", lambda t, n: t.suppress_until_time_limit(7)),
    "stream_table": ("ST>S", of_stream_and_table),
    "grace": ("SV>S", with_grace),
    "streams": ("SS>S", of_streams),
    "tables": ("TT>T", of_tables),
    "foreign": ("TT>T", by_foreign_key),
    "by_value": ("TT>T", lambda t, other, n: t.join_on_foreign_key(other, lambda k, v: v, joined)),
}  # fmt: skip
SOURCES = {"stream": "S", "table": "T", "versions": "V"}
"""The kinds of their results: streams, tables, and versioned tables."""


def drawn(draw: random.Random, most: int = 7) -> tuple[Program, list[Row]]:
    """A program with up to so many operations over one to three topics, and an input for it."""
    topics = draw.sample("abc", draw.randint(1, 3))
    program: Program = [(draw.choice(list(SOURCES)), 0, [], topic) for topic in topics]
    kinds = [SOURCES[step[0]] for step in program]
    unused = set(range(len(program)))
    for _ in range(draw.randint(1, most)):
        name = draw.choice([name for name, (kind, _) in OPERATIONS.items() if set(kind.split(">")[0]) <= set(kinds)])
        taken_kinds, made = OPERATIONS[name][0].split(">")
        operands = [_chosen(draw, kinds, unused, kind) for kind in taken_kinds]
        unused = unused - set(operands) | {len(program)}
        program.append((name, draw.randrange(8), operands, ""))
        kinds.append(made)
    for at in sorted(unused):
        shown = at if kinds[at] == "S" else len(program)
        program += [] if kinds[at] == "S" else [("to_stream", 0, [at], "")]
        program.append(("to", 0, [shown], f"out{at}"))
    rows: list[Row] = [
        (draw.choice(topics), draw.choice(["k", "j", "k", None]), draw.choice(["1", "2", "12", "3", None]),
         draw.choice([draw.randint(0, 60), draw.randint(0, 12)]))
        for _ in range(draw.randint(1, 25))
    ]  # fmt: skip
    return program, rows


def _chosen(draw: random.Random, kinds: list[str], unused: set[int], kind: str) -> int:
    """An earlier result of a kind; more often one that nothing has taken yet."""
    known = [at for at, one in enumerate(kinds) if one == kind]
    fresh = [at for at in known if at in unused]
    return draw.choice(fresh if fresh and draw.random() < 0.8 else known)


def built(program: Program) -> Topology:
    """The topology of a program; keys and values are text."""
    builder, made = StreamsBuilder(key=TEXT, value=TEXT), list[Any]()
    for name, n, operands, topic in program:
        of = [made[at] for at in operands]
        if name in SOURCES:
            history = {"history_ms": HISTORY_MS, "store": f"history-{topic}"} if name == "versions" else {}
            made.append(builder.stream(topic) if name == "stream" else builder.table(topic, **history))
        elif name == "to":
            made.append(of[0].to(topic))
        else:
            made.append(OPERATIONS[name][1](*of, n))
    return builder.build()
