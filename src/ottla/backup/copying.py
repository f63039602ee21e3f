"""Copies what is new of one partition into files of the store, and looks at what stands behind the cut.

Batches are copied as they are compressed, after their CRC was checked. Markers and aborted records are left out.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from ottla.backup.cut import TransactionScan
from ottla.backup.increment import PartitionPlan
from ottla.backup.manifest import BackupFile, BackupRefused, PartitionCopy
from ottla.backup.store_files import read_file, run_folder
from ottla.client.aio.cluster import Cluster
from ottla.client.consume.received import visible_batches
from ottla.client.model import EARLIEST, Fetched, IsolationLevel
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import iterate_batches
from ottla.stores import Store, StoreOutput

ROLL_BYTES: Final = 32 * 1024 * 1024
"""A file of this size is closed, and the next one begun."""
_PIECE_BYTES: Final = 4 * 1024 * 1024


class FileWriter:
    """Writes the files of one partition, one after the other."""

    def __init__(self, store: Store, partition: TopicPartition, run_id: str, roll_bytes: int = ROLL_BYTES) -> None:
        self.files: list[BackupFile] = []
        self._store, self._partition, self._run_id = store, partition, run_id
        self._roll_bytes = roll_bytes
        self._output: StoreOutput | None = None

    def begin(self, first: int) -> None:
        """Begin a file for the records from an offset on."""
        topic, number = self._partition
        self._name = f"{run_folder(self._run_id)}{topic}/{number}/{first:020}.log"
        self._output = self._store.open_output(self._name)
        self._first, self._bytes, self._hash = first, 0, hashlib.sha256()

    def add(self, content: bytes, start: int, end: int) -> None:
        """Append whole batches of offsets from `start` to below `end`."""
        if self._output is None:
            self.begin(start)
        assert self._output is not None
        self._output.sink.write(content)
        self._hash.update(content)
        self._bytes += len(content)
        if self._bytes >= self._roll_bytes:
            self.finish(end)

    def finish(self, end: int) -> None:
        """Close the file that is open, if there is one: it holds all records below `end`."""
        if self._output is not None:
            self._output.finish()
            self._output = None
            self.files.append(BackupFile(self._name, self._first, end, self._bytes, self._hash.hexdigest()))

    def abandon(self) -> None:
        """Give up the file that is open."""
        if self._output is not None:
            self._output.abandon()
            self._output = None


@dataclass(slots=True)
class CopiedPartition:
    """A partition's part of the new backup."""

    copy: PartitionCopy
    scan: TransactionScan
    new_bytes: int = 0
    lost: list[str] = field(default_factory=list)
    """Sentences about records that the cluster deleted before they were copied."""


async def copy_partition(
    cluster: Cluster,
    writer: FileWriter,
    store: Store,
    partition: TopicPartition,
    plan: PartitionPlan,
    before: PartitionCopy | None,
    *,
    earliest: int,
    end: int,
    producers: Collection[int],
    tell: Callable[[int], None],
) -> CopiedPartition:
    """Copy the plan's range. `producers` are those whose transactions may be torn; `tell` hears of bytes."""
    scan, lost = TransactionScan(producers), list[str]()
    last_batch = None if before is None or plan.is_whole else before.last_batch
    position, new_bytes = plan.start, 0
    try:
        if plan.joined is not None:
            await asyncio.to_thread(_begin_with, store, writer, plan.joined)
        while position < end:
            try:
                async for piece in cluster.fetch_range(
                    *partition, position, end, max_bytes=_PIECE_BYTES, isolation_level=IsolationLevel.READ_COMMITTED
                ):
                    content, last = _committed(piece, position, end, scan if producers else None)
                    last_batch = last or last_batch
                    if content:
                        await asyncio.to_thread(writer.add, content, position, min(piece.next_offset, end))
                    position = min(piece.next_offset, end)
                    new_bytes += len(content)
                    tell(len(content))
            except ApiError as fault:
                position = await _behind_gap(cluster, partition, position, end, fault, lost)
        await asyncio.to_thread(writer.finish, end)
    except BaseException:
        writer.abandon()
        raise
    files = (*plan.kept, *writer.files)
    whole = sum(file.bytes for file in files) if plan.is_whole or before is None else before.whole_bytes
    return CopiedPartition(PartitionCopy(earliest, end, files, last_batch, whole), scan, new_bytes, lost)


def _begin_with(store: Store, writer: FileWriter, joined: BackupFile) -> None:
    writer.begin(joined.first)
    writer.add(read_file(store, joined), joined.first, joined.end)


def _committed(
    piece: Fetched, position: int, end: int, scan: TransactionScan | None
) -> tuple[bytes, tuple[int, int] | None]:
    """The committed batches of a piece between two offsets, and the place and CRC of the last one."""
    for each in iterate_batches(piece.records) if scan is not None else ():
        if scan is not None and each.base_offset < end:
            scan.see(each)
    views, last = [], None
    try:
        for batch in visible_batches(piece, committed_only=True):
            if batch.records_count and batch.last_offset >= position and batch.base_offset < end:
                views.append(batch.view)
                last = batch.base_offset, batch.crc
    except ApiError as fault:
        raise BackupRefused(
            f"the cluster holds a damaged batch: {fault.message}. Nothing of this run counts; repair the replica "
            "(`ottla log check` on its broker says how), and start again"
        ) from None
    return b"".join(views), last


async def _behind_gap(
    cluster: Cluster, partition: TopicPartition, position: int, end: int, fault: ApiError, lost: list[str]
) -> int:
    """The offset to go on at if the cluster deleted records meanwhile; other faults rise."""
    if fault.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        raise fault
    earliest = (await cluster.list_offsets([partition], EARLIEST))[partition].offset
    if earliest <= position:
        raise fault
    lost.append(f"{partition}: offsets {position} to {min(earliest, end) - 1} were deleted before they were copied")
    return min(earliest, end)


async def scan_tail(cluster: Cluster, partition: TopicPartition, start: int, end: int) -> TransactionScan:
    """The transactions that have records behind the cut."""
    scan = TransactionScan()
    if start < end:
        async for piece in cluster.fetch_range(*partition, start, end, max_bytes=_PIECE_BYTES):
            for batch in iterate_batches(piece.records):
                if batch.base_offset >= start:
                    scan.see(batch)
    return scan


async def holds_batch(cluster: Cluster, partition: TopicPartition, base_offset: int, crc: int) -> bool:
    """True if the cluster still has this very batch."""
    piece = await cluster.fetch(*partition, base_offset, max_bytes=1)
    found = next(iterate_batches(piece.records), None)
    return found is not None and found.base_offset == base_offset and found.crc == crc
