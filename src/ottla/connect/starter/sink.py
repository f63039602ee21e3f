"""Writes records into a table of SQLite, each once: the offsets are kept in the same transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing

from ottla.connect.checks import non_empty_text
from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.errors import DataException, RetriableException
from ottla.connect.plugins.base import Config, RefusedRecords, SinkConnector, SinkTask
from ottla.connect.plugins.rounds import Round, RoundSink, RoundTask
from ottla.connect.records import SinkRecord
from ottla.kernel.ids import TopicPartition

TABLES = """
CREATE TABLE IF NOT EXISTS records (topic TEXT, partition INTEGER, offset INTEGER, value TEXT);
CREATE TABLE IF NOT EXISTS progress (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition));
"""


class StarterSinkConnector(SinkConnector):
    """Writes records into a file of SQLite."""

    java_class = "starter.StarterSinkConnector"
    version = "0.1"

    @classmethod
    def options(cls) -> ConfigDef:
        return ConfigDef(Option("database", Type.STRING, doc="The file of SQLite.", check=non_empty_text))

    @classmethod
    def task(cls, config: Config) -> SinkTask:
        return RoundTask(StarterSink(cls.options().parse(config)["database"]))


class StarterSink(RoundSink):
    """The table. Calls of a round are quick here; slow ones belong into `asyncio.to_thread`."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.rows: list[tuple[str, int, int, str]] = []

    async def progress(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        with closing(self._connected()) as connection:
            found = connection.execute("SELECT topic, partition, next FROM progress").fetchall()
        return {TopicPartition(topic, partition): offset for topic, partition, offset in found}

    async def put(self, batch: list[SinkRecord]) -> None:
        refused: list[tuple[SinkRecord, Exception]] = []
        for record in batch:
            if isinstance(record.value, str):
                self.rows.append((record.topic, record.partition or 0, record.offset, record.value))
            else:
                refused.append((record, DataException("the value is no text: set value.converter to StringConverter")))
        if refused:
            raise RefusedRecords(refused)

    async def commit(self, done: Round) -> None:
        progress = [(place.topic, place.partition, offset) for place, offset in done.offsets.items()]
        try:
            with closing(self._connected()) as connection, connection:
                connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", self.rows)
                connection.executemany("INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", progress)
        except sqlite3.OperationalError as fault:  # locked, or the disk is full
            raise RetriableException(f"{self.database}: {fault}") from fault
        self.rows = []

    def _connected(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self.database)
            connection.executescript(TABLES)
        except sqlite3.OperationalError as fault:
            raise RetriableException(f"{self.database}: {fault}") from fault
        return connection
