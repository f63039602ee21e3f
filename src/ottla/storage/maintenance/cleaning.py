"""The work of compaction: of each key the last value stays. Runs in a child process (`compact_child.py`).

Two passes: keys of the dirty part into a map, then every batch of the plan's segments through it. Batches keep their
offsets, sequences and producers, may end up sparse or empty, and tombstones go once their delete horizon has passed
(KIP-534). The rules are those of Kafka's Cleaner; one is ours: the last batch of a group stays, if need be empty, so
that a cleaned segment covers the offsets of all that it replaces.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator
from hashlib import blake2b
from typing import NamedTuple

from ottla.kernel.seams import Disk
from ottla.records.batch import Batch
from ottla.records.builder import retain
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record, read_records
from ottla.storage.maintenance.compaction import CompactionPlan, CompactionResult
from ottla.storage.segment.aborted import AbortedEntry
from ottla.storage.segment.names import CLEANED, LOG, SUFFIXES
from ottla.storage.segment.scan import counted_timestamp, scan_batches
from ottla.storage.segment.segment import Segment

_LONG_KEY = 24
"""Longer keys are remembered by a 16-byte digest."""


class Damaged(Exception):
    """A batch below the log's end fails its CRC or does not parse: such a log is left alone."""


class CleanedBytes(NamedTuple):
    """Bytes read or written since the last one, for a throttle."""

    bytes: int


def clean(disk: Disk, plan: CompactionPlan) -> Iterator[CleanedBytes | CompactionResult]:
    """Do the plan's work, a batch at a time; the last thing yielded is the result."""
    _remove_cleaned(disk, plan)
    keys: dict[bytes, int] = {}
    map_end = yield from _gather(disk, plan, keys)
    cleaner = _Cleaner(disk, plan, keys, map_end)
    groups = 0
    for group, end in zip(plan.groups, plan.ends, strict=True):
        if group[0] >= map_end:
            break
        yield from cleaner.clean_group(group, end)
        groups += 1
    disk.sync_directory(plan.directory)
    yield CompactionResult(
        groups,
        min([map_end, *plan.ends[groups - 1 : groups]]),
        cleaner.bytes_before,
        cleaner.bytes_after,
        cleaner.records_before,
        cleaner.records_after,
    )


def run(disk: Disk, plan: CompactionPlan) -> CompactionResult:
    """All of `clean` at once, in this process: for logs in memory, and for tests."""
    for step in clean(disk, plan):
        if isinstance(step, CompactionResult):
            return step
    raise AssertionError("clean ends with its result")


def _remove_cleaned(disk: Disk, plan: CompactionPlan) -> None:
    for group in plan.groups:
        segment = Segment(disk, plan.directory, group[0], created_ms=0, last_suffix=CLEANED)
        for suffix in SUFFIXES:
            disk.remove(segment.path(suffix))


def _key_of(key: bytes) -> bytes:
    return key if len(key) <= _LONG_KEY else blake2b(key, digest_size=16).digest()


def _gather(disk: Disk, plan: CompactionPlan, keys: dict[bytes, int]) -> Generator[CleanedBytes, None, int]:
    """The last offset of every key of the dirty part; returns where it had to stop."""
    transactions = _Transactions(_aborted_entries(disk, plan))
    for group in plan.groups:
        for base in group:
            for batch in _batches(disk, plan, base):
                discard = transactions.discards(batch)
                yield CleanedBytes(batch.size)
                if batch.next_offset <= plan.dirty_start or batch.is_control or discard:
                    continue
                if batch.base_offset >= plan.dirty_end or len(keys) >= plan.max_keys:
                    return batch.base_offset
                for record in _records(batch):
                    if record.key is not None and record.offset >= plan.dirty_start:
                        keys[_key_of(record.key)] = record.offset
    return plan.dirty_end


def _batches(disk: Disk, plan: CompactionPlan, base: int) -> Iterator[Batch]:
    """The batches of one segment; Damaged where an offset or an epoch contradicts the batches around it."""
    segment = Segment(disk, plan.directory, base, created_ms=0)
    size = segment.file.size()
    position, expected, epoch, end = 0, base, -1, _end_of(plan, base)
    try:
        for header, view in scan_batches(segment.file, 0, size):
            batch = Batch(view)
            if not batch.crc_holds():
                raise Damaged(f"{segment.path(LOG)}: the batch at byte {header.position} fails its CRC")
            if batch.base_offset < expected or batch.last_offset_delta < 0 or batch.next_offset > end:
                raise Damaged(f"{segment.path(LOG)}: offsets {batch.base_offset} to {batch.last_offset} at byte "
                              f"{header.position} do not follow on")  # fmt: skip
            if header.leader_epoch < epoch:
                raise Damaged(f"{segment.path(LOG)}: the leader epoch falls at byte {header.position}")
            yield batch
            position, expected, epoch = header.position + header.size, batch.next_offset, header.leader_epoch
        if position != size:
            raise Damaged(f"{segment.path(LOG)}: no batch at byte {position}")
    finally:
        segment.close()


def _end_of(plan: CompactionPlan, base: int) -> int:
    """The end of a segment of the plan: the start of the next one."""
    bases = [each for group in plan.groups for each in group] + plan.ends[-1:]
    return bases[bases.index(base) + 1]


def _records(batch: Batch) -> list[Record]:
    try:
        return read_records(batch)
    except CorruptRecords as fault:
        raise Damaged(str(fault)) from fault


def _aborted_entries(disk: Disk, plan: CompactionPlan) -> list[AbortedEntry]:
    entries: list[AbortedEntry] = []
    for group in plan.groups:
        for base in group:
            entries += Segment(disk, plan.directory, base, created_ms=0).aborted.entries
    return entries + plan.aborted_behind


class _Transactions:
    """The batches that belong to aborted transactions, and the markers that nothing needs any more."""

    def __init__(self, aborted: list[AbortedEntry]) -> None:
        self._coming = [(entry.first_offset, entry.producer_id, entry) for entry in aborted]
        heapq.heapify(self._coming)
        self._aborted: dict[int, AbortedEntry] = {}
        self._seen_aborted: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedEntry] = []
        """The aborted transactions whose data this pass discards: their markers and index entries stay."""

    def discards(self, batch: Batch) -> bool:
        """True if the batch is aborted data, or a marker of a transaction that has no data left."""
        while self._coming and self._coming[0][0] <= batch.last_offset:
            _, producer_id, entry = heapq.heappop(self._coming)
            self._aborted[producer_id] = entry
        if not batch.is_transactional:
            return False
        producer_id = batch.producer_id
        if batch.is_control:
            return self._marker(batch, producer_id)
        if producer_id in self._aborted:
            self._seen_aborted.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def _marker(self, batch: Batch, producer_id: int) -> bool:
        ending = read_marker(batch)
        if ending is None:
            return True  # an empty control batch: its record went in an earlier pass
        if ending.marker is Marker.ABORT:
            entry = self._aborted.pop(producer_id, None)
            if entry is not None and producer_id in self._seen_aborted:
                self._seen_aborted.discard(producer_id)
                self.kept.append(entry)
                return False
            return True
        had_data = producer_id in self._committed
        self._committed.discard(producer_id)
        return not had_data


class _Cleaner:
    """The second pass."""

    def __init__(self, disk: Disk, plan: CompactionPlan, keys: dict[bytes, int], map_end: int) -> None:
        self._disk = disk
        self._plan = plan
        self._keys = keys
        self._map_end = map_end
        self._transactions = _Transactions(_aborted_entries(disk, plan))
        self.bytes_before = self.bytes_after = self.records_before = self.records_after = 0

    def clean_group(self, group: list[int], end: int) -> Iterator[CleanedBytes]:
        """Write the group's `.cleaned` files and sync them."""
        disk, plan = self._disk, self._plan
        new = Segment(disk, plan.directory, group[0], created_ms=0, last_suffix=CLEANED)
        new.index_interval = plan.index_interval_bytes
        new.create_file()
        new.aborted.begin_empty()
        kept_before = len(self._transactions.kept)
        last: Batch | None = None
        modified = 0
        for base in group:
            modified = max(modified, Segment(disk, plan.directory, base, created_ms=0).modified_ms())
            for batch in _batches(disk, plan, base):
                if last is not None:
                    yield self._put(new, self._cleaned(last, is_last=False), last.size)
                last = batch.owned()
        if last is not None:
            yield self._put(new, self._cleaned(last, is_last=last.next_offset <= end), last.size)
        new.end_index()  # by it a start notices if an older file is in its place that ends at the same offset
        for entry in self._transactions.kept[kept_before:]:
            new.aborted.add(entry)
        for file in [new.file, *new.write_indexes()]:
            file.sync()
        new.close()
        disk.set_modified_ms(new.path(LOG), modified)

    def _put(self, new: Segment, body: bytes | None, read_bytes: int) -> CleanedBytes:
        self.bytes_before += read_bytes
        if body is None:
            return CleanedBytes(read_bytes)
        batch = Batch(body)
        new.append([body], batch.size, batch.base_offset, batch.next_offset, counted_timestamp(batch))
        self.bytes_after += batch.size
        self.records_after += batch.records_count
        return CleanedBytes(read_bytes + batch.size)

    def _cleaned(self, batch: Batch, *, is_last: bool) -> bytes | None:
        """The batch as it stays; None if it is dropped."""
        self.records_before += batch.records_count
        discard = self._transactions.discards(batch)
        horizon = batch.delete_horizon_ms
        if batch.is_control:
            drop_records = discard and horizon is not None and horizon <= self._plan.now_ms
            needs_horizon = discard and horizon is None and batch.records_count > 0
        else:
            drop_records, needs_horizon = discard, False
        keep_empty = is_last or self._is_last_of_producer(batch)
        if drop_records:
            return _emptied(batch) if keep_empty else None
        if batch.is_control:
            records = kept = _records(batch)
        else:
            records = _records(batch)
            kept = [record for record in records if self._keeps(record, horizon)]
            needs_horizon = horizon is None and any(self._is_clean_tombstone(record) for record in kept)
        if not kept:
            return _emptied(batch) if keep_empty else None
        new_horizon = self._horizon_of(kept) if needs_horizon else None
        if len(kept) == len(records) and new_horizon is None:
            return bytes(batch.view)
        return retain(batch, kept, delete_horizon_ms=new_horizon)

    def _horizon_of(self, records: list[Record]) -> int | None:
        """The time at which tombstones go; None if it is too far away to stand in their batch: then they stay.

        That is so for delete.retention.ms without end, and for timestamps that are not worth the name.
        """
        plan = self._plan
        horizon = (plan.now_ms if plan.wall_ms is None else plan.wall_ms) + plan.delete_retention_ms
        fits = horizon < 2**63 and all(record.timestamp - horizon >= -(2**63) for record in records)
        return horizon if fits else None

    def _is_clean_tombstone(self, record: Record) -> bool:
        """True if this pass removes all earlier values of a tombstone's key.

        The time of a tombstone behind the gathered keys begins with the pass that does: it would go with the values
        then, and a consumer that had just read one of them would never hear of the deletion.
        """
        return record.value is None and record.offset < self._map_end

    def _keeps(self, record: Record, horizon: int | None) -> bool:
        if record.offset >= self._map_end:
            return True
        if record.key is None:
            return False
        latest = self._keys.get(_key_of(record.key))
        if latest is not None and record.offset < latest:
            return False
        return record.value is not None or horizon is None or self._plan.now_ms < horizon

    def _is_last_of_producer(self, batch: Batch) -> bool:
        last = self._plan.last_of_producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch


def _emptied(batch: Batch) -> bytes:
    """The header alone, with its timestamp: a producer is remembered from it for as long as from the whole batch."""
    empty = Batch(retain(batch, []))
    return bytes(empty.stamped(max_timestamp=batch.max_timestamp, append_time=batch.is_append_time).view)
