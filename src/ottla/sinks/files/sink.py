"""The task of the S3 and the HDFS sink: records into the files of their partitions, finished files into the store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from ottla.connect.errors import ConnectException, DataException, RetriableException
from ottla.connect.plugins.base import RefusedRecords, SinkTask
from ottla.connect.records import SinkRecord
from ottla.connect.threads import ended
from ottla.kernel.ids import TopicPartition
from ottla.sinks.files.committing import Committer, Finished
from ottla.sinks.files.formats import FileEncoder, Format
from ottla.sinks.files.partitioners import FolderOf, TimeOf
from ottla.sinks.files.rotation import Filling, Rotation
from ottla.stores import LakeRefused, StoreUnreachable

T = TypeVar("T")
log: Final = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class FilePlan:
    """All that a task does with its records."""

    folder_of: FolderOf
    time_of: TimeOf | None
    """None where neither folders nor rotation ask for a record's time."""
    format: Format
    rotation: Rotation
    committer: Callable[[], Committer]
    """Opens the store; it blocks."""
    null_values: str
    """`ignore` or `fail`."""
    next_rotation_ms: Callable[[int], int] | None = None
    """The next time of the schedule after this one."""


@dataclass(slots=True)
class _Files:
    """The unfinished files of one partition, and how they are made."""

    filling: Filling
    begin: int
    """The offset below which all records are in files that a task before this one finished."""
    encoders: dict[str, FileEncoder] = field(default_factory=dict)
    told: bool = False
    """True once the log says that records below `begin` are passed over."""


class FileSinkTask(SinkTask):
    """Holds the unfinished files of each partition. The store is asked in a thread of its own."""

    def __init__(self, plan: FilePlan, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._plan, self._now_ms = plan, now_ms
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="files")
        self._committer: Committer | None = None
        self._files: dict[TopicPartition, _Files] = {}
        self._refused: list[tuple[SinkRecord, Exception]] = []
        """Records that were refused in a put that has not ended yet."""
        self._repeated = False
        """True while the last put ended early: the same records come again."""

    async def open(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the unfinished files of partitions that another task has now."""
        self._files = {each: files for each, files in self._files.items() if each in partitions}
        for each in sorted(set(partitions) - self._files.keys()):
            begin = await self._asked(partial(_begin, each))
            self._files[each] = self._new_files(begin)

    async def put(self, records: list[SinkRecord]) -> None:
        """Take records in their order, and finish the files that are full."""
        repeated, self._repeated = self._repeated, True
        for record in records:
            await self._take(record, repeated=repeated)
        await self._finish_due()
        self._repeated = False
        if self._refused:
            refused, self._refused = self._refused, []
            raise RefusedRecords(refused)

    async def flush(self) -> Mapping[TopicPartition, int]:
        """The offsets below which all records are in finished files."""
        try:
            await self._finish_due()
        except RetriableException as fault:
            log.warning("files stay unfinished for now: %s", fault)
        held: dict[TopicPartition, int] = {}
        for record, _ in self._refused:
            held.setdefault(_place(record), record.offset)  # nobody has heard of these yet
        found = {each: files.filling.committable for each, files in self._files.items()}
        return {each: min(end, held.get(each, end)) for each, end in found.items() if end is not None}

    async def close(self) -> None:
        """Forget unfinished files, once a file on its way has arrived."""
        await ended(asyncio.get_running_loop().run_in_executor(self._thread, self._files.clear))
        self._thread.shutdown()

    async def _take(self, record: SinkRecord, *, repeated: bool) -> None:
        place = _place(record)
        files = self._files.get(place)
        if files is None:
            raise ConnectException(f"{record}: its partition is not open in this task")
        if record.offset < files.begin:
            if not files.told:
                log.warning("%s-%d: passing over records below offset %d, which are in files", *place, files.begin)
            files.told = True
            return
        if repeated and record.offset < files.filling.next_offset:
            return
        if record.offset < files.filling.next_offset:
            log.info("%s-%d is read again from offset %d: its unfinished files begin anew", *place, record.offset)
            files = self._files[place] = self._new_files(files.begin)
        if files.filling.finishing:
            await self._finish(place, files)
        now_ms = self._now_ms()
        try:
            time_ms = self._checked(record, now_ms)
            if record.value is None and self._plan.null_values == "ignore":
                files.filling.pass_over(record.offset)
                return
            folder = self._plan.folder_of(record, time_ms or 0)
            schema = record.value_schema
            if files.filling.ends_before(folder, schema, time_ms, now_ms):
                await self._finish(place, files)
            self._encode(files, folder, record)
        except DataException as fault:
            self._refused.append((record, fault))
            files.filling.pass_over(record.offset)
            return
        files.filling.add(folder, record.offset, schema, time_ms)
        if files.filling.is_full:
            await self._finish(place, files)

    def _checked(self, record: SinkRecord, now_ms: int) -> int | None:
        """The record's time, if it counts; DataException for a record that goes into no file."""
        if record.value is None:
            if self._plan.null_values == "ignore":
                return None
            raise DataException("the value is null: set behavior.on.null.values=ignore to leave such records out")
        if record.topic != record.original_topic:
            raise DataException(
                f"a transformation sent the record of {record.original_topic} to {record.topic}: names of files hold "
                "topic and offset, so the topic must stay"
            )
        return None if self._plan.time_of is None else self._plan.time_of(record, now_ms)

    def _encode(self, files: _Files, folder: str, record: SinkRecord) -> None:
        """Add a record to the file of its folder. A file comes with the first record that it takes."""
        encoder = files.encoders.get(folder) or self._plan.format(record.value_schema)
        encoder.add(record)
        files.encoders[folder] = encoder

    def _new_files(self, begin: int) -> _Files:
        filling = Filling(self._plan.rotation, next_offset=begin)
        if self._plan.next_rotation_ms is not None:
            filling.due_ms = self._plan.next_rotation_ms(self._now_ms())
        return _Files(filling, begin)

    async def _finish_due(self) -> None:
        for place, files in self._files.items():
            if files.filling.finishing or files.filling.is_due(self._now_ms()):
                await self._finish(place, files)

    async def _finish(self, place: TopicPartition, files: _Files) -> None:
        """Put the files of a partition into their place; RetriableException if the store does not answer."""
        files.filling.finishing = True

        def commit(committer: Committer) -> None:
            spans = files.filling.spans
            committer.commit(
                place,
                [Finished(name, spans[name].first, spans[name].last, files.encoders[name].content()) for name in spans],
            )

        await self._asked(commit)
        files.filling.finished()
        files.encoders.clear()
        if self._plan.next_rotation_ms is not None:
            files.filling.due_ms = self._plan.next_rotation_ms(self._now_ms())

    async def _asked(self, ask: Callable[[Committer], T]) -> T:
        def asked() -> T:
            if self._committer is None:
                self._committer = self._plan.committer()
            return ask(self._committer)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, asked)
        except StoreUnreachable as fault:
            raise RetriableException(str(fault)) from fault
        except LakeRefused as fault:
            raise ConnectException(str(fault)) from fault


def _begin(place: TopicPartition, committer: Committer) -> int:
    found = committer.begin(place)
    return -1 if found is None else found


def _place(record: SinkRecord) -> TopicPartition:
    assert record.original_topic is not None
    return TopicPartition(record.original_topic, record.original_partition or 0)
