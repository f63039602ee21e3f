"""Fetches a consumer's bytes: a Fetch under way at each leader, sessions, received batches and their records.

Comes from `consuming`. While one piece is read, the next is already asked for.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ottla.client.consume.fetch_session import FetchSession, SessionRequest, WantedPartition
from ottla.client.core import transfer
from ottla.client.core.effects import Ask, Finish, Start
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError, refused
from ottla.client.model import Broker, ConsumedRecord, Fetched, Isolation, IsolationLevel
from ottla.client.settings import Flag, Milliseconds, Settings, Size
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from ottla.records.batch import Batch, iterate_batches
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record, read_records

log = logging.getLogger("ottla.client")

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class FetchSettings(Settings):
    """Settings of a consumer's fetches; names and defaults follow Kafka's consumer options.

    ValueError or TypeError names a setting that is wrong.
    """

    min_bytes: Size = Size(1)
    """A broker answers once it has so many bytes."""
    max_wait_ms: Milliseconds = Milliseconds(500)
    """A broker answers after so long with what it has."""
    max_bytes: Size = Size(50 * 1024 * 1024)
    """The size of an answer. It always has one whole batch, if that is larger too."""
    max_partition_bytes: Size = Size(1024 * 1024)
    """The size of one partition's part of an answer."""
    isolation_level: Isolation = Isolation(IsolationLevel.READ_UNCOMMITTED)
    """With "read_committed" aborted records are left out, and nothing is read beyond the first open transaction."""
    check_crcs: Flag = Flag(True)
    """Raise CORRUPT_MESSAGE for a batch that fails its CRC."""


@dataclass(slots=True)
class Reading:
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


class Fetcher:
    """Fetches for a set of partitions that may change at any time."""

    def __init__(self, plan: ClusterPlan, settings: FetchSettings, *, follow_truncation: bool = True) -> None:
        """`follow_truncation`: go on where a log was cut back; else that is an error."""
        self.plan = plan
        self.settings = settings
        self._follow_truncation = follow_truncation
        self.readings: dict[TopicPartition, Reading] = {}
        self._sessions: dict[Broker, FetchSession] = {}
        self._under_way: dict[Broker, tuple[object, dict[TopicPartition, int]]] = {}

    def assign(self, partitions: set[TopicPartition]) -> None:
        """Read exactly these partitions; those that stay keep their place."""
        self.readings = {partition: self.readings.get(partition, Reading()) for partition in sorted(partitions)}

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions until `resume`; KeyError for one that is not assigned."""
        for reading in [self.readings[partition] for partition in partitions]:
            reading.paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """End the pause of these partitions; KeyError for one that is not assigned."""
        for reading in [self.readings[partition] for partition in partitions]:
            reading.paused = False

    @property
    def handles(self) -> list[object]:
        """The fetches under way, which `First` waits for."""
        return [handle for handle, _ in self._under_way.values()]

    async def start(self) -> None:
        """Send a Fetch to every leader that has none under way and something to be asked for."""
        wanted: dict[Broker, dict[TopicPartition, int]] = {}
        for partition, reading in self.readings.items():
            if reading.position is None or reading.paused or reading.waiting:
                continue
            leader = self.plan.metadata.leader(*partition)
            if leader is None or (reading.failed and not self.plan.metadata.is_led(*partition)):
                if not self.plan.metadata.is_leaderless(*partition):
                    self.plan.metadata.doubt(partition.topic)
            elif leader not in self._under_way:
                wanted.setdefault(leader, {})[partition] = reading.fetch_offset
        for leader, offsets in wanted.items():
            session = self._sessions.setdefault(leader, FetchSession())
            self.plan.turns.asked(leader.destination(), self.plan.now_ms())
            request = session.next({each: self._want(each, self.readings[each]) for each in offsets})
            try:
                handle = await Start(self._ask(leader, request, offsets))
            except ClientError as fault:
                self._failed(leader, offsets)
                if not fault.retriable:
                    raise
            except BaseException:  # an interrupt: the broker may never learn what this request was to say
                session.failed()
                raise
            else:
                self._under_way[leader] = (handle, offsets)

    async def receive(self, first: object) -> None:
        """Take in the answer to the fetch of this handle; raises errors that no other attempt would cure."""
        leader = next(leader for leader, (handle, _) in self._under_way.items() if handle is first)
        _, offsets = self._under_way.pop(leader)
        try:
            response: FetchResponse = await Finish(first)
        except ClientError as fault:
            self._failed(leader, offsets)
            if fault.retriable:
                return
            raise
        except BaseException:
            self._sessions[leader].failed()
            raise
        self.plan.turns.answered(leader.destination())
        self._take_in(leader, offsets, response)

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
                for _, records in self._runs(partition, piece, start):
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

    def _want(self, partition: TopicPartition, reading: Reading) -> WantedPartition:
        metadata = self.plan.metadata
        return WantedPartition(
            metadata.topic_id(partition.topic),
            reading.fetch_offset,
            metadata.leader_epoch(*partition),
            self.settings.max_partition_bytes,
            reading.fetch_epoch,
        )

    def _ask(self, leader: Broker, request: SessionRequest, offsets: dict[TopicPartition, int]) -> Ask[FetchResponse]:
        settings = self.settings
        ids = [want.topic_id for want in request.partitions.values()] + list(request.forgotten.values())
        most = 32767 if all(any(topic_id) for topic_id in ids) else transfer.NAMES_ONLY

        def build(version: int) -> FetchRequest:
            by_id = version > transfer.NAMES_ONLY
            return FetchRequest(
                max_wait_ms=settings.max_wait_ms,
                min_bytes=settings.min_bytes,
                max_bytes=settings.max_bytes,
                isolation_level=int(settings.isolation_level),
                session_id=request.session_id if version >= 7 else 0,
                session_epoch=request.epoch if version >= 7 else -1,
                topics=_topics(request, by_id=by_id),
                forgotten_topics_data=_forgotten(request, by_id=by_id) if version >= 7 else [],
            )

        timeout_ms = settings.max_wait_ms + self.plan.settings.request_timeout_ms
        return Ask(
            leader.destination("fetch"),
            FetchRequest,
            FetchResponse,
            build,
            min_version=7,
            max_version=most,
            timeout_ms=timeout_ms,
        )

    def _failed(self, leader: Broker, offsets: dict[TopicPartition, int]) -> None:
        """Note that a Fetch has no answer."""
        self._sessions[leader].failed()
        self._doubt(offsets)

    def _doubt(self, offsets: dict[TopicPartition, int]) -> None:
        for partition in offsets:
            self.plan.metadata.doubt(partition.topic)
            if partition in self.readings:
                self.readings[partition].failed = True

    def _take_in(self, leader: Broker, offsets: dict[TopicPartition, int], response: FetchResponse) -> None:
        session = self._sessions[leader]
        code = transfer.known_code(response.error_code)
        if code:
            session.failed()
            if code not in _SESSION_ERRORS:
                self._doubt(offsets)
            return
        session.answered(response.session_id)
        names = self.plan.metadata.names
        faults: list[ApiError] = []
        for topic in response.responses:
            topic_id = bytes(topic.topic_id)
            name = topic.topic or names.get(topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                reading = self.readings.get(partition)
                if reading is None or partition not in offsets or reading.fetch_offset != offsets[partition]:
                    continue
                error = transfer.known_code(data.error_code)
                reading.failed = error in transfer.MOVED
                if error in transfer.MOVED:
                    found = data.current_leader
                    brokers = transfer.endpoints(response)
                    transfer.note_leader(self.plan, partition, found.leader_id, found.leader_epoch, brokers)
                elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
                    if reading.drained:  # else what was received is handed out first
                        reading.lose_position()
                elif error:
                    faults.append(refused(error, f"reading {partition} at offset {offsets[partition]}"))
                elif reading.is_of_another(topic_id):
                    if reading.drained:
                        log.warning("%s was made anew: it is read from where auto_offset_reset says", partition)
                        reading.lose_position()
                elif data.diverging_epoch.end_offset >= 0:
                    if reading.drained:
                        faults += self._truncated(partition, reading, data.diverging_epoch)
                else:
                    reading.topic_id = topic_id
                    self._keep(reading, transfer.fetched(name, offsets[partition], data))
        if faults:
            raise faults[0]

    def _truncated(self, partition: TopicPartition, reading: Reading, known: EpochEndOffset) -> list[ApiError]:
        """Go on at the end of what the leader has of our history, or return the error for it.

        Its log lacks what we have read last: it was elected uncleanly, or lost what it had not synced.
        """
        offset, end = reading.fetch_offset, min(known.end_offset, reading.fetch_offset)
        if end < offset and not self._follow_truncation:
            reason = f"the log was cut back to offset {end}, and auto_offset_reset is 'none': seek"
            return [refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"reading {partition} at offset {offset}", reason)]
        if end < offset:
            log.warning("the log of %s was cut back: it is read on from offset %d, not %d", partition, end, offset)
        reading.seek(end, known.epoch)
        return []

    def _keep(self, reading: Reading, piece: Fetched) -> None:
        reading.high_watermark = piece.high_watermark
        reading.last_stable_offset = piece.last_stable_offset
        reading.log_start_offset = piece.log_start_offset
        if piece.next_offset > reading.fetch_offset:
            reading.fetch_offset, reading.fetch_epoch = piece.next_offset, piece.leader_epoch
            reading.waiting.append(piece)

    def _records(self, partition: TopicPartition, piece: Fetched, start: int) -> Iterator[ConsumedRecord]:
        """The records from `start` on."""
        topic, number = partition
        for batch, records in self._runs(partition, piece, start):
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

    def _runs(self, partition: TopicPartition, piece: Fetched, start: int) -> Iterator[tuple[Batch, list[Record]]]:
        """The records from `start` on by batches, without control records and, for read_committed, aborted ones."""
        aborted_from = sorted(piece.aborted, key=lambda each: each.first_offset)
        committed_only = self.settings.isolation_level is IsolationLevel.READ_COMMITTED
        aborted: set[int] = set()
        for batch in iterate_batches(piece.records):
            if self.settings.check_crcs and not batch.crc_holds():
                raise refused(ErrorCode.CORRUPT_MESSAGE, f"{partition} at offset {batch.base_offset}")
            while aborted_from and aborted_from[0].first_offset <= batch.last_offset:
                aborted.add(aborted_from.pop(0).producer_id)
            if batch.is_control:
                marker = read_marker(batch)
                if marker is not None and marker.marker is Marker.ABORT:
                    aborted.discard(batch.producer_id)
                continue
            if committed_only and batch.is_transactional and batch.producer_id in aborted:
                continue
            records = read_records(batch)
            if batch.base_offset < start:
                records = [record for record in records if record.offset >= start]
            yield batch, records


def _topics(request: SessionRequest, *, by_id: bool) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for partition, want in request.partitions.items():
        topic = topics.get(partition.topic)
        if topic is None:
            topic = FetchTopic(topic_id=want.topic_id) if by_id else FetchTopic(topic=partition.topic)
            topics[partition.topic] = topic
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                last_fetched_epoch=want.last_epoch,
                partition_max_bytes=want.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(request: SessionRequest, *, by_id: bool) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for partition, topic_id in request.forgotten.items():
        topic = topics.get(partition.topic)
        if topic is None:
            topic = ForgottenTopic(topic_id=topic_id) if by_id else ForgottenTopic(topic=partition.topic)
            topics[partition.topic] = topic
        topic.partitions.append(partition.partition)
    return list(topics.values())
