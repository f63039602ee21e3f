"""Reads the lines of all files of a directory. Each file is a partition, the offset is the position behind a line."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from ottla.connect.checks import between, non_empty_text
from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.data import STRING
from ottla.connect.errors import DataException, RetriableException
from ottla.connect.plugins.base import Config, SourceConnector, SourcePartition, SourceTask
from ottla.connect.plugins.polling import PollingSource, PollingTask, Position
from ottla.connect.records import SourceRecord

MOST_LINES = 500


class StarterSourceConnector(SourceConnector):
    """Reads lines into a topic."""

    java_class = "starter.StarterSourceConnector"
    version = "0.1"

    @classmethod
    def options(cls) -> ConfigDef:
        return ConfigDef(
            Option("directory", Type.STRING, doc="The directory whose files are read.", check=non_empty_text),
            Option("topic", Type.STRING, doc="The topic of the records.", check=non_empty_text),
            Option("poll.interval.ms", Type.INT, 1000, doc="The time between two looks.", check=between(1)),
        )

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        chosen = cls.options().parse(config)
        source = StarterSource(Path(chosen["directory"]), chosen["topic"])
        return PollingTask(source, interval_ms=chosen["poll.interval.ms"])


class StarterSource(PollingSource):
    """The files. Reading them blocks, so it is done in a thread."""

    def __init__(self, directory: Path, topic: str) -> None:
        self.directory, self.topic = directory, topic

    async def partitions(self) -> Collection[SourcePartition]:
        return await asyncio.to_thread(self._files)

    async def poll(self, position: Position) -> list[SourceRecord]:
        start = position.offset["position"] if position.offset else 0
        return await asyncio.to_thread(self._lines, position.partition["file"], start)

    def _files(self) -> list[dict[str, str]]:
        try:
            return [{"file": each.name} for each in sorted(self.directory.iterdir()) if each.is_file()]
        except OSError as fault:
            raise RetriableException(f"the directory cannot be read: {fault}") from fault

    def _lines(self, name: str, at: int) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        try:
            with (self.directory / name).open("rb") as file:
                file.seek(at)
                for line in file:
                    if len(found) == MOST_LINES or not line.endswith(b"\n"):
                        break  # a line without an end is still being written
                    at += len(line)
                    found.append(self._record(name, line.rstrip(b"\n"), at))
        except OSError as fault:
            raise RetriableException(f"{name} cannot be read: {fault}") from fault
        return found

    def _record(self, name: str, line: bytes, behind: int) -> SourceRecord:
        made = SourceRecord(self.topic, key_schema=STRING, key=name, source_offset={"position": behind})
        try:
            made.value_schema, made.value = STRING, line.decode()
        except UnicodeDecodeError as fault:  # the task treats it by errors.tolerance
            made.value, made.fault = line, DataException(f"{name} before {behind} is not UTF-8: {fault}")
            made.value_schema = None
        return made
