"""The changes of the log as records: which transaction they are in, and the offset at which reading can go on. Pure.

A record's offset names the end of the last transaction that was read whole (`lsn_commit`), and the change itself by its
transaction, its place in the log and its number there (`txId`, `lsn_proc`, `lsn_event`; rows that one command copies in
share a place). Reading begins again behind `lsn_commit` and passes over the changes that were records before, so the
place that the database is told it may forget is never behind what Kafka lacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ottla.connect.data import Struct
from ottla.connect.errors import DataException
from ottla.connect.plugins.capture import pgoutput
from ottla.connect.plugins.capture.changes import RowChange, records_of
from ottla.connect.plugins.capture.envelope import Events, Offset, Order, Origin
from ottla.connect.plugins.capture.pgoutput import Begin, Commit, Delete, Insert, Message, Relation, Truncate, Update
from ottla.connect.plugins.capture.shapes import NullInRequired, Shape, Shapes
from ottla.connect.plugins.capture.tables import Table, TypeEntry
from ottla.connect.records import SourceRecord

_NAMES = {Insert: "INSERT", Update: "UPDATE", Delete: "DELETE", Truncate: "TRUNCATE", Message: "MESSAGE"}


@dataclass(frozen=True, slots=True)
class Passed:
    """The last change that is a record already."""

    xid: int
    lsn: int
    event: int
    """Its number among those at its place; -1 where that is not known: those there are records again."""


@dataclass(slots=True)
class _Transaction:
    begin: Begin
    passed: Passed | None
    lsn: int = -1
    event: int = 0
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    origin: tuple[str, int] | None = None
    begun: bool = False


def passed_of(offset: Mapping[str, Any]) -> Passed | None:
    """The last change of a kept offset, None for one between two transactions."""
    if offset.get("messageType") in (None, "COMMIT") or offset.get("txId") is None:
        return None
    return Passed(offset["txId"], offset["lsn_proc"], offset.get("lsn_event", -1))


class Stream:
    """Follows one slot."""

    def __init__(self, shapes: Shapes, events: Events, commit_lsn: int, kept: Mapping[str, Any] | None = None) -> None:
        """Begin behind `commit_lsn`; `kept` is the offset of the last record, if there was one in the log."""
        self._shapes, self._events = shapes, events
        self._options = shapes.options
        self._commit_lsn = commit_lsn
        self._last_commit: int | None = None if kept is None else commit_lsn
        self._first = passed_of(kept) if kept is not None else None
        self._tables: dict[int, Shape | None] = {}
        self._transaction: _Transaction | None = None
        self.offset: Offset = dict(kept) if kept is not None else self._between(None)
        """The offset of the last record, or of the place behind it that was passed."""

    def on_relation(self, relation: Relation, now: Table | None, types: Mapping[int, TypeEntry]) -> Shape | None:
        """Learn the columns of a table. `now` is the table in the catalog, None where that has forgotten it."""
        shape = None
        if self._shapes.selection.table(relation.schema, relation.table):
            known = now or Table(relation.schema, relation.table, ())
            shape = self._shapes.of(known.as_sent(relation, types))
        self._tables[relation.oid] = shape
        return shape

    def on_keepalive(self, end_lsn: int) -> None:
        """Pass the log up to a place that the server has read; no transaction ends before it that is still to come."""
        if self._transaction is None and end_lsn > self._commit_lsn:
            self._commit_lsn = end_lsn
            self.offset = self._between(None)

    def on_message(self, lsn: int, message: pgoutput.Decoded, now_us: int) -> list[SourceRecord]:
        """The records of a message; those of a relation come by `on_relation`."""
        match message:
            case Begin():
                first, self._first = self._first, None
                passed = first if first is not None and first.xid == message.xid else None
                self._transaction = _Transaction(message, passed)
                if self._options["provide.transaction.metadata"] and passed is None:
                    return [self._status("BEGIN", lsn, None)]
            case Commit():
                return self._committed(message)
            case pgoutput.Origin():
                self._within().origin = (message.name, message.lsn)
            case Message():
                return self._said(message, now_us)
            case Truncate():
                return self._truncated(lsn, message, now_us)
            case Insert() | Update() | Delete():
                return self._changed(lsn, message, now_us)
        return []

    def _within(self) -> _Transaction:
        if self._transaction is None:
            raise DataException("pgoutput sent a change outside of a transaction")
        return self._transaction

    def _between(self, ts_us: int | None) -> Offset:
        lsn = self._commit_lsn
        found: Offset = {"lsn_proc": lsn, "messageType": "COMMIT", "lsn_commit": lsn, "lsn": lsn}
        return found if ts_us is None else {**found, "ts_usec": ts_us}

    def _status(self, status: str, lsn: int, counts: Mapping[str, int] | None) -> SourceRecord:
        begin = self._within().begin
        return self._events.transaction(status, f"{begin.xid}:{lsn}", counts, begin.commit_us, self.offset)

    def _committed(self, commit: Commit) -> list[SourceRecord]:
        transaction = self._within()
        self._commit_lsn = self._last_commit = commit.end_lsn
        self.offset = self._between(commit.commit_us)
        records = []
        if self._options["provide.transaction.metadata"]:
            records.append(self._status("END", commit.end_lsn, transaction.counts))
        self._transaction = None
        return records

    def _counted(self, lsn: int, change: object, shape: Shape | None, *, skipped: bool) -> Offset | None:
        """Take a change into account: its offset, None for one that is no record, or was one before."""
        transaction = self._within()
        transaction.event = transaction.event + 1 if lsn == transaction.lsn else 0
        transaction.lsn = lsn
        if shape is None or skipped:
            return None
        passed = transaction.passed
        if passed is not None and (lsn, transaction.event) <= (passed.lsn, passed.event):
            self._order(lsn, shape)  # it counts in its transaction
            return None
        begin = transaction.begin
        return {
            "lsn_proc": lsn, "messageType": _NAMES[type(change)], "lsn_commit": self._commit_lsn, "lsn": lsn,
            "txId": begin.xid, "ts_usec": begin.commit_us, "lsn_event": transaction.event,
        }  # fmt: skip

    def _at(self, lsn: int, xid: int | None, commit_us: int) -> Origin:
        last = None if self._last_commit is None else str(self._last_commit)
        sequence = json.dumps([last, str(lsn)], separators=(",", ":"))
        origin = None if self._transaction is None else self._transaction.origin
        return Origin(commit_us, "false", sequence, xid, lsn, origin)

    def _order(self, lsn: int, shape: Shape) -> Order | None:
        """Count one more event of the transaction: its place there, where that is told."""
        transaction = self._within()
        name = shape.table.full_name
        transaction.total += 1
        transaction.counts[name] = transaction.counts.get(name, 0) + 1
        if not self._options["provide.transaction.metadata"]:
            return None
        return Order(f"{transaction.begin.xid}:{lsn}", transaction.total, transaction.counts[name])

    def _changed(self, lsn: int, change: Insert | Update | Delete, now_us: int) -> list[SourceRecord]:
        try:
            shape = self._tables[change.relation]
        except KeyError:
            raise DataException(f"pgoutput sent a change of the table {change.relation} before its columns") from None
        op = {Insert: "c", Update: "u", Delete: "d"}[type(change)]
        offset = self._counted(lsn, change, shape, skipped=op in self._options["skipped.operations"])
        if offset is None or shape is None:
            return []
        made = self._tried(change, shape, lambda shape: self._records(lsn, change, shape, now_us, offset))
        self.offset = offset
        return made

    def _tried(
        self, change: Insert | Update | Delete, shape: Shape, make: Callable[[Shape], list[SourceRecord]]
    ) -> list[SourceRecord]:
        while True:
            try:
                return make(shape)
            except NullInRequired as found:
                shape = self._tables[change.relation] = self._shapes.of(shape.table.with_null(found.column))

    def _records(
        self, lsn: int, change: Insert | Update | Delete, shape: Shape, now_us: int, offset: Offset
    ) -> list[SourceRecord]:
        before, after = _rows(shape, change)
        begin = self._within().begin
        op = {Insert: "c", Update: "u", Delete: "d"}[type(change)]
        known = not isinstance(change, Update) or change.key is None or shape.knows_key(change.key)
        made = RowChange(op, before, after, self._at(lsn, begin.xid, begin.commit_us), now_us, known)
        tombstones = self._options["tombstones.on.delete"]
        order = partial(self._order, lsn, shape)
        return records_of(self._events, shape, made, offset, self.offset, order, tombstones=tombstones)

    def _truncated(self, lsn: int, change: Truncate, now_us: int) -> list[SourceRecord]:
        records = []
        for relation in change.relations:
            shape = self._tables.get(relation)
            offset = self._counted(lsn, change, shape, skipped="t" in self._options["skipped.operations"])
            if offset is None or shape is None:
                continue
            begin = self._within().begin
            at = self._at(lsn, begin.xid, begin.commit_us)
            records.append(self._events.change(shape, "t", None, None, at, now_us, offset, self._order(lsn, shape)))
            self.offset = offset
        return records

    def _said(self, message: Message, now_us: int) -> list[SourceRecord]:
        """A message of a client. One outside of a transaction does not move the offset: it may come twice."""
        if "m" in self._options["skipped.operations"] or not self._wanted(message.prefix):
            return []
        if not message.transactional:
            at = self._at(message.lsn, None, now_us)
            return [self._events.message(message.prefix, message.content, at, now_us, self.offset)]
        begin = self._within().begin
        passed = self._within().passed
        if passed is not None and message.lsn <= passed.lsn:
            return []
        at = self._at(message.lsn, begin.xid, begin.commit_us)
        return [self._events.message(message.prefix, message.content, at, now_us, self.offset)]

    def _wanted(self, prefix: str) -> bool:
        included, excluded = self._options["message.prefix.include.list"], self._options["message.prefix.exclude.list"]
        return prefix in included if included else prefix not in excluded


def _rows(shape: Shape, change: Insert | Update | Delete) -> tuple[Struct | None, Struct | None]:
    """The rows before and after a change, as far as they are known."""
    if isinstance(change, Insert):
        return None, shape.row(change.new)
    before: Struct | None = None
    if change.old is not None:
        before = shape.row(change.old)
    elif change.key is not None:
        before = shape.key_row(change.key)
    if isinstance(change, Delete):
        if change.key is not None and shape.key is not None:
            shape.knows_key(change.key)
        return before, None
    return before, shape.row(change.new, change.old)
