"""Change capture of PostgreSQL: the rows of its tables, then their changes, from a replication slot."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugins.base import (
    Config,
    Offset,
    OffsetReader,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)  # fmt: skip
from ottla.connect.plugins.capture.beginning import Beginning, SlotState, beginning, is_exact, place_of
from ottla.connect.plugins.capture.envelope import POSTGRES, VERSION, Events
from ottla.connect.plugins.capture.options import OPTIONS, checked
from ottla.connect.plugins.capture.pgoutput import Relation, decoded
from ottla.connect.plugins.capture.rows import records
from ottla.connect.plugins.capture.session import connected, known
from ottla.connect.plugins.capture.shapes import Shape, Shapes
from ottla.connect.plugins.capture.stream import Stream
from ottla.connect.plugins.capture.told import Told, require_own_topics
from ottla.connect.records import PassedPlace, SourceRecord

if TYPE_CHECKING:
    from ottla.connect.plugins.capture.catalog import Catalog
    from ottla.connect.plugins.capture.slot import Change, Keepalive, Slot

log = logging.getLogger("ottla.connect")


class PostgresConnector(SourceConnector):
    """Captures the changes of a PostgreSQL database."""

    java_class = "io.debezium.connector.postgresql.PostgresConnector"
    version = VERSION
    free_options = r"column\.(mask|truncate)\..+|snapshot\.select\.statement\.overrides\..+"

    @classmethod
    def options(cls) -> ConfigDef:
        return OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: a slot has one reader."""
        Shapes(checked(config), config, POSTGRES)
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        return PostgresTask(checked(config), config)

    @classmethod
    def exactly_once(cls, config: Config) -> bool:
        """Without a snapshot, and without messages of clients: those outside of a transaction may come twice."""
        skipped = [each.strip() for each in config.get("skipped.operations", "").split(",")]
        return is_exact(config) and "m" in skipped

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """The partition is the server's name; an offset has `lsn`."""
        wanted = {"server": config.get("topic.prefix")}
        for partition, offset in offsets:
            if dict(partition) != wanted:
                raise ConfigException(f"the connector has one partition, {wanted}, not {dict(partition)}")
            if offset is not None:
                place_of(offset)


class PostgresTask(SourceTask):
    """Reads the snapshot, where one is due, and then the slot. One loop holds all; no call of it waits elsewhere."""

    def __init__(self, options: dict[str, Any], config: Config) -> None:
        self._options = options
        self._shapes = Shapes(options, config, POSTGRES)
        self._events = Events(options, str(uuid.uuid4()))
        self._told = Told()
        self._snapshot: AsyncIterator[list[SourceRecord]] | None = None
        self._stream: Stream | None = None
        self._slot: Slot | None = None
        self._catalog: Catalog | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._passed: dict[str, Any] = {}
        self._arrived: list[Change | Keepalive] = []
        self._failed = False
        now = time.monotonic()
        self._report_due = now + options["status.update.interval.ms"] / 1000
        self._beat_due = now if options["heartbeat.interval.ms"] else float("inf")

    async def start(self, offsets: OffsetReader) -> None:
        """Connect, and decide between a snapshot and the log."""
        (kept,) = await offsets.read([self._events.partition])
        await self._opened(kept)

    async def read(self) -> list[SourceRecord] | None:
        """The next rows of the snapshot, then the next changes; it waits for some."""
        try:
            if self._snapshot is not None:
                if (rows := await anext(self._snapshot, None)) is not None:
                    self._told.tell()
                    return rows
                self._snapshot = None
                assert self._catalog is not None
                await self._catalog.connection.execute("COMMIT")
            if self._options["snapshot.mode"] == "initial_only":
                return None
            return await self._changes()
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            self._failed = True
            raise known(fault) from fault

    async def commit(self, offsets: Sequence[Offset]) -> None:
        """Let the server forget what is in Kafka, with its offset."""
        for _, offset in offsets:
            if self._slot is not None and "lsn_commit" in offset:
                self._slot.confirm(offset["lsn_commit"])

    async def close(self) -> None:
        """End both connections; drop the slot if that is asked for and nothing failed."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait((self._reporting,))
        if self._slot is not None:
            await self._slot.close()
        if self._catalog is not None:
            if self._options["slot.drop.on.stop"] and not self._failed:
                await self._drop()
            await self._catalog.connection.close()

    async def _opened(self, kept: Mapping[str, Any] | None) -> None:
        from ottla.connect.plugins.capture.catalog import Catalog
        from ottla.connect.plugins.capture.slot import Slot

        options = self._options
        try:
            self._catalog = catalog = Catalog(await connected(options))
            await catalog.require_logical()
            await catalog.learn_types()
            tables = await catalog.tables(self._shapes.selection, roots=options["publish.via.partition.root"])
            await catalog.publish(options, list(tables.values()))
            for name in await catalog.unpublished(options["publication.name"], list(tables.values())):
                log.warning("%s is captured, but not in the publication %s: its changes do not come", name,
                            options["publication.name"])  # fmt: skip
            state = await catalog.slot(options["slot.name"])
            first = beginning(options["snapshot.mode"], kept, state, options["slot.name"], options["database.dbname"])
            self._slot = Slot(await connected(options, replication="database"), options["slot.name"])
            shapes = [self._shapes.of(each) for each in tables.values()]
            require_own_topics(shapes)
            await self._begun(first, state, shapes)
        except Exception as fault:
            self._failed = True
            raise known(fault) from fault

    async def _begun(self, first: Beginning, state: SlotState | None, shapes: Sequence[Shape]) -> None:
        """Make the slot where it is not there, and open the snapshot; the log follows from the place of both."""
        from ottla.connect.plugins.capture import snapshot

        assert self._slot is not None
        assert self._catalog is not None
        exported, lsn = None, 0 if state is None else state.confirmed_lsn
        if state is not None and state.lost:
            await self._catalog.drop_slot(self._options["slot.name"])
            state = None
        if self._options["snapshot.mode"] == "initial_only":  # a slot that nobody reads would hold the log for ever
            lsn = await self._catalog.log_end()
        elif state is None:
            made = await self._slot.make(failover=self._options["slot.failover"])
            exported, lsn = made.snapshot, made.consistent_lsn
        if first.snapshot:
            self._told.look(shapes)
            connection, statements = self._catalog.connection, self._options["statements"]
            view = await snapshot.take(connection, exported, lsn)
            rows = partial(snapshot.rows, connection, statements=statements)
            self._snapshot = records(rows, view, shapes, self._options, self._events)
        kept = first.kept if first.kept and "lsn_commit" in first.kept else None
        self._stream = Stream(self._shapes, self._events, lsn if first.kept is None else place_of(first.kept), kept)

    async def _changes(self) -> list[SourceRecord]:
        assert self._stream is not None
        assert self._slot is not None
        if self._reporting is None:
            messages = self._catalog is not None and self._catalog.connection.info.server_version >= 140_000
            await self._slot.begin(place_of(self._stream.offset), self._options["publication.name"], messages=messages)
            self._reporting = asyncio.create_task(self._report())
        while True:
            records: list[SourceRecord] = []
            if not self._arrived:
                self._arrived = self._slot.receive()
            taken, self._arrived = self._arrived, []
            for at, each in enumerate(taken):
                records += await self._of(each)
                if len(records) >= self._options["max.batch.size"]:
                    self._arrived = taken[at + 1 :]
                    break
            self._told.tell()
            records += await self._due()
            if records:
                return records
            if self._reporting.done():
                self._reporting.result()
            if not taken:
                left = min(self._report_due, self._beat_due) - time.monotonic()
                await self._slot.readable(max(0.0, left))

    async def _of(self, arrived: Change | Keepalive) -> list[SourceRecord]:
        from ottla.connect.plugins.capture.slot import Keepalive

        assert self._stream is not None
        assert self._catalog is not None
        if isinstance(arrived, Keepalive):
            self._stream.on_keepalive(arrived.end_lsn)
            return []
        message = decoded(arrived.payload)
        if not isinstance(message, Relation):
            return self._stream.on_message(arrived.lsn, message, time.time_ns() // 1000)
        now = await self._catalog.table(message.oid, message.schema, message.table)
        if any(each.type_oid not in self._catalog.types for each in message.columns):
            await self._catalog.learn_types()
        shape = self._stream.on_relation(message, now, self._catalog.types)
        self._told.look([] if shape is None else [shape])
        return []

    async def _due(self) -> list[SourceRecord]:
        """A heartbeat, and the place that was passed without a record, each at its time."""
        assert self._stream is not None
        assert self._catalog is not None
        now, records = time.monotonic(), list[SourceRecord]()
        if now >= self._beat_due:
            self._beat_due = now + self._options["heartbeat.interval.ms"] / 1000
            if query := self._options["heartbeat.action.query"]:
                await self._catalog.connection.execute(query)
            records.append(self._events.heartbeat(time.time_ns() // 1000, self._stream.offset))
        if now >= self._report_due:
            self._report_due = now + self._options["status.update.interval.ms"] / 1000
            if self._stream.offset != self._passed:
                self._passed = self._stream.offset
                records.append(PassedPlace("", source_partition=self._events.partition, source_offset=self._passed))
        return records

    async def _report(self) -> None:
        """Report at all times: the server ends the connection where Kafka is slow and nothing is read for long."""
        assert self._slot is not None
        while True:
            await asyncio.sleep(self._options["status.update.interval.ms"] / 1000)
            self._slot.report()

    async def _drop(self) -> None:
        assert self._catalog is not None
        try:
            await self._catalog.drop_slot(self._options["slot.name"])
        except ConnectException as fault:
            log.warning("%s", fault)
