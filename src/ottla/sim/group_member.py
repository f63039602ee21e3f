"""A member of a consumer group in the simulated workload: joins, reads, commits, and looks at what it committed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ottla.client.consume.fetch_session import SessionRequest, WantedPartition
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.records.faults import CorruptRecords
from ottla.sim.checkers.history import CommitAsked, CommitDone, CommitSeen, LogKey
from ottla.sim.readers import fetch_request, offset_of, parse
from ottla.sim.setting import KnownTopic, Setting, lasting_topics

if TYPE_CHECKING:
    from ottla.sim.peer import Peer

_AGAIN_US = 40_000
_BY_NAME = 9
_EARLIEST = -2
_JOIN_AGAIN = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class GroupMember:
    """The only member of its group; its commits follow its reads."""

    def __init__(self, group: str, workload: Setting) -> None:
        self.group = group
        self.workload = workload
        self.random = Random(f"{group}-{workload.plan.seed}")
        self.peer = workload.peer(f"member-{group}")
        self._member = ""
        self._generation = -1
        self._coordinator: Peer | None = None
        self._positions: dict[LogKey, int] = {}

    async def run(self) -> None:
        while not self.workload.ending:
            if self._generation < 0 and not (await self._join() and await self._look_up()):
                self._generation = -1
                await self.peer.sleep_us(_AGAIN_US)
                continue
            await self._read()
            if self.random.random() < 0.6:
                await self._commit()
            if self.random.random() < 0.2:
                await self._beat()
            await self.peer.sleep_us(self.random.randint(*self.workload.plan.pause_us))
        while not await self._look_up():
            await self.peer.sleep_us(_AGAIN_US)

    def _topics(self) -> list[KnownTopic]:
        return lasting_topics(self.workload)

    async def _find(self) -> bool:
        """Find the group's coordinator."""
        response = await self.peer.ask(FindCoordinatorRequest(coordinator_keys=[self.group]))
        if response is None:
            return False
        if self.peer.alone:
            self._coordinator = self.peer.some
        else:
            found = response.coordinators[0]
            self._coordinator = None if found.error_code else self.peer.by_broker.get(BrokerId(found.node_id))
        return self._coordinator is not None

    async def _join(self) -> bool:
        if not await self._find():
            return False
        assert self._coordinator is not None
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0")]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=2000,
            rebalance_timeout_ms=2000,
            member_id=self._member,
            protocol_type="consumer",
            protocols=protocols,
        )
        joined = await self._coordinator.ask(request)
        if joined is None:
            return False
        if joined.error_code:
            wanted = joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self._member = joined.member_id if wanted else ""
            return False
        self._member, generation = joined.member_id, joined.generation_id
        assignments = []
        if joined.leader == joined.member_id:
            assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all") for member in joined.members
            ]
        synced = await self._coordinator.ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=self._member,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            )
        )
        if synced is None or synced.error_code:
            return False
        if synced.assignment != b"all":
            return False  # a former member still leads the group
        self._generation = generation
        return True

    async def _look_up(self) -> bool:
        asked_us = self.workload.loop.now_us
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=None)])
        if self._coordinator is None and not self.peer.alone:
            await self._find()
        peer = self.peer.some if self._coordinator is None else self._coordinator
        response = await peer.ask(request, most=_BY_NAME)
        if response is None or response.groups[0].error_code:
            self._coordinator = None
            return False
        found = {
            (topic.name, part.partition_index): part.committed_offset
            for topic in response.groups[0].topics
            for part in topic.partitions
        }
        now_us = self.workload.loop.now_us
        for topic in self._topics():
            for partition in range(topic.plan.partitions):
                log = LogKey(topic.topic_id.hex(), partition)
                offset = found.get((topic.plan.name, partition), -1)
                self.workload.saw(CommitSeen(asked_us, now_us, self.group, log, offset))
                self._positions[log] = max(offset, 0)
        return True

    async def _read(self) -> None:
        topics = self._topics()
        if not topics:
            return
        topic = self.random.choice(topics)
        partition = self.random.randrange(topic.plan.partitions)
        log = LogKey(topic.topic_id.hex(), partition)
        position = self._positions.get(log, 0)
        want = {TopicPartition(topic.plan.name, partition): WantedPartition(topic.topic_id, position, -1, 2000)}
        request = fetch_request(SessionRequest(0, -1, want, {}), max_wait_ms=100, max_bytes=1 << 20)
        peer = await self.peer.leader(topic.plan.name, partition)
        if peer is None:
            return
        response = await peer.ask(request)
        if response is None:
            self.peer.forget(topic.plan.name, partition)
        if response is None or response.error_code or not response.responses:
            return
        part = response.responses[0].partitions[0]
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._positions[log] = await offset_of(self.peer, topic, partition, _EARLIEST) or position
        elif part.error_code == 0 and part.records is not None:
            try:
                _, self._positions[log] = parse(part.records, position)
            except CorruptRecords as fault:
                self.workload.unreadable("member", log, position, str(fault))
        else:
            self.peer.forget(topic.plan.name, partition)

    async def _commit(self) -> None:
        topics = []
        asked = []
        for topic in self._topics():
            partitions = []
            for partition in range(topic.plan.partitions):
                log = LogKey(topic.topic_id.hex(), partition)
                offset = self._positions.get(log, 0)
                asked.append((topic.plan.name, partition, log, offset))
                partitions.append(OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset))
            topics.append(OffsetCommitRequestTopic(name=topic.plan.name, partitions=partitions))
        for _, _, log, offset in asked:
            self.workload.saw(CommitAsked(self.workload.loop.now_us, self.group, log, offset))
        assert self._coordinator is not None
        response = await self._coordinator.ask(
            OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=self._generation,
                member_id=self._member,
                topics=topics,
            ),
            most=_BY_NAME,
        )
        if response is None:
            if not self.peer.alone:
                self._generation = -1  # another broker may coordinate the group by now
            return
        errors = {
            (topic.name, part.partition_index): part.error_code
            for topic in response.topics
            for part in topic.partitions
        }
        for name, partition, log, offset in asked:
            error = errors.get((name, partition), -1)
            if error == 0:
                self.workload.saw(CommitDone(self.workload.loop.now_us, self.group, log, offset))
            elif error in _JOIN_AGAIN:
                self._generation = -1

    async def _beat(self) -> None:
        assert self._coordinator is not None
        response = await self._coordinator.ask(
            HeartbeatRequest(group_id=self.group, generation_id=self._generation, member_id=self._member)
        )
        if response is not None and response.error_code in _JOIN_AGAIN:
            self._generation = -1
