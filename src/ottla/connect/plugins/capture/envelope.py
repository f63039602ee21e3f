"""Events as records, in Debezium's envelope. Pure: the caller gives the time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.connect import data
from ottla.connect.data import OPTIONAL_STRING, Schema, Struct, Type, struct
from ottla.connect.plugins.capture.defaults import default_of
from ottla.connect.plugins.capture.shapes import BLOCK, Product, Shape
from ottla.connect.plugins.capture.tables import TEXTS, Table
from ottla.connect.plugins.capture.types import Codec, bytes_as, codec_of
from ottla.connect.records import Header, SourceRecord

VERSION: Final = "3.6.1.Final"
"""The version of Debezium whose options and events these are."""
_BUILTIN: Final = re.compile(r"pg_.*|information_schema", re.IGNORECASE)
_LONG: Final = data.INT64.but(optional=True)
SNAPSHOT: Final = Schema(
    Type.STRING, optional=True, default="false", name="io.debezium.data.Enum", version=1,
    parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
)  # fmt: skip
SOURCE: Final = struct(
    [("version", data.STRING), ("connector", data.STRING), ("name", data.STRING), ("ts_ms", data.INT64),
     ("snapshot", SNAPSHOT), ("db", data.STRING), ("sequence", OPTIONAL_STRING), ("ts_us", _LONG), ("ts_ns", _LONG),
     ("schema", data.STRING), ("table", data.STRING), ("txId", _LONG), ("lsn", _LONG), ("xmin", _LONG),
     ("origin", OPTIONAL_STRING), ("origin_lsn", _LONG)],
    name="io.debezium.connector.postgresql.Source", version=1,
)  # fmt: skip
"""The schema of `source`."""
POSTGRES: Final = Product(
    SOURCE, codec_of, lambda column, codec: default_of(column.default, codec, column.kind.name), TEXTS, _BUILTIN
)
_HEARTBEAT_KEY: Final = struct(
    [("serverName", data.STRING)], name="io.debezium.connector.common.ServerNameKey", version=1
)
_HEARTBEAT: Final = struct([("ts_ms", data.INT64)], name="io.debezium.connector.common.Heartbeat", version=1)
_MESSAGE_KEY: Final = struct(
    [("prefix", OPTIONAL_STRING)], name="io.debezium.connector.postgresql.MessageKey", version=1
)
_TRANSACTION_KEY: Final = struct(
    [("id", data.STRING)], name="io.debezium.connector.common.TransactionMetadataKey", version=1
)
_COLLECTION: Final = struct(
    [("data_collection", data.STRING), ("event_count", data.INT64)], name="event.collection", version=1, optional=True
)
_TRANSACTION_VALUE: Final = struct(
    [("status", data.STRING), ("id", data.STRING), ("event_count", _LONG),
     ("data_collections", data.array(_COLLECTION, optional=True)), ("ts_ms", data.INT64)],
    name="io.debezium.connector.common.TransactionMetadataValue", version=1,
)  # fmt: skip
Offset = dict[str, Any]


def _message_schema(content: Codec) -> Schema:
    message = struct(
        [("prefix", OPTIONAL_STRING), ("content", content.schema.but(optional=True))],
        name="io.debezium.connector.postgresql.Message", version=1,
    )  # fmt: skip
    return struct(
        [("op", data.STRING), ("ts_ms", _LONG), ("source", SOURCE), ("transaction", BLOCK), ("message", message)],
        name="io.debezium.connector.postgresql.MessageValue", version=1,
    )  # fmt: skip


class Place(Protocol):
    """The place of an event in the log of a database, or in a snapshot."""

    def source(self, options: Mapping[str, Any], table: Table | None) -> Struct:
        """The `source` of the event."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of an event in PostgreSQL's log or in a snapshot."""

    commit_us: int
    snapshot: str
    sequence: str
    xid: int | None
    lsn: int | None
    origin: tuple[str, int] | None = None
    """The server that the transaction was replicated from, and its place there."""

    def source(self, options: Mapping[str, Any], table: Table | None) -> Struct:
        """The `source` of the event."""
        origin, origin_lsn = self.origin or (None, None)
        schema, name = ("", "") if table is None else (table.schema, table.name)
        return Struct(SOURCE, [
            VERSION, "postgresql", options["topic.prefix"], self.commit_us // 1000, self.snapshot,
            options["database.dbname"], self.sequence, self.commit_us, self.commit_us * 1000, schema, name, self.xid,
            self.lsn, None, origin, origin_lsn,
        ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """The place of an event in its transaction."""

    id: str
    total: int
    in_table: int


class Events:
    """Makes the records of one connector."""

    def __init__(self, options: Mapping[str, Any], run_id: str, product: str = "postgresql") -> None:
        self._options = options
        self._prefix = options["topic.prefix"]
        self.partition = {"server": self._prefix}
        self._content = bytes_as(options["binary.handling.mode"], bytes)
        self._message = _message_schema(self._content)
        self._context: tuple[Header, ...] = ()
        if options["extended.headers.enabled"]:
            pairs = (("connectorLogicalName", self._prefix), ("taskId", "0"), ("connectorName", product),
                     ("runId", run_id))  # fmt: skip
            self._context = tuple(Header(f"__debezium.context.{name}", data.STRING, value) for name, value in pairs)

    def change(
        self, shape: Shape, op: str, before: Struct | None, after: Struct | None, at: Place, now_us: int,
        offset: Offset, order: Order | None = None, headers: tuple[Header, ...] = (), key: Struct | None = None,
    ) -> SourceRecord:  # fmt: skip
        """The record of one change of a row, or of a table for op `t`. The key is that of `after`, else of `before`."""
        row = after if after is not None else before
        key = shape.key_of(row) if key is None and row is not None else key
        block = None if order is None else Struct(BLOCK, [order.id, order.total, order.in_table])
        source = at.source(self._options, shape.table)
        value = Struct(shape.envelope, [before, after, source, block, op, now_us // 1000, now_us, now_us * 1000])
        return self._record(shape.topic, key, value, offset, (*headers, *self._context))

    def tombstone(self, shape: Shape, key: Struct | None, offset: Offset, headers: tuple[Header, ...]) -> SourceRecord:
        """The record without a value behind a deletion, by which compaction forgets the key."""
        return self._record(shape.topic, key, None, offset, (*headers, *self._context))

    def key_header(self, name: str, key: Struct | None) -> tuple[Header, ...]:
        """A header `__debezium.newkey` or `oldkey`."""
        return () if key is None else (Header(f"__debezium.{name}", key.schema, key),)

    def message(self, prefix: str, content: bytes, at: Place, now_us: int, offset: Offset) -> SourceRecord:
        """The record of a message in the log."""
        inner = Struct(self._message.fields[4].schema, [prefix, self._content.read(content)])
        value = Struct(self._message, ["m", now_us // 1000, at.source(self._options, None), None, inner])
        return self._record(f"{self._prefix}.message", Struct(_MESSAGE_KEY, [prefix]), value, offset)

    def transaction(
        self, status: str, transaction_id: str, counts: Mapping[str, int] | None, ts_us: int, offset: Offset
    ) -> SourceRecord:
        """The record of a transaction's begin or end, with the number of its events by table at the end."""
        collections = None if counts is None else [Struct(_COLLECTION, [name, each]) for name, each in counts.items()]
        total = None if counts is None else sum(counts.values())
        value = Struct(_TRANSACTION_VALUE, [status, transaction_id, total, collections, ts_us // 1000])
        key = Struct(_TRANSACTION_KEY, [transaction_id])
        return self._record(f"{self._prefix}.transaction", key, value, offset)

    def heartbeat(self, now_us: int, offset: Offset) -> SourceRecord:
        """The record by which the place in the log is kept where no table changes."""
        topic = f"{self._options['heartbeat.topics.prefix']}.{self._prefix}"
        key, value = Struct(_HEARTBEAT_KEY, [self._prefix]), Struct(_HEARTBEAT, [now_us // 1000])
        return self._record(topic, key, value, offset)

    def _record(
        self, topic: str, key: Struct | None, value: Struct | None, offset: Offset, headers: tuple[Header, ...] = ()
    ) -> SourceRecord:
        return SourceRecord(
            topic, key_schema=None if key is None else key.schema, key=key,
            value_schema=None if value is None else value.schema, value=value, headers=headers,
            source_partition=self.partition, source_offset=offset,
        )  # fmt: skip
