"""Members of one consumer group in the simulated workload, who make each other join again and again.

Each commits in the generation that it knows, and now and then once more in an earlier one, like a late request: no
commit counts once a newer generation has begun (checkers/generations.py).
"""

from __future__ import annotations

from random import Random

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.sim.checkers.history import CommittedIn, Generation
from ottla.sim.peer import Peer
from ottla.sim.setting import Setting, lasting_topics

GROUP = "shared"
_BY_NAME = 9
_NONE = -1
_TIMEOUT_MS = 2000
_AGAIN_US = 40_000
_EVERY_US = (10_000, 120_000)
_JOIN_AGAIN_SHARE = 0.1
_COMMIT_SHARE = 0.6
_LATE_SHARE = 0.3


class SharedMember:
    """One member."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.name = name
        self.setting = setting
        self.random = Random(f"{name}-{setting.plan.seed}")
        self.peer = setting.peer(name)
        self._member = ""
        self._generation = _NONE
        self._earlier = _NONE
        """The earlier generation that we were a member of under the same id."""
        self._coordinator: Peer | None = None
        self._joins = 0
        self._commits = 0

    async def run(self) -> None:
        while not self.setting.ending:
            if self._generation == _NONE and not await self._join():
                await self.peer.sleep_us(_AGAIN_US)
                continue
            await self._act()
            await self.peer.sleep_us(self.random.randint(*_EVERY_US))
        self.peer.close()

    async def _act(self) -> None:
        if self.random.random() < _JOIN_AGAIN_SHARE:
            self._earlier, self._generation = self._generation, _NONE
        elif self._earlier != _NONE and self.random.random() < _LATE_SHARE:
            await self._commit(self._earlier)
        elif self.random.random() < _COMMIT_SHARE:
            self._take(await self._commit(self._generation))
        else:
            await self._beat()

    def _take(self, error: int | None) -> None:
        """Take an answer's error: there may be another generation, or we may not be a member any more."""
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member, self._earlier, self._generation = "", _NONE, _NONE
        elif error is None or error == ErrorCode.NOT_COORDINATOR:
            self._coordinator = None
            self._earlier, self._generation = self._generation, _NONE
        elif error:
            self._earlier, self._generation = self._generation, _NONE

    async def _find(self) -> Peer | None:
        if self.peer.alone:
            return self.peer.some
        response = await self.peer.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]))
        if response is None or response.coordinators[0].error_code:
            return None
        return self.peer.by_broker.get(BrokerId(response.coordinators[0].node_id))

    async def _join(self) -> bool:
        if self._coordinator is None:
            self._coordinator = await self._find()
        coordinator = self._coordinator
        if coordinator is None:
            return False
        self._joins += 1
        protocol = JoinGroupRequestProtocol(name="range", metadata=f"{self.name} {self._joins}".encode())
        joined = await coordinator.ask(
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=_TIMEOUT_MS,
                rebalance_timeout_ms=_TIMEOUT_MS,
                member_id=self._member,
                protocol_type="consumer",
                protocols=[protocol],
            )
        )
        if joined is None or joined.error_code:
            if joined is not None and joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member = joined.member_id
            else:
                self._take(None if joined is None else joined.error_code)
            return False
        self._member = joined.member_id
        others = [member.member_id for member in joined.members] if joined.leader == joined.member_id else []
        return await self._sync(coordinator, joined.generation_id, others)

    async def _sync(self, coordinator: Peer, generation: int, led: list[str]) -> bool:
        synced = await coordinator.ask(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=generation,
                member_id=self._member,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"all") for member in led],
            )
        )
        if synced is None or synced.error_code:
            return False
        self._generation = generation
        self.setting.saw(Generation(self.setting.loop.now_us, GROUP, generation))
        return True

    async def _commit(self, generation: int) -> int | None:
        """Send a request; return the error of the answer, or None without an answer."""
        topics = lasting_topics(self.setting)
        if self._coordinator is None or not topics:
            return None
        self._commits += 1
        asked_us = self.setting.loop.now_us
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._commits)
        response = await self._coordinator.ask(
            OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=generation,
                member_id=self._member,
                topics=[OffsetCommitRequestTopic(name=topics[0].plan.name, partitions=[place])],
            ),
            most=_BY_NAME,
        )
        if response is None:
            return None
        error: int = response.topics[0].partitions[0].error_code
        if error == ErrorCode.NONE:
            self.setting.saw(CommittedIn(asked_us, self.setting.loop.now_us, GROUP, generation))
        return error

    async def _beat(self) -> None:
        assert self._coordinator is not None
        response = await self._coordinator.ask(
            HeartbeatRequest(group_id=GROUP, generation_id=self._generation, member_id=self._member)
        )
        self._take(None if response is None else response.error_code)
