"""Kafka's two connectors for files: lines of a file become records, values of records become lines.

Positions count bytes. Kafka's own count characters, and then skip bytes: a file with umlauts is resumed wrongly there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
from collections.abc import Sequence
from typing import BinaryIO, Final

from ottla.connect import data
from ottla.connect.checks import between, non_empty_text
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException
from ottla.connect.java.text import text
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import (
    Config,
    OffsetReader,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ottla.connect.plugins.lines import Lines
from ottla.connect.records import SinkRecord, SourceRecord

_PACKAGE: Final = "org.apache.kafka.connect.file."
_PIECE: Final = 1 << 18
_LOOK_AGAIN_SECONDS: Final = 0.2
"""Files tell nobody that they grew: a file at its end is looked at so often."""
_NEVER_BACK = "the file {} has only {:,} bytes, fewer than the {:,} that were read: it was made anew; reading it whole"
log = logging.getLogger("ottla.connect")


class FileStreamSourceConnector(SourceConnector):
    """Reads the lines of one file, and of those that take its place."""

    java_class = _PACKAGE + "FileStreamSourceConnector"
    version = KAFKA_VERSION
    topic_option = "topic"
    OPTIONS = ConfigDef(
        Option("file", Type.STRING, None, Importance.HIGH, "The file to read; standard input if there is none."),
        Option("topic", Type.STRING, importance=Importance.HIGH, check=non_empty_text, doc="The topic of the records."),
        Option("batch.size", Type.INT, 2000, Importance.LOW, "The most lines of one read.", between(1)),
    )

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        chosen = cls.OPTIONS.parse(config)
        return FileSourceTask(chosen["file"], chosen["topic"], chosen["batch.size"])

    @classmethod
    def exactly_once(cls, config: Config) -> bool:
        """Standard input has no offsets."""
        return bool(config.get("file"))

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Positions are numbers of bytes. Digits as text pass, as in Kafka."""
        if not cls.OPTIONS.parse(config)["file"]:
            raise ConfigException("Offsets cannot be modified if the 'file' configuration is unspecified.")
        for partition, offset in offsets:
            if set(partition) != {"filename"}:
                raise ConfigException("Partition objects should contain the key 'filename' and no other")
            if offset is not None:
                position_of(offset)


def position_of(offset: SourceOffset) -> int:
    """The position in a kept offset; ConfigException for one that is none."""
    found = offset.get("position")
    if isinstance(found, bool) or not str(found).isascii() or not str(found).isdigit():
        raise ConfigException(f"The value for the 'position' key in an offset is a number of bytes, not {found!r}")
    return int(str(found))


class FileSourceTask(SourceTask):
    """Reads one file, or standard input."""

    def __init__(self, path: str | None, topic: str, most: int) -> None:
        self._path, self._topic, self._most = path, topic, most
        self._partition = {"filename": path} if path else None
        self._lines = Lines()
        self._file: BinaryIO | None = None
        self._missed = False

    async def start(self, offsets: OffsetReader) -> None:
        """Go on behind the last line that is in Kafka."""
        if self._partition is None:
            return
        kept = (await offsets.read([self._partition]))[0]
        if kept is not None:
            self._lines = Lines(position_of(kept))

    async def read(self) -> list[SourceRecord] | None:
        """The next whole lines. Only standard input ends."""
        while True:
            if found := self._lines.take(self._most):
                return self._records(found)
            piece = await (self._standard_input() if self._path is None else self._next_piece(self._path))
            if piece is None:
                rest = self._lines.rest()
                return self._records(rest) if rest else None
            if isinstance(piece, list):
                return self._records(piece)
            self._lines.feed(piece)

    async def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _next_piece(self, path: str) -> bytes | list[tuple[bytes, int]]:
        """The bytes that follow, once there are some; or the last line of a file that another has replaced."""
        while True:
            if self._file is None and not self._open(path):
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            assert self._file is not None
            if piece := self._file.read(_PIECE):
                return piece
            if self._is_replaced(path, self._file):
                rest = self._lines.rest()
                self._file.close()
                self._file, self._lines = None, Lines()
                if rest:
                    return rest
                continue
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def _open(self, path: str) -> bool:
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            if not self._missed:
                log.warning("the file %s does not exist: waiting for it", path)
            self._missed = True
            return False
        self._missed = False
        size, wanted = os.fstat(self._file.fileno()).st_size, self._lines.read_through
        if size < wanted:
            log.warning(_NEVER_BACK.format(path, size, wanted))
            self._lines = Lines()
        self._file.seek(self._lines.read_through)
        return True

    def _is_replaced(self, path: str, opened: BinaryIO) -> bool:
        """True if another file has the name now, or this one was cut; nothing if the name is free for a moment."""
        here = os.fstat(opened.fileno())
        if here.st_size < self._lines.read_through:
            log.warning(_NEVER_BACK.format(path, here.st_size, self._lines.read_through))
            self._lines = Lines()
            return True
        try:
            there = os.stat(path)
        except FileNotFoundError:
            return False
        if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) or here.st_size > self._lines.read_through:
            return False
        log.info("the file %s was replaced by another one: reading that", path)
        return True

    async def _standard_input(self) -> bytes | None:
        descriptor = sys.stdin.fileno()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            await _readable(descriptor)
        return os.read(descriptor, _PIECE) or None

    def _records(self, lines: Sequence[tuple[bytes, int]]) -> list[SourceRecord]:
        where = self._path or "standard input"
        made: list[SourceRecord] = []
        for line, position in lines:
            try:
                decoded = line.decode()
            except UnicodeDecodeError:
                log.warning("%s: the line before byte %d is not UTF-8; U+FFFD stands for what is none", where, position)
                decoded = line.decode(errors="replace")
            made.append(self._record(decoded, position))
        return made

    def _record(self, line: str, position: int) -> SourceRecord:
        made = SourceRecord(self._topic, value_schema=data.STRING, value=line)
        if self._partition is not None:
            made.source_partition, made.source_offset = self._partition, {"position": position}
        return made


async def _readable(descriptor: int) -> None:
    """Wait until a pipe or a terminal has something, or its end."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


class FileStreamSinkConnector(SinkConnector):
    """Appends the value of each record to a file, as text and a line of its own."""

    java_class = _PACKAGE + "FileStreamSinkConnector"
    version = KAFKA_VERSION
    OPTIONS = ConfigDef(
        Option("file", Type.STRING, None, Importance.HIGH, "The file to append to; standard output if there is none.")
    )

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def task(cls, config: Config) -> SinkTask:
        return FileSinkTask(cls.OPTIONS.parse(config)["file"])


class FileSinkTask(SinkTask):
    """Appends to one file, or to standard output. A null value is the line `null`, as in Kafka."""

    def __init__(self, path: str | None) -> None:
        self._file: BinaryIO = open(path, "ab") if path else sys.stdout.buffer  # noqa: SIM115
        self._is_file = path is not None

    async def put(self, records: list[SinkRecord]) -> None:
        """Append one line for each."""
        lines = [value if isinstance(value := each.value, str) else text(value, each.value_schema) for each in records]
        self._file.write("".join([f"{line}\n" for line in lines]).encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Have the lines on the disk."""
        self._file.flush()
        if self._is_file:
            os.fsync(self._file.fileno())

    async def close(self) -> None:
        """Close the file."""
        if self._is_file:
            self._file.close()
