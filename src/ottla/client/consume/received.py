"""The partitions that a consumer reads: their positions, the bytes received for them, and the records in these."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ottla.client.consume.settings import FetchSettings
from ottla.client.errors import refused
from ottla.client.model import ConsumedRecord, Fetched, IsolationLevel
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.records.batch import Batch, iterate_batches
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record, read_records


@dataclass(slots=True)
class PartitionReading:
    """One assigned partition: the consumer's position, the position of fetches, and the bytes received in between."""

    position: int | None = None
    epoch: int = -1
    """The leader epoch of the batch before the position; -1 where it is not known."""
    fetch_offset: int = -1
    fetch_epoch: int = -1
    """The leader epoch of the batch before `fetch_offset`: the leader compares it with its own log (KIP-320)."""
    topic_id: bytes = NO_TOPIC_ID
    """The id of the topic that the last answer was from, since the position was set."""
    failed: bool = False
    """True if the last fetch had no answer, or went to a broker that does not lead: the next waits for metadata."""
    asked: bool = False
    """True once the group's committed offset was asked for."""
    paused: bool = False
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    waiting: deque[Fetched] = field(default_factory=deque)
    current: Iterator[ConsumedRecord] | None = None
    current_end: int = -1
    current_epoch: int = -1

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Go on from this offset; received bytes are dropped. `epoch`: the leader epoch of the batch before it."""
        self.position = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.topic_id = NO_TOPIC_ID
        self.waiting.clear()
        self.current = None

    def pass_current(self) -> None:
        """Move the position behind the opened piece, whose records are all handed out."""
        self.position, self.epoch = max(self.position or 0, self.current_end), self.current_epoch
        self.current = None

    def lose_position(self) -> None:
        self.position = None
        self.topic_id = NO_TOPIC_ID
        self.waiting.clear()
        self.current = None

    def is_of_another(self, topic_id: bytes) -> bool:
        """True if the offset is one of a topic of the same name that was deleted since."""
        return NO_TOPIC_ID not in (topic_id, self.topic_id) and topic_id != self.topic_id

    @property
    def is_fresh(self) -> bool:
        """True if there never was an offset, and the group was not asked for one."""
        return self.position is None and self.fetch_offset < 0 and not self.asked

    @property
    def drained(self) -> bool:
        """True if all that was received is handed out, so that the position is where the next fetch begins."""
        return self.current is None and not self.waiting


class Received:
    """The received bytes of the partitions that are assigned; their records are handed out in order."""

    def __init__(self, settings: FetchSettings) -> None:
        self.settings = settings
        self.readings: dict[TopicPartition, PartitionReading] = {}

    def assign(self, partitions: set[TopicPartition]) -> None:
        """Read exactly these partitions; those that stay keep their place."""
        self.readings = {
            partition: self.readings.get(partition, PartitionReading()) for partition in sorted(partitions)
        }

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions until `resume`; KeyError for one that is not assigned."""
        for reading in [self.readings[partition] for partition in partitions]:
            reading.paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """End the pause of these partitions; KeyError for one that is not assigned."""
        for reading in [self.readings[partition] for partition in partitions]:
            reading.paused = False

    def promote(self) -> None:
        """Open the received bytes of partitions whose records are all handed out."""
        for partition, reading in self.readings.items():
            if reading.current is None and reading.waiting and not reading.paused:
                piece = reading.waiting.popleft()
                reading.current_end, reading.current_epoch = piece.next_offset, piece.leader_epoch
                reading.current = self._records(partition, piece, reading.position or 0)

    def take(self, max_records: int) -> list[ConsumedRecord]:
        """Records of opened pieces, partition after partition; positions move past them.

        A batch that cannot be read is raised once the records before it are handed out, and again until the position is
        another: nothing is skipped.
        """
        before = {
            partition: (reading.position, reading.epoch)
            for partition, reading in self.readings.items()
            if reading.current
        }
        try:
            return self._take(max_records)
        except BaseException:
            for partition, (position, epoch) in before.items():
                assert position is not None
                self.readings[partition].seek(position, epoch)  # the caller has none of these records
            raise

    def take_runs(self) -> list[tuple[TopicPartition, list[Record]]]:
        """Received pieces as lists of records; positions move past them. For a caller that never calls `promote`.

        A batch that cannot be read is raised once the records before it are handed out, as `take` does it.
        """
        taken: list[tuple[TopicPartition, list[Record]]] = []
        for partition, reading in self.readings.items():
            if not reading.waiting or reading.paused:
                continue
            piece, start = reading.waiting[0], reading.position or 0
            try:
                for _, records in self._runs(piece, start):
                    if records:
                        taken.append((partition, records))
                        start = records[-1].offset + 1
            except (ApiError, CorruptRecords):
                if not taken:
                    raise
                reading.seek(start)
                break
            reading.waiting.popleft()
            reading.current_end, reading.current_epoch = piece.next_offset, piece.leader_epoch
            reading.pass_current()
        return taken

    def one_by_one(self, max_records: int) -> Iterator[ConsumedRecord]:
        """Like `take`, but the position moves past each record as it is handed out. Partitions may change meanwhile."""
        left = max_records
        for partition, reading in list(self.readings.items()):
            while left and reading.current is not None and not reading.paused:
                if self.readings.get(partition) is not reading:
                    break  # it was given up
                try:
                    record = next(reading.current, None)
                except (ApiError, CorruptRecords):
                    reading.seek(reading.position or 0)  # it is read, and raised, again
                    raise
                if record is None:
                    reading.pass_current()
                    break
                reading.position, reading.epoch = record.offset + 1, record.leader_epoch
                left -= 1
                yield record

    def _take(self, max_records: int) -> list[ConsumedRecord]:
        taken: list[ConsumedRecord] = []
        for partition, reading in list(self.readings.items()):
            if reading.current is None or reading.paused:
                continue
            try:
                for record in reading.current:
                    taken.append(record)
                    reading.position = record.offset + 1
                    if len(taken) >= max_records:
                        reading.epoch = record.leader_epoch
                        self.readings[partition] = self.readings.pop(partition)  # fairness: comes last next time
                        return taken
            except (ApiError, CorruptRecords):
                if not taken:
                    raise
                reading.seek(reading.position or 0)
                self.readings = {partition: reading, **self.readings}  # comes first next time, to raise the error
                return taken
            reading.pass_current()
        return taken

    def _records(self, partition: TopicPartition, piece: Fetched, start: int) -> Iterator[ConsumedRecord]:
        """The records from `start` on."""
        topic, number = partition
        for batch, records in self._runs(piece, start):
            kind, epoch = int(batch.is_append_time), batch.leader_epoch
            for record in records:
                yield ConsumedRecord(
                    topic,
                    number,
                    record.offset,
                    record.timestamp,
                    kind,
                    record.key,
                    record.value,
                    record.headers,
                    epoch,
                )

    def _runs(self, piece: Fetched, start: int) -> Iterator[tuple[Batch, list[Record]]]:
        """The records from `start` on by batches, without control records and, for read_committed, aborted ones."""
        committed_only = self.settings.isolation_level is IsolationLevel.READ_COMMITTED
        for batch in visible_batches(piece, committed_only=committed_only, check_crcs=self.settings.check_crcs):
            records = read_records(batch)
            if batch.base_offset < start:
                records = [record for record in records if record.offset >= start]
            yield batch, records


def visible_batches(piece: Fetched, *, committed_only: bool, check_crcs: bool = True) -> Iterator[Batch]:
    """The batches of a piece without control batches and, for read_committed, aborted ones.

    ApiError CORRUPT_MESSAGE where a CRC does not hold.
    """
    aborted_from = sorted(piece.aborted, key=lambda each: each.first_offset)
    aborted: set[int] = set()
    for batch in iterate_batches(piece.records):
        if check_crcs and not batch.crc_holds():
            where = TopicPartition(piece.topic, piece.partition)
            raise refused(ErrorCode.CORRUPT_MESSAGE, f"{where} at offset {batch.base_offset}")
        while aborted_from and aborted_from[0].first_offset <= batch.last_offset:
            aborted.add(aborted_from.pop(0).producer_id)
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None and marker.marker is Marker.ABORT:
                aborted.discard(batch.producer_id)
        elif not (committed_only and batch.is_transactional and batch.producer_id in aborted):
            yield batch
