"""Opens every file of a backup: checksums, CRCs, the order of offsets. Nothing is believed that was not read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ottla.backup.manifest import Backup, BackupFile, BackupRefused, PartitionCopy
from ottla.backup.store_files import read_file
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch, iterate_batches
from ottla.records.faults import CorruptRecords
from ottla.stores import Store


@dataclass(slots=True)
class Verified:
    """Counts of what was opened, and its faults."""

    files: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    faults: list[str] = field(default_factory=list)


def verify(store: Store, backup: Backup, tell: Callable[[int], None]) -> Verified:
    """Read all files of a backup; `tell` hears of bytes."""
    found = Verified()
    for partition, copy in backup.partitions():
        found.faults += _gaps(partition, copy)
        for file in copy.files:
            try:
                content = read_file(store, file)
            except BackupRefused as fault:
                found.faults.append(str(fault))
                continue
            found.files, found.bytes = found.files + 1, found.bytes + file.bytes
            for batch in _sound_batches(store, file, content, found.faults):
                found.batches, found.records = found.batches + 1, found.records + batch.records_count
            tell(file.bytes)
    return found


def _gaps(partition: TopicPartition, copy: PartitionCopy) -> Iterator[str]:
    """Sentences about offsets that no file is answerable for."""
    for one, other in zip(copy.files, copy.files[1:], strict=False):
        if other.first < one.end:
            yield f"{partition}: {other.name} begins at {other.first}, before {one.name} ends at {one.end}"
    if copy.files and copy.files[-1].end > copy.end:
        yield f"{partition}: {copy.files[-1].name} ends at {copy.files[-1].end}, behind the backup's end {copy.end}"


def _sound_batches(store: Store, file: BackupFile, content: bytes, faults: list[str]) -> Iterator[Batch]:
    position, size = -1, 0
    try:
        for batch in iterate_batches(content):
            if not batch.crc_holds():
                faults.append(f"{store.url}/{file.name}: the CRC of the batch at offset {batch.base_offset} is wrong")
            if batch.base_offset < position or batch.next_offset > file.end or batch.last_offset < file.first:
                faults.append(f"{store.url}/{file.name}: the batch at offset {batch.base_offset} is out of order")
            position, size = batch.next_offset, size + batch.size
            yield batch
    except CorruptRecords as fault:
        faults.append(f"{store.url}/{file.name}: {fault}")
        return
    if size != len(content):
        faults.append(f"{store.url}/{file.name}: {len(content) - size} bytes behind the last whole batch")
