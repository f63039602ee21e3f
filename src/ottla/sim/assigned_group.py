"""Members of one KIP-848 group in a simulated world: checks their assignments, their commits, and that they converge.

In each epoch a partition is assigned to one member only, and to none while another member that the coordinator still
counts has not released it. Once the next member was told of it, commits of the one before are refused.
"""

from __future__ import annotations

from random import Random

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.sim.peer import Peer
from ottla.sim.setting import KnownTopic, Setting

GROUP = "assigned"
_REBALANCE_MS = 1500
_AGAIN_US = 40_000
_LEAVE_SHARE, _VANISH_SHARE, _COMMIT_SHARE = 0.03, 0.1, 0.7
Place = tuple[bytes, int]
_MOVED = "partition of a consumer group moved"
ASSIGNED_ACTS = (_MOVED,)
"""Events among the members in the middle of faults."""


class AssignedGroup:
    """The members, and the partitions that each was told; a broken promise fails the world."""

    def __init__(self, setting: Setting, members: int) -> None:
        self.setting = setting
        self.members = [AssignedMember(number, self) for number in range(members)]
        self.done = dict.fromkeys(ASSIGNED_ACTS, 0)
        """The number of acts by kind."""
        self.refused_commits = 0
        """Commits of members whose partition another member had been told of."""
        self._settled = False
        self._told: dict[tuple[Place, int], str] = {}
        self._newest: dict[Place, tuple[int, str]] = {}

    def topic(self) -> KnownTopic | None:
        return next((topic for topic in self.setting.topics() if topic.plan.name == "kept"), None)

    def was_told(self, member_id: str, epoch: int, places: set[Place]) -> None:
        """Note that a member was answered in an epoch, and may read these partitions in it."""
        for place in places:
            holder = self._told.setdefault((place, epoch), member_id)
            if holder != member_id:
                self.setting.failed(f"{member_id} and {holder} were told of one partition in epoch {epoch}")
            for other in self.members:
                # an answer of an earlier epoch has only come late: it takes nothing from a member of a later one
                if other.member_id != member_id and place in other.reading and epoch >= other.epoch:
                    other.taken.add(place)
            newest = self._newest.get(place)
            if newest is None or epoch > newest[0]:
                self.done[_MOVED] += newest is not None and newest[1] != member_id
                self._newest[place] = (epoch, member_id)

    def superseded(self, member_id: str, epoch: int, place: Place) -> bool:
        """True if another member was told of the partition in a later epoch than `epoch`."""
        newest = self._newest.get(place)
        return newest is not None and newest[0] > epoch and newest[1] != member_id

    def has_settled(self) -> bool:
        """True if, at some moment since the end began, all members were in one epoch and shared all partitions."""
        self._settled = self._settled or self._is_settled()
        return self._settled

    def _is_settled(self) -> bool:
        topic = self.topic()
        read = [place for member in self.members for place in member.owned]
        epochs = {member.epoch for member in self.members}
        return topic is not None and len(epochs) == 1 and len(read) == len(set(read)) == topic.plan.partitions


class AssignedMember:
    """One member: it sends heartbeats, commits, and sometimes leaves or falls silent."""

    def __init__(self, number: int, group: AssignedGroup) -> None:
        self.number = number
        self.group = group
        self.setting = group.setting
        self.random = Random(f"assigned-{number}-{group.setting.plan.seed}")
        self.peer = group.setting.peer(f"assigned-{number}")
        self.epoch = 0
        self.owned: set[Place] = set()
        self.reading: set[Place] = set()
        """The partitions that the member owns, and those that it has released but not reported as released yet."""
        self.taken: set[Place] = set()
        """Partitions that the member reads though another was told of them: the member must have been expelled."""
        self._said: set[Place] | None = None
        self._says_all = True
        self._lives = 0
        self._coordinator: Peer | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Restart as another process: with a new member id and without partitions."""
        self._lives += 1
        self.member_id = f"m{self.number}.{self._lives}"
        self._lose()

    def _lose(self) -> None:
        self.epoch, self.owned, self.reading, self.taken = 0, set(), set(), set()
        self._said, self._says_all = None, True

    async def run(self) -> None:
        while not (self.setting.ending and self.group.has_settled()):
            if self.random.random() < _COMMIT_SHARE:
                await self._commit()
            await self._beat()
            if not self.setting.ending:
                await self._come_and_go()
            await self.peer.sleep_us(self.random.randint(20_000, 150_000))

    async def _come_and_go(self) -> None:
        if self.random.random() < _LEAVE_SHARE and self.epoch > 0 and self._coordinator is not None:
            await self._coordinator.ask(self._request(epoch=-1))
            self._begin_anew()
        elif self.random.random() < _VANISH_SHARE:
            await self.peer.sleep_us(self.random.randint(500_000, 3_000_000))
            if self.random.random() < 0.5:
                self._begin_anew()

    async def _find(self) -> bool:
        response = await self.peer.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]))
        if response is None or response.coordinators[0].error_code:
            return False
        node = BrokerId(response.coordinators[0].node_id)
        self._coordinator = self.peer.some if self.peer.alone else self.peer.by_broker.get(node)
        return self._coordinator is not None

    # Heartbeats

    def _request(self, *, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat: with every field after a join or a lost answer, else with owned partitions if they changed."""
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=epoch)
        if self._says_all:
            request.rebalance_timeout_ms, request.subscribed_topic_names = _REBALANCE_MS, ["kept"]
        if self._says_all or self.owned != self._said:
            owned: dict[bytes, list[int]] = {}
            for topic_id, index in sorted(self.owned):
                owned.setdefault(topic_id, []).append(index)
            request.topic_partitions = [
                OwnedTopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in owned.items()
            ]
        return request

    async def _beat(self) -> None:
        if self._coordinator is None and not await self._find():
            await self.peer.sleep_us(_AGAIN_US)
            return
        assert self._coordinator is not None
        saying, taken, epoch = set(self.owned), set(self.taken), self.epoch
        request = self._request(epoch=epoch)
        if request.topic_partitions is not None:
            self.reading = set(self.owned)
            self.taken &= self.owned
        answer = await self._coordinator.ask(request)
        if answer is None:
            self._coordinator, self._says_all = None, True
        elif answer.error_code in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            self._lose()
        elif answer.error_code:
            self._coordinator, self._says_all = None, True
        else:
            if taken and epoch > 0:
                self.setting.failed(f"{self.member_id} still holds a partition that another was told of")
            self._take(answer, saying)

    def _take(self, answer: ConsumerGroupHeartbeatResponse, sent: set[Place]) -> None:
        self._said, self._says_all, self.epoch = sent, False, answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                (bytes(each.topic_id), index)
                for each in answer.assignment.topic_partitions
                for index in each.partitions
            }
        self.reading |= self.owned
        self.group.was_told(self.member_id, self.epoch, self.owned)

    # Commits

    async def _commit(self) -> None:
        """Commit for a partition that the member believes to own; it may have been expelled meanwhile."""
        if not self.owned or self._coordinator is None:
            return
        topic_id, index = self.random.choice(sorted(self.owned))
        superseded = self.group.superseded(self.member_id, self.epoch, (topic_id, index))
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=self.random.randrange(1000))
        asked = OffsetCommitRequestTopic(name="kept", topic_id=topic_id, partitions=[partition])
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=self.epoch, member_id=self.member_id, topics=[asked]
        )
        epoch = self.epoch
        answer = await self._coordinator.ask(request)
        if answer is None or not superseded:
            return
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.setting.failed(f"a commit of {self.member_id} in epoch {epoch} was taken for another's partition")
        else:
            self.group.refused_commits += 1
