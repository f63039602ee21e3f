"""OffsetCommit (key 8, versions 2 to 10): stores a group's offsets, of existing partitions only.

Static members from version 7 on (KIP-345), members of consumer groups from version 9 on (KIP-848), topics by id in
version 10. It is answered when the offsets are on disk on every in-sync replica; Apache Kafka answers when they are
replicated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import caller_of
from ottla.broker.requests.topic_answers import answered, merged
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.metadata.state import Metadata

_TOPIC_IDS_SINCE = 10


async def handle(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Answer topics in Kafka's order: those that cannot be committed first. No topic, no commit: nobody is asked."""
    metadata = call.node.metadata
    missing: list[OffsetCommitResponseTopic] = []
    asked, request.topics = request.topics, []
    for topic in asked:
        refused, error = _resolve(metadata, topic, by_id=call.api_version >= _TOPIC_IDS_SINCE)
        if refused:
            missing.append(_said(topic, refused, error))
        if topic.partitions:
            request.topics.append(topic)
    if not request.topics:
        return OffsetCommitResponse(topics=merged(missing))
    caller = caller_of(call)
    answer: OffsetCommitResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, now: shard.commit_offsets(request, caller, ticket, now)
    )
    if isinstance(answer, ErrorCode):
        committed = [_said(topic, topic.partitions, answer) for topic in request.topics]
    else:
        committed = answer.topics
    return OffsetCommitResponse(topics=answered(missing, committed))


def _resolve(
    metadata: Metadata, topic: OffsetCommitRequestTopic, *, by_id: bool
) -> tuple[list[OffsetCommitRequestPartition], ErrorCode]:
    """Fill in name and id, and remove the partitions that cannot be committed; return these and the error."""
    known = metadata.topic_by_id(topic.topic_id) if by_id else metadata.topic(topic.name)
    if known is None:
        refused, topic.partitions = topic.partitions, []
        return refused, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic.name, topic.topic_id = known.name, known.topic_id
    count = len(known.partitions)
    refused = [each for each in topic.partitions if not 0 <= each.partition_index < count]
    topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
    return refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _said(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], error: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id or NO_TOPIC_ID,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error) for each in partitions
        ],
    )
