"""The committed offsets of one shard's groups: commit, fetch, delete, expire.

Comes from shard.py. Offsets change only in `apply`, so that a replay makes the same state as the decisions did.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.groups.entries import offset_entry
from ottla.groups.group import Group, GroupState
from ottla.groups.kinds import AnyGroup
from ottla.groups.values import Caller, GroupDecision, GroupSettings, Moment
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1
NO_PRODUCER = -1
_INT64_MAX = 2**63 - 1


class GroupOffset(NamedTuple):
    """The committed position of a group in one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """-1, except for old commits that brought a retention time."""
    topic_id: bytes
    record_offset: int
    """The offset of the entry's record; by it a commit in a transaction and a later plain one are told apart."""


Committed = dict[str, dict[int, GroupOffset]]
"""The offsets by topic and partition."""


class Offsets:
    """All offsets of a shard: committed ones, and those of transactions that have not ended."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._groups: dict[str, Committed] = {}
        self._pending: dict[int, dict[tuple[str, str, int], GroupOffset]] = {}
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}

    def of(self, group_id: str) -> Committed:
        return self._groups.get(group_id, {})

    def everything(self) -> Iterator[tuple[str, str, int, int]]:
        """(group, topic, partition, offset) of all that is committed, in that order."""
        for group_id, topics in sorted(self._groups.items()):
            for topic, partitions in sorted(topics.items()):
                for index, committed in sorted(partitions.items()):
                    yield group_id, topic, index, committed.offset

    def pending(self) -> Iterator[tuple[int, str, str, int, GroupOffset]]:
        """(producer id, group, topic, partition, offset) of each offset whose transaction has not ended."""
        for producer, places in self._pending.items():
            for (group_id, topic, index), committed in places.items():
                yield producer, group_id, topic, index, committed

    def holds(self, group_id: str) -> bool:
        """True if anything of a group is here, open transactions included."""
        return group_id in self._groups or group_id in self._open

    # Deciding

    def commit(self, request: OffsetCommitRequest, now: Moment, out: GroupDecision) -> OffsetCommitResponse:
        response = OffsetCommitResponse()
        keep_ms = request.retention_time_ms
        expire_ms = -1 if keep_ms == -1 else min(now.wall_ms + keep_ms, _INT64_MAX)
        for topic in request.topics:
            answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answered)
            for partition in topic.partitions:
                error = ErrorCode.NONE
                if self.too_long(partition.committed_metadata):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    value = _value(partition, topic.topic_id, now.wall_ms, expire_ms)
                    out.write(offset_entry(request.group_id, topic.name, partition.partition_index, value))
                answered.partitions.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                )
        return response

    def too_long(self, metadata: str | None) -> bool:
        """True if the metadata of a commit is above `offset.metadata.max.bytes`. Java counts UTF-16 units."""
        limit = self._settings.offset_metadata_max_bytes
        if metadata is None or len(metadata) * 2 <= limit:
            return False
        return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """The requested offsets; all there are if `topics` is null. Unknown ones are -1, without an error."""
        held = self.of(request.group_id)
        unstable = self._open.get(request.group_id, {}) if require_stable else {}
        response = OffsetFetchResponseGroup(group_id=request.group_id)
        if request.topics is None:
            asked = [(name, bytes(NO_TOPIC_ID), list(partitions)) for name, partitions in held.items()]
        else:
            asked = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
        for name, topic_id, partitions in asked:
            of_topic = held.get(name, {})
            answered = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
            for index in partitions:
                known = of_topic.get(index)
                if (name, index) in unstable:
                    answered.partitions.append(_no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                elif known is None or _other_topic(known.topic_id, topic_id):
                    answered.partitions.append(_no_offset(index, ErrorCode.NONE))
                else:
                    answered.partitions.append(
                        OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=known.offset,
                            committed_leader_epoch=known.leader_epoch,
                            metadata=known.metadata,
                        )
                    )
            response.topics.append(answered)
        return response

    def delete(self, group: AnyGroup, request: OffsetDeleteRequest, out: GroupDecision) -> OffsetDeleteResponse:
        """Forget offsets of topics that no member reads."""
        response = OffsetDeleteResponse()
        unstable = self._open.get(group.group_id, {})
        for topic in request.topics:
            subscribed = group.is_subscribed(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            held = self.of(group.group_id).get(topic.name, {})
            answered = OffsetDeleteResponseTopic(name=topic.name)
            for partition in topic.partitions:
                index = partition.partition_index
                answered.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
                if not subscribed and (index in held or (topic.name, index) in unstable):
                    out.write(offset_entry(group.group_id, topic.name, index, None))
            response.topics.append(answered)
        return response

    def delete_all(self, group_id: str, out: GroupDecision) -> None:
        places = {(topic, index): None for topic, held in self.of(group_id).items() for index in held}
        places |= dict.fromkeys(self._open.get(group_id, {}))
        for topic, index in places:
            out.write(offset_entry(group_id, topic, index, None))

    def delete_topics(self, topics: dict[str, bytes], out: GroupDecision) -> None:
        """Drop the offsets of deleted topics, by name and id: an offset committed for another topic of that name stays.

        A tombstone also removes the pending offsets of open transactions for its place.
        """
        gone: dict[tuple[str, str, int], None] = {}
        for group_id, held_topics in self._groups.items():
            for topic, topic_id in topics.items():
                for index, held in held_topics.get(topic, {}).items():
                    if held.topic_id in (NO_TOPIC_ID, topic_id):
                        gone[group_id, topic, index] = None
        for pending in self._pending.values():
            for place, held in pending.items():
                if place[1] in topics and held.topic_id in (NO_TOPIC_ID, topics[place[1]]):
                    gone[place] = None
        for place in gone:
            out.write(offset_entry(*place, None))

    def expire(self, group: AnyGroup, now: Moment, out: GroupDecision) -> bool:
        """Forget offsets past their retention; True if nothing of the group is left after that."""
        group_id = group.group_id
        if group_id not in self._groups:
            return group_id not in self._open
        if not group.offsets_may_expire():
            return False
        nothing_left = group_id not in self._open
        for topic, partitions in self._groups[group_id].items():
            subscribed = group.is_subscribed(topic)
            for index, held in partitions.items():
                pending = (topic, index) in self._open.get(group_id, {})
                if not subscribed and not pending and self._expired(group, held, now):
                    out.write(offset_entry(group_id, topic, index, None))
                else:
                    nothing_left = False
        return nothing_left

    def _expired(self, group: AnyGroup, held: GroupOffset, now: Moment) -> bool:
        if held.expire_timestamp_ms != -1:
            keep_ms = held.expire_timestamp_ms - held.commit_timestamp_ms
            return now.time_for(keep_ms) >= held.expire_timestamp_ms
        since_ms = group.offsets_idle_since_ms(held.commit_timestamp_ms)
        keep_ms = self._settings.offsets_retention_ms
        return now.time_for(keep_ms) - since_ms >= keep_ms

    # Applying

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int, producer: int) -> None:
        place = (key.group, key.topic, key.partition)
        if value is None:
            self._remove(*place)
            for pending in self._open.get(key.group, {}).pop((key.topic, key.partition), set()):
                self._pending[pending].pop(place, None)
            if not self._open.get(key.group, True):
                del self._open[key.group]
            return
        committed = GroupOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
        if producer == NO_PRODUCER:
            self._put(place, committed)
        else:
            self._pending.setdefault(producer, {})[place] = committed
            self._open.setdefault(key.group, {}).setdefault((key.topic, key.partition), set()).add(producer)

    def apply_marker(self, producer: int, *, committed: bool) -> None:
        """End a transaction: its offsets count unless a later commit has passed them, or are dropped."""
        for place, pending in self._pending.pop(producer, {}).items():
            group_id, topic, index = place
            open_here = self._open[group_id]
            open_here[topic, index].discard(producer)
            if not open_here[topic, index]:
                del open_here[topic, index]
            if not open_here:
                del self._open[group_id]
            if committed:
                standing = self.of(group_id).get(topic, {}).get(index)
                if standing is None or pending.record_offset > standing.record_offset:
                    self._put(place, pending)

    def _put(self, place: tuple[str, str, int], committed: GroupOffset) -> None:
        group_id, topic, index = place
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[index] = committed

    def _remove(self, group_id: str, topic: str, index: int) -> None:
        topics = self._groups.get(group_id)
        partitions = topics.get(topic) if topics else None
        if topics is None or partitions is None:
            return
        partitions.pop(index, None)
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]


def _other_topic(committed_for: bytes, asked_for: bytes) -> bool:
    """True if two topics of one name are known to be different ones."""
    return NO_TOPIC_ID not in (committed_for, asked_for) and committed_for != asked_for


def commit_error(group: Group, request: OffsetCommitRequest) -> ErrorCode:
    """The error of a commit. A group takes it from a member in its generation, or from any client while it is empty."""
    generation = request.generation_id_or_member_epoch
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation >= 0 or request.member_id or request.group_instance_id is not None:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif group.state is not GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def unknown_group_error(request: OffsetCommitRequest, caller: Caller) -> ErrorCode:
    """The error of a commit to an unknown group; NONE for a consumer without a generation, which makes the group so."""
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if caller.version >= 9 else ErrorCode.ILLEGAL_GENERATION


def _value(partition: OffsetCommitRequestPartition, topic_id: bytes, wall_ms: int, expire_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=max(partition.committed_leader_epoch, -1),
        metadata=partition.committed_metadata or "",
        commit_timestamp=wall_ms,
        expire_timestamp=expire_ms,
        topic_id=topic_id,
    )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
    )
