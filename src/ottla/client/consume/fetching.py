"""Fetches a consumer's bytes: a Fetch under way at each leader, and sessions. `received` hands out their records.

While one piece is read, the next is already asked for.
"""

from __future__ import annotations

import logging

from ottla.client.consume.fetch_session import FetchSession, SessionRequest, WantedPartition
from ottla.client.consume.received import PartitionReading, Received
from ottla.client.consume.settings import FetchSettings
from ottla.client.core import transfer
from ottla.client.core.effects import Ask, Finish, Start
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError, refused
from ottla.client.model import Broker, Fetched
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

log = logging.getLogger("ottla.client")

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Fetcher(Received):
    """Fetches for a set of partitions that may change at any time."""

    def __init__(self, plan: ClusterPlan, settings: FetchSettings, *, follow_truncation: bool = True) -> None:
        """`follow_truncation`: go on where a log was cut back; else that is an error."""
        super().__init__(settings)
        self.plan = plan
        self._follow_truncation = follow_truncation
        self._sessions: dict[Broker, FetchSession] = {}
        self._under_way: dict[Broker, tuple[object, dict[TopicPartition, int]]] = {}

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

    def _want(self, partition: TopicPartition, reading: PartitionReading) -> WantedPartition:
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
        faults: list[tuple[TopicPartition, ApiError]] = []
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
                    faults.append((partition, refused(error, f"reading {partition} at offset {offsets[partition]}")))
                elif reading.is_of_another(topic_id):
                    if reading.drained:
                        log.warning("%s was made anew: it is read from where auto_offset_reset says", partition)
                        reading.lose_position()
                elif data.diverging_epoch.end_offset >= 0:
                    if reading.drained:
                        faults += [
                            (partition, each) for each in self._truncated(partition, reading, data.diverging_epoch)
                        ]
                else:
                    reading.topic_id = topic_id
                    self._keep(reading, transfer.fetched(name, offsets[partition], data))
        if faults:
            self.refuse(faults)

    def refuse(self, faults: list[tuple[TopicPartition, ApiError]]) -> None:
        """Raise the first error that no other attempt would cure; the other partitions were taken in."""
        raise faults[0][1]

    def _truncated(self, partition: TopicPartition, reading: PartitionReading, known: EpochEndOffset) -> list[ApiError]:
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

    def _keep(self, reading: PartitionReading, piece: Fetched) -> None:
        reading.high_watermark = piece.high_watermark
        reading.last_stable_offset = piece.last_stable_offset
        reading.log_start_offset = piece.log_start_offset
        if piece.next_offset > reading.fetch_offset:
            reading.fetch_offset, reading.fetch_epoch = piece.next_offset, piece.leader_epoch
            reading.waiting.append(piece)


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
