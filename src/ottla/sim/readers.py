"""Readers of the simulated workload: fetch sessions that follow every topic, and the last scan of whole logs."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from ottla.access.names import ANONYMOUS
from ottla.client.consume.fetch_session import FetchSession, SessionRequest, WantedPartition
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.seams import Buffer
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.records.batch import iterate_batches
from ottla.records.faults import CorruptRecords
from ottla.records.reader import read_records
from ottla.sim.checkers.history import Bounds, LogKey, OutOfRange, Polled, Scanned, Unreadable
from ottla.sim.setting import KnownTopic, Setting

if TYPE_CHECKING:
    from ottla.sim.peer import Caller, Peers

_EARLIEST, _LATEST = -2, -1
_AFRESH_SHARE = 0.04
_DROP_SHARE = 0.1
_BY_NAME, _BY_ID = 12, 18
_LOST_SESSION = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
Records = tuple[tuple[int, bytes], ...]
Wanted = dict[TopicPartition, WantedPartition]


def parse(view: Buffer, from_offset: int) -> tuple[Records, int]:
    """Records at and after an offset, and the offset after the last whole batch; CorruptRecords names the fault."""
    found: list[tuple[int, bytes]] = []
    following = from_offset
    for batch in iterate_batches(view):
        if not batch.crc_holds():
            raise CorruptRecords(f"the CRC of the batch at {batch.base_offset} does not hold")
        records = read_records(batch)
        found += [(record.offset, record.value or b"") for record in records if record.offset >= from_offset]
        following = max(following, batch.next_offset)
    return tuple(found), following


def fetch_request(asked: SessionRequest, *, max_wait_ms: int, max_bytes: int) -> FetchRequest:
    """A session's next request, with names and ids; its version decides which of them are sent."""
    topics: dict[str, FetchTopic] = {}
    for place, want in asked.partitions.items():
        topic = topics.setdefault(place.topic, FetchTopic(topic=place.topic, topic_id=want.topic_id))
        topic.partitions.append(
            FetchPartition(
                partition=place.partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                partition_max_bytes=want.max_bytes,
            )
        )
    forgotten = [
        ForgottenTopic(topic=place.topic, topic_id=topic_id, partitions=[place.partition])
        for place, topic_id in asked.forgotten.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=forgotten,
    )


class Reader:
    """Follows all topics in fetch sessions; now and then it starts again from the beginning."""

    waits_ms = (0, 100, 500)
    """The times, one of which a fetch waits for records."""

    def __init__(self, name: str, workload: Setting, caller: Caller = ANONYMOUS) -> None:
        self.workload = workload
        self.random = Random(f"{name}-{workload.plan.seed}")
        self.peer = workload.peer(name, caller=caller)
        self._base_name = name
        self._lives = 0
        self._begin_afresh()

    def _begin_afresh(self) -> None:
        """Restart as another reader process, which need not agree with the reads of the last one."""
        self._lives += 1
        self.name = f"{self._base_name}.{self._lives}"
        self._sessions = {broker: FetchSession() for broker in self.peer.by_broker}
        self._positions: dict[LogKey, int] = {}
        self._told: dict[LogKey, tuple[int, int, int, int, int]] = {}
        self._version = self.random.choice((_BY_NAME, 13, _BY_ID))
        self._max_bytes = self.random.choice((100, 2000, 1 << 20))
        self.peer.close()

    async def run(self) -> None:
        while not self.workload.ending:
            if self.random.random() < _AFRESH_SHARE:
                self._begin_afresh()
            await self.poll()
            if self.random.random() < 0.3:
                await self.peer.sleep_us(self.random.randint(*self.workload.plan.pause_us))
        self.peer.close()

    def _followed(self) -> dict[str, KnownTopic]:
        """The topics to read, by name."""
        return {
            topic.plan.name: topic for topic in self.workload.topics() if topic.plan.stable or self._version > _BY_NAME
        }

    async def poll(self) -> None:
        topics = self._followed()
        broker, wanted = await self._choose(topics)
        peer, session = self.peer.by_broker[broker], self._sessions[broker]
        asked = session.next(wanted)
        if not topics or not await peer.connect():
            session.failed()
            self._lost_sight(wanted)
            await self.peer.sleep_us(20_000)
            return
        life = self.workload.life_of(broker)
        request = fetch_request(asked, max_wait_ms=self.random.choice(self.waits_ms), max_bytes=1 << 20)
        response = await peer.send(request, most=self._version)
        if response is None:
            session.failed()
            self._lost_sight(wanted)
            return
        if response.error_code:
            if response.error_code not in _LOST_SESSION:
                self.workload.failed(f"{self.name}: Fetch was answered {ErrorCode(response.error_code).name}")
            session.failed()
            return
        session.answered(response.session_id)
        await self._take((broker, life), response, topics, wanted)

    async def _choose(self, topics: dict[str, KnownTopic]) -> tuple[BrokerId, Wanted]:
        """Choose a broker, and the partitions to fetch from it: those that it leads, as far as we know."""
        wanted = self._wanted(topics)
        if self.peer.alone:
            return next(iter(self.peer.by_broker)), wanted
        broker = self.random.choice(list(self.peer.by_broker))
        leaders = {place: await self.peer.leader_id(place.topic, place.partition) for place in wanted}
        return broker, {
            place: want._replace(leader_epoch=self.peer.epoch(place.topic, place.partition))
            for place, want in wanted.items()
            if leaders[place] == broker
        }

    def _lost_sight(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self.peer.forget(place.topic, place.partition)

    def _wanted(self, topics: dict[str, KnownTopic]) -> Wanted:
        wanted = {}
        for name, topic in topics.items():
            for partition in range(topic.plan.partitions):
                if self.random.random() >= _DROP_SHARE:
                    position = self._positions.get(LogKey(topic.topic_id.hex(), partition), 0)
                    wanted[TopicPartition(name, partition)] = WantedPartition(
                        topic.topic_id, position, -1, self._max_bytes
                    )
        return wanted

    async def _take(
        self, said_by: tuple[BrokerId, int], response: FetchResponse, topics: dict[str, KnownTopic], wanted: Wanted
    ) -> None:
        by_id = {topic.topic_id: topic for topic in topics.values()}
        for answer in response.responses:
            topic = topics.get(answer.topic) or by_id.get(bytes(answer.topic_id))
            if topic is None:
                self.workload.failed(f"{self.name}: an answer about a topic that was not asked for")
                continue
            for part in answer.partitions:
                log = LogKey(topic.topic_id.hex(), part.partition_index)
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._find_place(topic, log)
                elif part.error_code == 0:
                    place = TopicPartition(topic.plan.name, part.partition_index)
                    told = part.log_start_offset, part.high_watermark, wanted[place].leader_epoch, *said_by
                    if self._told.get(log) != told:
                        self._told[log] = told
                        self.workload.saw(Bounds(self.workload.loop.now_us, self.name, log, *told))
                    if part.records is not None and len(part.records):
                        self._records(log, part.records)
                else:
                    self.peer.forget(topic.plan.name, part.partition_index)

    def _records(self, log: LogKey, view: Buffer) -> None:
        position = self._positions.get(log, 0)
        now_us = self.workload.loop.now_us
        try:
            records, following = parse(view, position)
        except CorruptRecords as fault:
            self.workload.unreadable(self.name, log, position, str(fault))
            return
        if records:
            self.workload.saw(Polled(now_us, self.name, log, position, records))
        self._positions[log] = following

    async def _find_place(self, topic: KnownTopic, log: LogKey) -> None:
        position = self._positions.get(log, 0)
        start = await offset_of(self.peer, topic, log.partition, _EARLIEST)
        if start is None:
            return
        if position >= start:
            self.workload.saw(OutOfRange(self.workload.loop.now_us, self.name, log, position))
        self._positions[log] = start


async def offset_of(peers: Peers, topic: KnownTopic, partition: int, timestamp: int) -> int | None:
    """Ask ListOffsets for one partition."""
    asked = ListOffsetsTopic(
        name=topic.plan.name, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
    )
    peer = await peers.leader(topic.plan.name, partition)
    if peer is None:
        return None
    response = await peer.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]))
    if response is None or response.topics[0].partitions[0].error_code:
        peers.forget(topic.plan.name, partition)
        return None
    offset: int = response.topics[0].partitions[0].offset
    return offset


class Scanner:
    """The last reader: every log from its start to its end."""

    def __init__(self, workload: Setting) -> None:
        self.workload = workload
        self.peer = workload.peer("scanner")

    async def scan(self, topic: KnownTopic, partition: int) -> bool:
        """Read a log from its start to its end; False if that failed and may be tried again.

        Records at the end or behind are left out: a batch that its sender gave up may still arrive during the scan.
        """
        start = await offset_of(self.peer, topic, partition, _EARLIEST)
        end = await offset_of(self.peer, topic, partition, _LATEST)
        if start is None or end is None:
            return False
        log = LogKey(topic.topic_id.hex(), partition)
        found: list[tuple[int, bytes]] = []
        position = start
        while position < end:
            want = {TopicPartition(topic.plan.name, partition): WantedPartition(topic.topic_id, position, -1, 1 << 20)}
            request = fetch_request(SessionRequest(0, -1, want, {}), max_wait_ms=0, max_bytes=1 << 20)
            peer = await self.peer.leader(topic.plan.name, partition)
            if peer is None:
                return False
            response = await peer.ask(request)
            self.peer.forget(topic.plan.name, partition)
            if response is None or response.error_code or not response.responses:
                return False
            part = response.responses[0].partitions[0]
            if part.error_code or part.records is None or not len(part.records):
                return False
            try:
                records, position = parse(part.records, position)
            except CorruptRecords as fault:
                self.workload.saw(Unreadable(self.workload.loop.now_us, "scanner", log, str(fault)))
                return True
            found += [record for record in records if record[0] < end]
        self.workload.saw(Scanned(self.workload.loop.now_us, log, start, end, tuple(found)))
        return True
