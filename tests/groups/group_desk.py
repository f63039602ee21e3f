"""A shard of groups without a broker, and the requests of its clients."""

from __future__ import annotations

import struct
from itertools import count
from typing import Any

from tests.shard_desk import ShardDesk

from ottla.groups.entries import decode_entry, encode_entry
from ottla.groups.shard import GroupShard
from ottla.groups.values import Caller, GroupSettings
from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import Slot
from ottla.messages.delete_groups import DeletableGroupResult
from ottla.messages.describe_groups import DescribedGroup
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.messages.list_groups import ListedGroup, ListGroupsRequest
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseGroup
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_MS = 10_000
REBALANCE_MS = 60_000
TOPIC_ID = bytes(range(16))
NEWEST_JOIN = 9


def subscription(*topics: str, version: int = 0) -> bytes:
    """A consumer's metadata: version, topics, no user data."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1)


def offers(*names: str, metadata: bytes = b"") -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=metadata or subscription("t")) for name in names]


class Desk(ShardDesk):
    """Plays the broker to a shard of groups."""

    encode, decode = staticmethod(encode_entry), staticmethod(decode_entry)
    shard: GroupShard

    def __init__(self, **settings: int) -> None:
        settings.setdefault("initial_rebalance_delay_ms", 0)
        self.settings = GroupSettings(**settings)
        self._suffixes = count(1)
        super().__init__()

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.settings, lambda: f"uuid{next(self._suffixes)}")

    # Requests. Each returns its slot; `.result()` is the answer once it is there.

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: list[JoinGroupRequestProtocol] | None = None,
        protocol_type: str = "consumer",
        version: int = NEWEST_JOIN,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "c",
    ) -> Slot[JoinGroupResponse]:
        slot = self.ticket()
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=offers("range") if protocols is None else protocols,
        )
        self.carry_out(self.shard.join_group(request, Caller(client, "/h", version), slot, self.now))
        return slot

    def join_by_id(self, **options: Any) -> tuple[str, Slot[JoinGroupResponse]]:
        """Join in two steps, as clients since KIP-394 do."""
        required = self.join(**options).result()
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return required.member_id, self.join(required.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Slot[SyncGroupResponse]:
        slot = self.ticket()
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )
        self.carry_out(self.shard.sync_group(request, Caller("c", "/h", 5), slot, self.now))
        return slot

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> ErrorCode:
        slot = self.ticket()
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        self.carry_out(self.shard.heartbeat(request, slot, self.now))
        return ErrorCode(slot.result().error_code)

    def leave(self, *members: str | MemberIdentity, group: str = "g") -> LeaveGroupResponse:
        slot = self.ticket()
        identities = [MemberIdentity(member_id=each) if isinstance(each, str) else each for each in members]
        request = LeaveGroupRequest(group_id=group, members=identities)
        self.carry_out(self.shard.leave_group(request, Caller("c", "/h", 5), slot, self.now))
        return slot.result()  # type: ignore[no-any-return]

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = None,
        leader_epoch: int = -1,
        retention_ms: int = -1,
        version: int = 10,
    ) -> OffsetCommitResponse | ErrorCode:
        slot = self.ticket()
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, index), offset in offsets.items():
            asked = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic, topic_id=TOPIC_ID))
            asked.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=list(topics.values()),
        )
        self.carry_out(self.shard.commit_offsets(request, Caller("c", "/h", version), slot, self.now))
        return slot.result()  # type: ignore[no-any-return]

    def fetch(
        self,
        topics: dict[str, list[int]] | None = None,
        *,
        group: str = "g",
        topic_id: bytes = bytes(16),
        require_stable: bool = False,
    ) -> OffsetFetchResponseGroup:
        slot = self.ticket()
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        if topics is not None:
            asked.topics = [
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        self.carry_out(self.shard.fetch_offsets(asked, require_stable=require_stable, ticket=slot))
        return slot.result()  # type: ignore[no-any-return]

    def committed(self, group: str = "g") -> dict[tuple[str, int], int]:
        """All offsets of a group, by OffsetFetch."""
        answer = self.fetch(group=group)
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }

    def delete_offsets(self, topic: str, indexes: list[int], *, group: str = "g") -> Any:
        slot = self.ticket()
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        request = OffsetDeleteRequest(
            group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        )
        self.carry_out(self.shard.delete_offsets(request, slot))
        return slot.result()

    def delete(self, group: str = "g") -> ErrorCode:
        slot: Slot[DeletableGroupResult] = self.ticket()
        self.carry_out(self.shard.delete_group(group, slot))
        return ErrorCode(slot.result().error_code)

    def describe(self, group: str = "g", version: int = 6) -> DescribedGroup:
        slot = self.ticket()
        self.carry_out(self.shard.describe_group(group, Caller("c", "/h", version), slot))
        return slot.result()  # type: ignore[no-any-return]

    def list(self, states: list[str] | None = None, types: list[str] | None = None) -> list[ListedGroup]:
        slot = self.ticket()
        self.carry_out(
            self.shard.list_groups(ListGroupsRequest(states_filter=states or [], types_filter=types or []), slot)
        )
        return slot.result()  # type: ignore[no-any-return]

    # Whole scenes

    def stable(self, *clients: str, group: str = "g", **options: Any) -> tuple[int, list[str]]:
        """A stable group whose first member leads; return its generation and the members' ids."""
        joins = [self.join_by_id(group=group, client=client, **options) for client in clients]
        self.pass_ms(0)
        ids = [member_id for member_id, _ in joins]
        answers = [slot.result() for _, slot in joins]
        generation = answers[0].generation_id
        waiting = [self.sync(member_id, generation, group=group) for member_id in ids[1:]]
        given = {member_id: member_id.encode() for member_id in ids}
        waiting.append(self.sync(ids[0], generation, given, group=group))
        assert all(not slot.result().error_code for slot in waiting)
        return generation, ids

    def state(self, group: str = "g") -> str:
        return self.describe(group).group_state
