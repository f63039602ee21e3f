"""Files of one partition as pieces of its log, from any offset on, as a fetch would give them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from ottla.backup.manifest import BackupFile, PartitionCopy, Transaction
from ottla.backup.store_files import read_file
from ottla.client.model import Fetched
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch, iterate_batches
from ottla.stores import Store

_PIECE_BYTES: Final = 1024 * 1024


class PartitionFiles:
    """Reads the files one after the other, and keeps the last one."""

    def __init__(
        self, store: Store, partition: TopicPartition, copy: PartitionCopy, left_out: Collection[Transaction]
    ) -> None:
        """`left_out` are transactions of which the backup holds a part."""
        self.partition, self.copy = partition, copy
        self._store, self._left_out = store, frozenset(left_out)
        self._open: BackupFile | None = None
        self._content = b""
        self._reached = (-1, 0)
        """The offset at which the last piece ended, and where its batch begins in the file."""

    def piece(self, position: int) -> Fetched:
        """Batches from an offset on. Its `next_offset` is where the next piece begins, at last the end."""
        file = next((file for file in self.copy.files if file.end > position), None)
        if file is None:
            return self._fetched(position, self.copy.end, b"")
        self._read(file)
        at = self._reached[1] if self._reached[0] == position else 0
        views, size, reached = [], 0, file.end
        for batch in iterate_batches(memoryview(self._content)[at:]):
            if size >= _PIECE_BYTES:
                reached = batch.base_offset
                break
            at += batch.size
            if batch.next_offset <= position:
                continue
            if not (batch.is_transactional and (batch.producer_id, batch.producer_epoch) in self._left_out):
                views.append(batch.view)
                size += batch.size
        self._reached = (reached, at)
        return self._fetched(position, reached, b"".join(views))

    def all_batches(self) -> Iterator[Batch]:
        """All batches that count, in their order."""
        position = self.copy.start
        while position < self.copy.end:
            piece = self.piece(position)
            yield from iterate_batches(piece.records)
            position = piece.next_offset

    def close(self) -> None:
        """Forget the file that was read last."""
        self._open, self._content = None, b""

    def _read(self, file: BackupFile) -> None:
        if self._open is not file:
            self._content, self._open = read_file(self._store, file), file
            self._reached = (-1, 0)

    def _fetched(self, position: int, reached: int, records: bytes) -> Fetched:
        end = self.copy.end
        return Fetched(*self.partition, position, min(reached, end), memoryview(records), end, end, self.copy.start, [])
