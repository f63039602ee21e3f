"""Memberships of a transforming client in its group: a classic one, and one of the consumer protocol (KIP-848).

Each is asked for a heartbeat between two transactions only, so that no partition is given up in the middle of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, OwnedTopicPartitions
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.sim.plan import CLASSIC, CONSUMER

if TYPE_CHECKING:
    from ottla.sim.peer import Peer
    from ottla.sim.setting import KnownTopic, Setting

PATIENCE_MS = 1500
"""The session timeout of a classic member, and the rebalance timeout of both kinds."""
_NONE = -1
_EXPELLED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class Membership(NamedTuple):
    """The group metadata that a producer sends with the offsets of a transaction."""

    member_id: str
    generation: int
    """The generation of a classic group, or the member epoch."""


NO_MEMBER = Membership("", _NONE)


class Seat:
    """One process in its group. `owned` are the partitions of the source that it may consume."""

    def __init__(self, name: str, group: str, source: KnownTopic, setting: Setting) -> None:
        self.owned: set[int] = set()
        self._name = name
        self._group = group
        self._source = source
        self._peer = setting.peer(f"{name} in its group")
        self._coordinator: Peer | None = None
        self._member_id = ""
        self._generation = _NONE

    @property
    def membership(self) -> Membership:
        return Membership(self._member_id, self._generation)

    async def keep(self) -> bool:
        """Join, or send a heartbeat; True if the client is a member, as far as it knows."""
        raise NotImplementedError

    async def _ask(self, request: Any) -> Any:
        """Ask the group's coordinator; return the answer, or None without one."""
        if self._coordinator is None:
            self._coordinator = await self._find()
        answer = None if self._coordinator is None else await self._coordinator.ask(request)
        if answer is None or answer.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinator = None
        return answer

    async def _find(self) -> Peer | None:
        if self._peer.alone:
            return self._peer.some
        response = await self._peer.ask(FindCoordinatorRequest(coordinator_keys=[self._group]))
        if response is None or response.coordinators[0].error_code:
            return None
        return self._peer.by_broker.get(BrokerId(response.coordinators[0].node_id))


class ClassicSeat(Seat):
    """A member of a classic group; whichever member leads the group shares out the partitions in turn."""

    async def keep(self) -> bool:
        if self._generation == _NONE:
            return await self._join()
        beat = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        answer = await self._ask(beat)
        if answer is None:
            return False
        self._hear(ErrorCode(answer.error_code))
        return not answer.error_code

    def _hear(self, error: ErrorCode) -> None:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.REBALANCE_IN_PROGRESS,
        ):
            self._generation, self.owned = _NONE, set()

    async def _join(self) -> bool:
        joined = await self._ask(
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=PATIENCE_MS,
                rebalance_timeout_ms=PATIENCE_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=self._name.encode())],
            )
        )
        if joined is None:
            return False
        if joined.error_code:
            self._hear(ErrorCode(joined.error_code))
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
            return False
        self._member_id = joined.member_id
        members = sorted(member.member_id for member in joined.members)
        shares = self._shared_out(members) if joined.leader == joined.member_id else []
        synced = await self._ask(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=joined.generation_id,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=shares,
            )
        )
        if synced is None or synced.error_code:
            return False
        self._generation = joined.generation_id
        self.owned = {int(index) for index in bytes(synced.assignment).decode().split()}
        return True

    def _shared_out(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        indexes: dict[str, list[str]] = {member: [] for member in members}
        for index in range(self._source.plan.partitions):
            indexes[members[index % len(members)]].append(str(index))
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=" ".join(of_it).encode())
            for member, of_it in indexes.items()
        ]


class ConsumerSeat(Seat):
    """A member of the consumer protocol; the coordinator assigns the partitions."""

    def __init__(self, name: str, group: str, source: KnownTopic, setting: Setting) -> None:
        super().__init__(name, group, source, setting)
        self._member_id = name
        self._begin()

    def _begin(self) -> None:
        self._generation, self.owned = 0, set()
        self._said: set[int] | None = None

    async def keep(self) -> bool:
        saying = set(self.owned)
        answer = await self._ask(self._request(saying))
        if answer is None or answer.error_code:
            self._said = None  # the next heartbeat has every field
            if answer is not None and answer.error_code in _EXPELLED:
                self._begin()
            return False
        self._said, self._generation = saying, answer.member_epoch
        if answer.assignment is not None:
            assigned = {bytes(each.topic_id): each.partitions for each in answer.assignment.topic_partitions}
            self.owned = set(assigned.get(self._source.topic_id, ()))
        return True

    def _request(self, saying: set[int]) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member_id, member_epoch=self._generation
        )
        if self._said is None:
            request.rebalance_timeout_ms = PATIENCE_MS
            request.subscribed_topic_names = [self._source.plan.name]
        if saying != self._said:
            owned = OwnedTopicPartitions(topic_id=self._source.topic_id, partitions=sorted(saying))
            request.topic_partitions = [owned] if saying else []
        return request


SEATS: dict[str, type[Seat]] = {CLASSIC: ClassicSeat, CONSUMER: ConsumerSeat}
