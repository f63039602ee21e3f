"""OffsetFetch (key 9, versions 1 to 10): the committed offsets of groups.

Several groups from version 8 on (KIP-709), topics by id from version 10 on. If stable offsets are required, those that
an open transaction may change are refused (KIP-447).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.waiting import A_TURN, next_turn
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_GROUP_ERROR_SINCE = 2
_BATCHED_SINCE = 8
_TOPIC_IDS_SINCE = 10
_NO_OFFSET = -1
_TOPICS_A_TURN = 1000


async def handle(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if call.api_version >= _BATCHED_SINCE:
        response = OffsetFetchResponse()
        for number, asked in enumerate(_without_repeats(request.groups), 1):
            if number % A_TURN == 0:
                await next_turn(call.node.clock)
            response.groups.append(await _of_group(call, asked, require_stable=request.require_stable))
        return response
    topics = request.topics
    if topics is not None:
        topics = [*topics]
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics],
    )
    answer = await _of_group(call, group, require_stable=request.require_stable)
    return OffsetFetchResponse(error_code=answer.error_code, topics=[_unbatched(topic) for topic in answer.topics])


def _without_repeats(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Leave out all but the first request for everything of a group: each answer may be far larger than a request."""
    whole: set[str] = set()
    kept = []
    for group in groups:
        if group.topics is None:
            if group.group_id in whole:
                continue
            whole.add(group.group_id)
        kept.append(group)
    return kept


async def _of_group(call: Call, group: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
    if not call.may(Operation.DESCRIBE, ResourceKind.GROUP, group.group_id):
        return _refused(call, group, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    unknown = _name_topics(call, group) if call.api_version >= _TOPIC_IDS_SINCE else []
    unknown += _without_rights(call, group)
    answer = await _ask(call, group, require_stable=require_stable)
    if isinstance(answer, ErrorCode):
        refused = _refused(call, group, answer)
        refused.topics += unknown if call.api_version < _GROUP_ERROR_SINCE else []
        return refused
    if group.topics is None:
        answer.topics = [
            topic for topic in answer.topics if call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name, told=False)
        ]
    if call.api_version >= _TOPIC_IDS_SINCE and group.topics is None:
        _find_ids(call, answer)
    answer.topics += unknown
    return answer


async def _ask(
    call: Call, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup | ErrorCode:
    """The group's offsets; very many topics are read over several turns of the loop."""
    topics = group.topics
    starts = range(0, len(topics) if topics else 1, _TOPICS_A_TURN)
    parts = [topics and topics[start : start + _TOPICS_A_TURN] for start in starts]
    whole: OffsetFetchResponseGroup | None = None
    for part in parts:
        if whole is not None:
            await next_turn(call.node.clock)
        group.topics = part
        answer: OffsetFetchResponseGroup | ErrorCode = await call.node.groups.ask(
            group.group_id,
            lambda shard, ticket, _: shard.fetch_offsets(group, require_stable=require_stable, ticket=ticket),
        )
        if isinstance(answer, ErrorCode):
            return answer
        if whole is None:
            whole = answer
        else:
            whole.topics += answer.topics
    group.topics = topics
    assert whole is not None
    return whole


def _name_topics(call: Call, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Fill in the names of topics requested by id; return the answers for missing ones."""
    if group.topics is None:
        return []
    unknown = []
    for topic in group.topics:
        known = call.node.metadata.topic_by_id(topic.topic_id)
        if known is None:
            unknown.append(_failed(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = known.name
    group.topics = [topic for topic in group.topics if topic.name]
    return unknown


def _without_rights(call: Call, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Take out the named topics that the caller may not see; return their answers."""
    if group.topics is None or call.node.rights is None:
        return []
    kept: list[OffsetFetchRequestTopics] = []
    denied: list[OffsetFetchRequestTopics] = []
    for topic in group.topics:
        (kept if call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name) else denied).append(topic)
    group.topics = kept
    return [_failed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]


def _find_ids(call: Call, answer: OffsetFetchResponseGroup) -> None:
    """Fill in the ids of topics found by name; a deleted topic has none and is left out."""
    for topic in answer.topics:
        known = call.node.metadata.topic(topic.name)
        topic.topic_id = NO_TOPIC_ID if known is None else known.topic_id
    answer.topics = [topic for topic in answer.topics if topic.topic_id != NO_TOPIC_ID]


def _refused(call: Call, group: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    """Refuse a group. Consumers before 3.9 retry only after NOT_COORDINATOR."""
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.NOT_COORDINATOR
    if call.api_version >= _GROUP_ERROR_SINCE:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[_failed(topic, error) for topic in group.topics or []]
    )


def _failed(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


def _unbatched(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ],
    )
