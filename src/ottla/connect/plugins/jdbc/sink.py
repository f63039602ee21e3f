"""The JDBC sink: records become rows of tables, a batch in one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.plugins.base import Config, RefusedRecords, SinkConnector, SinkTask
from ottla.connect.plugins.jdbc.database import engine_of
from ottla.connect.plugins.jdbc.options import SINK
from ottla.connect.plugins.jdbc.source import VERSION
from ottla.connect.records import SinkRecord

if TYPE_CHECKING:
    from ottla.connect.plugins.jdbc.writing import DatabaseWriter

T = TypeVar("T")
log = logging.getLogger("ottla.connect")


class JdbcSinkConnector(SinkConnector):
    """Writes records to tables."""

    java_class = "io.confluent.connect.jdbc.JdbcSinkConnector"
    version = VERSION

    @classmethod
    def options(cls) -> ConfigDef:
        return SINK

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """As many tasks as may be: they share the partitions."""
        _checked(config)
        return [dict(config)] * most

    @classmethod
    def task(cls, config: Config) -> SinkTask:
        return JdbcSinkTask(_checked(config))


def _checked(config: Config) -> dict[str, Any]:
    options = SINK.parse(config)
    if options["delete.enabled"] and options["pk.mode"] != "record_key":
        raise ConfigException("delete.enabled=true needs pk.mode=record_key: a tombstone has no more than its key")
    if options["insert.mode"] != "insert" and options["pk.mode"] == "none":
        raise ConfigException(f"insert.mode={options['insert.mode']} needs a primary key: set pk.mode")
    if options["pk.mode"] == "kafka" and len(options["pk.fields"]) not in (0, 3):
        raise ConfigException.of("pk.fields", options["pk.fields"], "pk.mode=kafka has three: topic, partition, offset")
    return options


class JdbcSinkTask(SinkTask):
    """Writes each put at once; a flush has nothing left to do. The database is asked in a thread of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jdbc")
        self._writer: DatabaseWriter | None = None

    async def put(self, records: list[SinkRecord]) -> None:
        """Write records in their order, in batches. Records that the database refuses cost themselves alone."""
        if self._writer is None:
            self._writer = await self._apart(self._make)
        refused: list[tuple[SinkRecord, Exception]] = []
        size = self._options["batch.size"]
        for start in range(0, len(records), size):
            refused += await self._write(self._writer, records[start : start + size])
        if refused:
            raise RefusedRecords(refused)

    async def close(self) -> None:
        """End the connections, once a transaction in progress has ended."""
        if self._writer is not None:
            await self._apart(self._writer.close)
        self._thread.shutdown()

    async def _write(self, writer: DatabaseWriter, batch: Sequence[SinkRecord]) -> list[tuple[SinkRecord, Exception]]:
        """Write one batch. Batches before it are not written again, so the task itself repeats what may pass."""
        attempt, left, refused = 0, list(batch), list[tuple[SinkRecord, Exception]]()
        while True:
            try:
                await self._apart(lambda: writer.write(left, refused))
                return refused
            except RetriableException as fault:
                attempt += 1
                if attempt > self._options["max.retries"]:
                    raise
                wait = self._options["retry.backoff.ms"]
                log.warning("a batch of %d records is written again in %d ms: %s", len(left), wait, fault)
                await asyncio.sleep(wait / 1000)

    def _make(self) -> DatabaseWriter:
        from ottla.connect.plugins.jdbc.writing import DatabaseWriter

        return DatabaseWriter(engine_of(self._options), self._options)

    async def _apart(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
