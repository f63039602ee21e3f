"""The directory source: its options, and the task that reads the files and clears them away."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from ottla.cli.faults import BadInput, Misuse
from ottla.connect import data
from ottla.connect.checks import between, non_empty_text, one_of
from ottla.connect.claims import open_store
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import (
    Config,
    Offset,
    OffsetReader,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ottla.connect.plugins.directory.content import FORMATS, MAIL, WHOLE, Item, items
from ottla.connect.plugins.directory.waiting import Version, Waiting, check, is_same, offset_of
from ottla.connect.plugins.mail.message import INLINE, attachment_options
from ottla.connect.records import Header, SourceRecord

T = TypeVar("T")
NAME_HEADER: Final = "file.name"
"""The header of every record that names its file."""
_MANY_BYTES: Final = 1 << 20
"""One read takes no further small file behind so many bytes: their records are held together."""
KEEP, DELETE, ARCHIVE = "keep", "delete", "archive"
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
log = logging.getLogger("ottla.connect")


def _one_character(name: str, value: Any) -> None:
    if value is None or len(value) != 1:
        raise ConfigException.of(name, value, "one character is needed")


class DirectorySourceConnector(SourceConnector):
    """Reads the files of a directory, those that come later too."""

    java_class = "ottla.connect.DirectorySourceConnector"
    version = KAFKA_VERSION
    topic_option = "topic"
    OPTIONS = ConfigDef(
        Option("input.directory", Type.STRING, importance=_HIGH, doc="The directory to watch.", check=non_empty_text),
        Option("topic", Type.STRING, importance=_HIGH, doc="The topic of the records.", check=non_empty_text),
        Option("input.pattern", Type.STRING, "*", _HIGH, "The names of the files, as a shell pattern: *.csv; **/*.csv "
               "takes folders below too. Names that begin with a dot are left alone.", non_empty_text),
        Option("format", Type.STRING, "lines", _HIGH, "lines: text. csv: structs by the header line. jsonl: objects. "
               "avro, parquet: rows. whole: each file's bytes. mail: messages.", one_of(*FORMATS)),
        Option("after", Type.STRING, KEEP, _HIGH, "What becomes of a file once all its records are in Kafka.",
               one_of(KEEP, DELETE, ARCHIVE)),
        Option("archive.directory", Type.STRING, None, _MEDIUM, "Where after=archive moves files.", non_empty_text),
        Option("order", Type.STRING, "name", _MEDIUM, "Files are read by name, or by the time of their last change.",
               one_of("name", "time")),
        Option("done.marker", Type.STRING, "", _MEDIUM, "A file is read once another file has its name and this "
               "ending, such as .done. Empty: once it does not change between two polls."),
        Option("poll.interval.ms", Type.INT, 1000, _MEDIUM, "The time between two looks at the directory.", between(1)),
        Option("batch.size", Type.INT, 1000, _LOW, "The most records of one read.", between(1)),
        Option("csv.delimiter", Type.STRING, ",", _LOW, "The character between two fields.", _one_character),
        Option("whole.max.bytes", Type.INT, 1 << 20, _LOW, "format=whole and mail leave larger files alone.",
               between(1)),
        *attachment_options(),
    )  # fmt: skip

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: files are read in an order."""
        _checked(config)
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        return DirectorySourceTask(_checked(config))

    @classmethod
    def exactly_once(cls, config: Config) -> bool:
        """An offset counts the items of a file; a file that changes later is another one."""
        return True

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Partitions name files, offsets count their items."""
        for partition, offset in offsets:
            check(partition, offset)


def _checked(config: Config) -> dict[str, Any]:
    options = DirectorySourceConnector.OPTIONS.parse(config)
    if (options["after"] == ARCHIVE) != bool(options["archive.directory"]):
        raise ConfigException("after=archive and archive.directory go together: set both or neither")
    if options["claim.store"] is not None:
        if options["format"] not in (WHOLE, MAIL):
            raise ConfigException("claim.store is for format=whole and format=mail: the others have no big contents")
        open_store(options["claim.store"])
    if options["mail.attachments"] != INLINE and options["format"] != MAIL:
        raise ConfigException("mail.attachments is for format=mail")
    watched, archive = options["input.directory"], options["archive.directory"]
    if archive and Path(archive).resolve() == Path(watched).resolve():
        raise ConfigException.of("archive.directory", archive, "it is input.directory: files would be read again")
    if Path(options["input.pattern"]).is_absolute() or ".." in Path(options["input.pattern"]).parts:
        raise ConfigException.of("input.pattern", options["input.pattern"], "it is relative to input.directory")
    return options


@dataclass(slots=True)
class _Reading:
    """The file that is read."""

    name: str
    version: Version
    items: Generator[Item]
    position: int
    """Items that were handed out, or skipped."""
    held: Item | None = None
    """The next item: only when the one behind it is known to be missing is it the last."""


class DirectorySourceTask(SourceTask):
    """Reads one file after the other. Files are read, moved and removed in a thread of the task's own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._directory = Path(options["input.directory"]).resolve()
        self._archive = Path(options["archive.directory"]).resolve() if options["archive.directory"] else None
        self._waiting = Waiting(by_time=options["order"] == "time")
        self._queue: deque[tuple[str, Version, SourceOffset | None]] = deque()
        self._reading: _Reading | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="directory")

    async def start(self, offsets: OffsetReader) -> None:
        """Keep the reader of offsets: each file's own is asked for when the file is there."""
        self._offsets = offsets
        await self._apart(self._visit)

    async def read(self) -> list[SourceRecord] | None:
        """The next records of the file whose turn it is, and of those behind it where these are small."""
        while True:
            if self._reading is None and not self._queue:
                found = await self._apart(self._look)
                kept = await self._offsets.read([{"file": name} for name, _ in found])
                self._queue.extend((name, version, offset) for (name, version), offset in zip(found, kept, strict=True))
                if not self._queue:
                    await asyncio.sleep(self._options["poll.interval.ms"] / 1000)
                    continue
            if records := await self._apart(self._batch):
                return records

    async def commit(self, offsets: Sequence[Offset]) -> None:
        """Clear files away whose last record is in Kafka."""
        done = [
            (partition["file"], Version(offset["size"], offset["modified_ns"]))
            for partition, offset in offsets
            if offset.get("done")
        ]
        if done:
            await self._apart(lambda: self._clear_all(done))

    async def close(self) -> None:
        """Close the file, once a read in progress has ended."""
        await self._apart(self._end)
        self._thread.shutdown()

    def _begin(self, name: str, version: Version, kept: SourceOffset | None) -> None:
        """Open a file behind the items that are in Kafka; clear it away if all of them are."""
        if kept is not None and not is_same(kept, version):
            log.warning("%s has changed since it was read: reading it as another file", self._directory / name)
            kept = None
        if kept is not None and kept.get("done"):
            self._waiting.settle(name, version)
            self._clear(name, version)
            return
        self._open(name, version, kept["position"] if kept else 0)

    def _visit(self) -> None:
        """Raise unless the directory can be read: a pattern finds nothing in one that is gone."""
        try:
            os.scandir(self._directory).close()
        except OSError as fault:
            raise RetriableException(f"input.directory cannot be read: {fault}. Make it, or name another") from None

    def _look(self) -> list[tuple[str, Version]]:
        self._visit()
        marker = self._options["done.marker"]
        found: dict[str, Version] = {}
        for path in self._directory.glob(self._options["input.pattern"]):
            name = path.relative_to(self._directory)
            hidden = any(part.startswith(".") for part in name.parts)
            archived = self._archive is not None and self._archive in path.parents[: len(name.parts)]
            if hidden or archived or (marker and (path.name.endswith(marker) or not _marked(path, marker).exists())):
                continue
            version = _version(path)
            if version is not None:
                found[name.as_posix()] = version
        return self._waiting.ready(found, complete=bool(marker))

    def _open(self, name: str, version: Version, position: int) -> None:
        path = self._directory / name
        if _version(path) != version:
            return  # still being written: the next look sees it
        self._reading = _Reading(name, version, items(str(path), self._options), position)
        self._guarded(lambda reading: self._skip(reading, position))

    def _skip(self, reading: _Reading, count: int) -> None:
        skipped = sum(1 for _ in islice(reading.items, count))
        if skipped < count:
            raise BadInput(f"{reading.name} has {skipped} items, and {count} of it are in Kafka")
        reading.held = next(reading.items, None)
        if reading.held is None:  # an empty file, or one whose offset counts all items
            self._finished(reading)
            self._clear(reading.name, reading.version)

    def _batch(self) -> list[SourceRecord]:
        made: list[SourceRecord] = []
        size = 0
        while len(made) < self._options["batch.size"] and size < _MANY_BYTES:
            if self._reading is not None:
                size += self._reading.version.size
                self._guarded(lambda reading: self._fill(reading, made))
            elif self._queue:
                self._begin(*self._queue.popleft())
            else:
                break
        return made

    def _fill(self, reading: _Reading, made: list[SourceRecord]) -> None:
        while reading.held is not None and len(made) < self._options["batch.size"]:
            item, reading.held = reading.held, None
            try:
                reading.held = next(reading.items, None)
            except (BadInput, OSError):
                made.append(self._record(reading, item, done=False))
                raise
            made.append(self._record(reading, item, done=reading.held is None))
        if reading.held is None:
            self._finished(reading)

    def _guarded(self, step: Callable[[_Reading], None]) -> None:
        """Do a step of reading. A file that cannot be read on is named, and left where it is."""
        reading = self._reading
        assert reading is not None
        try:
            step(reading)
        except Misuse as fault:
            raise ConnectException(str(fault)) from None
        except (BadInput, OSError) as fault:
            log.error("%s is left alone behind its item %d: %s", self._directory / reading.name, reading.position,
                      fault)  # fmt: skip
            self._waiting.settle(reading.name, reading.version)
            self._reading = None

    def _finished(self, reading: _Reading) -> None:
        self._waiting.settle(reading.name, reading.version)
        self._reading = None

    def _record(self, reading: _Reading, item: Item, *, done: bool) -> SourceRecord:
        reading.position += 1
        return SourceRecord(
            self._options["topic"], key_schema=None if item.key is None else data.STRING, key=item.key,
            value_schema=item.schema, value=item.value, fault=item.fault,
            headers=(Header(NAME_HEADER, data.STRING, reading.name),), source_partition={"file": reading.name},
            source_offset=offset_of(reading.position, reading.version, done=done),
        )  # fmt: skip

    def _clear_all(self, files: Sequence[tuple[str, Version]]) -> None:
        for each in files:
            self._clear(*each)

    def _clear(self, name: str, version: Version) -> None:
        """Remove or move a file that is in Kafka. A file that has changed since stays, and is read again."""
        path, marker = self._directory / name, self._options["done.marker"]
        if self._options["after"] == KEEP or _version(path) != version:
            return
        try:
            if self._archive is None:
                path.unlink()
            else:
                _move(path, self._archive / name)
            if marker:
                _marked(path, marker).unlink(missing_ok=True)
        except OSError as fault:
            log.error("%s is in Kafka and cannot be cleared away: %s", path, fault)
            return
        self._waiting.forget(name)

    def _end(self) -> None:
        if self._reading is not None:
            self._reading.items.close()
        self._reading = None

    async def _apart(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)


def _marked(path: Path, marker: str) -> Path:
    return path.with_name(path.name + marker)


def _version(path: Path) -> Version | None:
    """The size and time of a file, None if it is gone or is none."""
    try:
        if not path.is_file():
            return None
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return Version(found.st_size, found.st_mtime_ns)


def _move(path: Path, target: Path) -> None:
    """Move a file, to another disk too; one that has the name there keeps it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    free, number = target, 0
    while free.exists():
        number += 1
        free = target.with_name(f"{target.name}.{number}")
    shutil.move(path, free)
