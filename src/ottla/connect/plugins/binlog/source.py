"""Change capture of MariaDB: the rows of its tables, then their changes, from the binary log."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.base import (
    Config,
    Offset,
    OffsetReader,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)  # fmt: skip
from ottla.connect.plugins.binlog.envelope import MARIADB
from ottla.connect.plugins.binlog.events import Decoder
from ottla.connect.plugins.binlog.feed import Feed
from ottla.connect.plugins.binlog.options import FREE, OPTIONS, checked
from ottla.connect.plugins.binlog.session import LOST, Dump, connected, known
from ottla.connect.plugins.binlog.stream import Stream, gtids_of
from ottla.connect.plugins.binlog.table_map import TableMap
from ottla.connect.plugins.capture.beginning import WITHOUT_SNAPSHOT, in_snapshot, is_exact
from ottla.connect.plugins.capture.envelope import VERSION, Events
from ottla.connect.plugins.capture.rows import Row, records
from ottla.connect.plugins.capture.shapes import Shape, Shapes
from ottla.connect.plugins.capture.told import Told, require_own_topics
from ottla.connect.records import PassedPlace, SourceRecord

if TYPE_CHECKING:
    from ottla.connect.plugins.binlog.catalog import Catalog

T = TypeVar("T")
log = logging.getLogger("ottla.connect")


class MariaDbConnector(SourceConnector):
    """Captures the changes of a MariaDB server."""

    java_class = "io.debezium.connector.mariadb.MariaDbConnector"
    version = VERSION
    free_options = FREE

    @classmethod
    def options(cls) -> ConfigDef:
        return OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: a log has one order."""
        Shapes(checked(config), config, MARIADB)
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        return MariaDbTask(checked(config), config)

    @classmethod
    def exactly_once(cls, config: Config) -> bool:
        """Without a snapshot: an offset counts the rows of a transaction."""
        return is_exact(config)

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """The partition is the server's name; an offset has `file` and `pos`, and `gtids` where there are some."""
        wanted = {"server": config.get("topic.prefix")}
        for partition, offset in offsets:
            if dict(partition) != wanted:
                raise ConfigException(f"the connector has one partition, {wanted}, not {dict(partition)}")
            if offset is not None:
                _require_place(offset)


def _require_place(offset: Mapping[str, Any]) -> None:
    if not isinstance(offset.get("file"), str) or not isinstance(offset.get("pos"), int):
        raise ConfigException(f"an offset of a MariaDB connector has the text file and the number pos: {dict(offset)}")
    gtids_of(offset.get("gtids") or "")


class MariaDbTask(SourceTask):
    """Reads the snapshot, where one is due, and then the log. The server is asked in a thread of the task's own."""

    def __init__(self, options: dict[str, Any], config: Config) -> None:
        self._options = options
        self._shapes = Shapes(options, config, MARIADB)
        self._events = Events(options, str(uuid.uuid4()), "mariadb")
        self._told = Told()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mariadb")
        self._catalog: Catalog | None = None
        self._snapshot: AsyncIterator[list[SourceRecord]] | None = None
        self._runs: Generator[list[Row], None, None] | None = None
        self._stream: Stream | None = None
        self._decoder: Decoder | None = None
        self._feed: Feed | None = None
        self._passed: dict[str, Any] = {}
        self._arrived: list[bytes] = []
        now = time.monotonic()
        self._report_due = now + options["status.update.interval.ms"] / 1000
        self._beat_due = now if options["heartbeat.interval.ms"] else float("inf")

    async def start(self, offsets: OffsetReader) -> None:
        """Connect, and decide between a snapshot and the log."""
        (kept,) = await offsets.read([self._events.partition])
        try:
            await self._opened(kept)
        except Exception as fault:
            raise known(fault) from fault

    async def read(self) -> list[SourceRecord] | None:
        """The next rows of the snapshot, then the next changes; it waits for some."""
        try:
            if self._snapshot is not None:
                if (found := await anext(self._snapshot, None)) is not None:
                    self._told.tell()
                    return found
                self._snapshot = None
                assert self._catalog is not None
                await self._apart(self._catalog.end_view)
            if self._options["snapshot.mode"] == "initial_only":
                return None
            return await self._changes()
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            raise known(fault) from fault

    async def commit(self, offsets: Sequence[Offset]) -> None:
        """Nothing: the server keeps its log for a time, whoever reads it."""

    async def close(self) -> None:
        """End both connections."""
        if self._feed is not None:
            await self._feed.close()
        if self._runs is not None:
            await self._apart(self._runs.close)
        if self._catalog is not None:
            await self._apart(self._catalog.connection._force_close)
        self._thread.shutdown()

    async def _opened(self, kept: Mapping[str, Any] | None) -> None:
        from ottla.connect.plugins.binlog.catalog import Catalog

        mode = self._options["snapshot.mode"]
        self._catalog = catalog = Catalog(await self._apart(lambda: connected(self._options)))
        await self._apart(catalog.require_log)
        self._decoder = Decoder(await self._apart(catalog.charsets), await self._apart(catalog.checksums))
        if kept is not None and not in_snapshot(kept):
            _require_place(kept)
        if mode == "recovery" and kept is None:
            raise ConfigException("snapshot.mode=recovery goes on behind an offset, but none was kept: set initial")
        fresh = kept is None or in_snapshot(kept)
        if kept is not None and not fresh and mode not in ("always", "initial_only"):
            if await self._followed(kept):
                return
            log.warning("the server's log does not have the place that was read last: a new snapshot is taken")
        if not fresh and mode == "initial_only":
            return
        if kept is None and mode in WITHOUT_SNAPSHOT:
            await self._followed((await self._apart(catalog.log_end)).place())
            return
        await self._begin_snapshot()

    async def _begin_snapshot(self) -> None:
        catalog = self._catalog
        assert catalog is not None
        view = await self._apart(catalog.view)
        shapes = [self._shapes.of(each) for each in await self._apart(partial(catalog.tables, self._shapes.selection))]
        require_own_topics(shapes)
        self._told.look(shapes)
        self._snapshot = records(self._rows, view, shapes, self._options, self._events)
        if self._options["snapshot.mode"] != "initial_only":
            await self._followed(view.place())

    async def _rows(self, shape: Shape) -> AsyncIterator[Row]:
        assert self._catalog is not None
        size = self._options["snapshot.fetch.size"]
        self._runs = runs = self._catalog.read(shape.table, self._options["statements"], size)
        while (run := await self._apart(partial(next, runs, None))) is not None:
            for row in run:
                yield row

    async def _followed(self, place: Mapping[str, Any]) -> bool:
        """Ask for the log behind a place; False if it is lost, and a new snapshot may be taken."""
        from pymysql import MySQLError

        assert self._catalog is not None
        if not place.get("gtids"):  # else the transactions that follow would be the only ones that are known
            found = await self._apart(partial(self._catalog.at, place["file"], place["pos"]))
            place = {**place, "gtids": found.gtids} if found.gtids else place
        server_id = self._options["database.server.id"] or random.randrange(1 << 31, 1 << 32)
        dump = await self._apart(lambda: Dump(self._options))
        try:
            await self._apart(lambda: dump.begin(place, server_id))
            first = await self._apart(dump.next)
        except Exception as fault:
            await self._apart(dump.close)
            lost = isinstance(fault, MySQLError) and fault.args[:1] and fault.args[0] in LOST
            if lost and self._options["snapshot.mode"] == "when_needed":
                return False
            raise
        self._feed = Feed(dump)
        self._arrived = [first]
        self._stream = Stream(self._shapes, self._events, place)
        return True

    async def _changes(self) -> list[SourceRecord]:
        assert self._feed is not None
        while True:
            found: list[SourceRecord] = []
            if not self._arrived:
                self._arrived = self._feed.take()
            taken, self._arrived = self._arrived, []
            for at, each in enumerate(taken):
                found += await self._of(each)
                if len(found) >= self._options["max.batch.size"]:
                    self._arrived = taken[at + 1 :]
                    break
            self._told.tell()
            found += await self._due()
            if found:
                return found
            if not taken:
                await self._feed.readable(max(0.0, min(self._report_due, self._beat_due) - time.monotonic()))

    async def _of(self, packet: bytes) -> list[SourceRecord]:
        assert self._stream is not None
        assert self._decoder is not None
        assert self._catalog is not None
        at, event = self._decoder.decoded(packet)
        if isinstance(event, TableMap):
            if not self._stream.knows(event):
                now = await self._apart(partial(self._catalog.table, event.schema, event.name))
                shape = self._stream.on_table(event, now)
                self._told.look([] if shape is None else [shape])
            return []
        if (named := self._stream.lacks(event)) is not None:
            self._stream.on_emptied(await self._apart(partial(self._catalog.table, *named)))
        made = self._stream.on_event(at, event, time.time_ns() // 1000)
        if self._stream.prepared:
            self._told.say("", "", "the log has transactions of XA: their changes are sent when they are prepared, "
                           "also where they are rolled back later")  # fmt: skip
        return made

    async def _due(self) -> list[SourceRecord]:
        """A heartbeat, and the place that was passed without a record, each at its time."""
        assert self._stream is not None
        now, found = time.monotonic(), list[SourceRecord]()
        if now >= self._beat_due:
            self._beat_due = now + self._options["heartbeat.interval.ms"] / 1000
            if self._options["heartbeat.action.query"]:
                await self._apart(self._beat)
            found.append(self._events.heartbeat(time.time_ns() // 1000, self._stream.offset))
        if now >= self._report_due:
            self._report_due = now + self._options["status.update.interval.ms"] / 1000
            if self._stream.offset != self._passed:
                self._passed = self._stream.offset
                found.append(PassedPlace("", source_partition=self._events.partition, source_offset=self._passed))
        return found

    def _beat(self) -> None:
        assert self._catalog is not None
        with self._catalog.connection.cursor() as cursor:
            cursor.execute(self._options["heartbeat.action.query"])

    async def _apart(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
