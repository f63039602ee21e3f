"""The changes of the binary log as records: which transaction they are in, and where reading can go on. Pure.

A record's offset has Debezium's names. `file`, `pos` and `gtids` tell the place before its transaction, so that
reading begins with a whole one; `gtid` is that transaction, and `change` the number of its rows that were records.
Debezium does not know the last two: it reads the transaction again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ottla.connect.data import Struct
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.plugins.binlog.envelope import LogPlace
from ottla.connect.plugins.binlog.events import (
    Annotation,
    At,
    Event,
    Gtid,
    Prepared,
    Query,
    Rotate,
    Row,
    Rows,
    Xid,
)  # fmt: skip
from ottla.connect.plugins.binlog.table_map import TableMap
from ottla.connect.plugins.binlog.types import as_logged
from ottla.connect.plugins.capture.changes import RowChange, records_of
from ottla.connect.plugins.capture.envelope import Events, Offset, Order
from ottla.connect.plugins.capture.shapes import Shape, Shapes
from ottla.connect.plugins.capture.tables import Table
from ottla.connect.records import SourceRecord

_TRUNCATE: Final = re.compile(
    r"(?:/\*.*?\*/\s*)*TRUNCATE\s+(?:TABLE\s+)?(?:(`(?:[^`]|``)+`|\w+)\s*\.\s*)?(`(?:[^`]|``)+`|[\w$]+)", re.I | re.S
)


@dataclass(slots=True)
class _Group:
    """A transaction, or a statement of its own."""

    gtid: Gtid | None
    passed: int
    """The rows that are records already."""
    ts_s: int
    change: int = 0
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    query: str | None = None


def gtids_of(text: str) -> dict[int, str]:
    """The last transaction of each domain, from its text: DOMAIN-SERVER-NUMBER, separated by commas."""
    found = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        if not re.fullmatch(r"\d+-\d+-\d+", each):
            raise ConfigException(f"{each!r} is no GTID of MariaDB: DOMAIN-SERVER-NUMBER")
        found[int(each.partition("-")[0])] = each
    return found


class Stream:
    """Follows one log."""

    def __init__(self, shapes: Shapes, events: Events, kept: Mapping[str, Any]) -> None:
        """Begin at a kept offset, which has `file` and `pos`."""
        self._shapes, self._events, self._options = shapes, events, shapes.options
        self._file, self._position = kept["file"], kept["pos"]
        self._gtids = gtids_of(kept.get("gtids") or "")
        self._first = (kept["gtid"], kept["change"]) if "change" in kept and "gtid" in kept else None
        self._tables: dict[TableMap, Shape | None] = {}
        self._named: dict[tuple[str, str], Shape] = {}
        self._group: _Group | None = None
        self.offset: Offset = dict(kept)
        """The offset of the last record, or of the place behind it that was passed."""
        self.prepared = False
        """True once a transaction of XA was told before its end."""

    def knows(self, table: TableMap) -> bool:
        """True if a table was described before, and `on_table` told what the catalog has of it."""
        return table in self._tables

    def on_table(self, table: TableMap, now: Table | None) -> Shape | None:
        """Learn a table. `now` is the table in the catalog, None where that has forgotten it."""
        shape = None
        if self._shapes.selection.table(table.schema, table.name):
            shape = self._shapes.of(as_logged(table, now))
        for old in [each for each in self._tables if each.full_name == table.full_name]:
            del self._tables[old]
        self._tables[table] = shape
        if shape is not None:
            self._named[table.schema, table.name] = shape
        return shape

    def lacks(self, event: Event | None) -> tuple[str, str] | None:
        """The captured table that a statement empties, if it was not described yet: `on_emptied` tells it."""
        if not isinstance(event, Query) or (named := _truncated(event)) is None or named in self._named:
            return None
        return named if self._shapes.selection.table(*named) else None

    def on_emptied(self, now: Table) -> None:
        """Learn a table from the catalog."""
        self._named[now.schema, now.name] = self._shapes.of(now)

    def on_event(self, at: At, event: Event | None, now_us: int) -> list[SourceRecord]:
        """The records of an event."""
        records: list[SourceRecord] = []
        match event:
            case Rotate():
                self._file, self._position = event.file, event.position
            case Gtid():
                records = self._begun(at, event)
            case Annotation() if self._group is not None and self._options["include.query"]:
                self._group.query = event.text
            case Rows():
                records = self._changed(at, event, now_us)
            case Query():
                records = self._said(at, event, now_us)
            case Prepared():
                self.prepared = self.prepared or not event.one_phase
                records = self._ended(at)
            case Xid():
                records = self._ended(at)
        if at.end and not isinstance(event, Rotate):
            self._position = at.end
            if self._group is None and self._first is None:
                self.offset = self._between(at)
        return records

    def _between(self, at: At) -> Offset:
        found: Offset = {"ts_sec": at.ts_s, "file": self._file, "pos": self._position}
        if self._gtids:
            found["gtids"] = ",".join(self._gtids[domain] for domain in sorted(self._gtids))
        return {**found, "server_id": at.server_id} if at.server_id else found

    def _begun(self, at: At, gtid: Gtid) -> list[SourceRecord]:
        first, self._first = self._first, None
        self._position = at.begin
        self.offset = self._between(at)
        passed = first[1] if first is not None and first[0] == str(gtid) else 0
        if passed:
            self.offset |= {"gtid": str(gtid), "change": passed}
        self._group = _Group(gtid, passed, at.ts_s)
        if self._options["provide.transaction.metadata"] and not passed and not gtid.standalone:
            return [self._status(at, "BEGIN", None)]
        return []

    def _ended(self, at: At) -> list[SourceRecord]:
        group, self._group = self._group, None
        if group is None:
            return []
        self._position = at.end
        if group.gtid is not None:
            self._gtids[group.gtid.domain] = str(group.gtid)
        self.offset = self._between(at)
        if self._options["provide.transaction.metadata"] and group.gtid is not None and not group.gtid.standalone:
            self._group = group
            records = [self._status(at, "END", group.counts)]
            self._group = None
            return records
        return []

    def _status(self, at: At, status: str, counts: Mapping[str, int] | None) -> SourceRecord:
        assert self._group is not None
        return self._events.transaction(status, str(self._group.gtid), counts, at.ts_s * 1_000_000, self.offset)

    def _said(self, at: At, query: Query, now_us: int) -> list[SourceRecord]:
        word = query.text.strip().upper()
        if word in ("COMMIT", "ROLLBACK"):
            return self._ended(at)
        records: list[SourceRecord] = []
        if (named := _truncated(query)) is not None:
            records = self._truncated(at, named, now_us)
        if self._group is not None and (self._group.gtid is None or self._group.gtid.standalone):
            records += self._ended(at)
            if records and self.offset is not records[-1].source_offset:
                records[-1].source_offset = self.offset
        return records

    def _truncated(self, at: At, named: tuple[str, str], now_us: int) -> list[SourceRecord]:
        shape = self._named.get(named)
        if shape is None or self._group is None or "t" in self._options["skipped.operations"]:
            return []
        place = self._place(at, 0)
        return [self._events.change(shape, "t", None, None, place, now_us, self.offset, self._order(shape))]

    def _place(self, at: At, row: int) -> LogPlace:
        group = self._group
        gtid = None if group is None or group.gtid is None else str(group.gtid)
        query = None if group is None else group.query
        return LogPlace(at.ts_s, "false", self._file, at.begin, row, at.server_id, gtid, query)

    def _order(self, shape: Shape) -> Order | None:
        """Count one more event of the transaction: its place there, where that is told."""
        assert self._group is not None
        group, name = self._group, shape.table.full_name
        group.total += 1
        group.counts[name] = group.counts.get(name, 0) + 1
        if not self._options["provide.transaction.metadata"]:
            return None
        return Order(str(group.gtid), group.total, group.counts[name])

    def _changed(self, at: At, rows: Rows, now_us: int) -> list[SourceRecord]:
        if self._group is None:
            raise DataException("the log has rows outside of a transaction: take a new snapshot")
        if rows.table not in self._tables:
            raise DataException(f"the log has rows of {rows.table.full_name} before its columns")
        shape = self._tables[rows.table]
        records: list[SourceRecord] = []
        for number, (before, after) in enumerate(rows.rows):
            self._group.change += 1
            if shape is None or rows.op in self._options["skipped.operations"]:
                continue
            if self._group.change <= self._group.passed:
                self._order(shape)  # it counts in its transaction
                continue
            records += self._records(at, shape, rows.op, number, before, after, now_us)
        return records

    def _records(
        self, at: At, shape: Shape, op: str, number: int, before: Row | None, after: Row | None, now_us: int
    ) -> list[SourceRecord]:
        assert self._group is not None
        gtid = {} if self._group.gtid is None else {"gtid": str(self._group.gtid)}
        offset = {**self.offset, "ts_sec": at.ts_s, "server_id": at.server_id, **gtid, "change": self._group.change}
        old, new = _of(shape, before), _of(shape, after)
        change = RowChange(op, old, new, self._place(at, number), now_us)
        tombstones = self._options["tombstones.on.delete"]
        order = partial(self._order, shape)
        records = records_of(self._events, shape, change, offset, self.offset, order, tombstones=tombstones)
        self.offset = offset
        return records


def _of(shape: Shape, row: Row | None) -> Struct | None:
    return None if row is None else shape.row(row)


def _truncated(query: Query) -> tuple[str, str] | None:
    """The database and the table that a statement empties."""
    found = _TRUNCATE.match(query.text.strip())
    if found is None:
        return None
    return _unquoted(found[1]) if found[1] else query.database, _unquoted(found[2])


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
