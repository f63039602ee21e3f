"""OffsetDelete (key 47, version 0): forget a group's offsets of topics that it does not read (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    asked, request.topics = request.topics, []
    denied = False
    for topic in asked:
        if not call.may(Operation.READ, ResourceKind.TOPIC, topic.name):
            denied = True
            no = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answer = refused.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
            answer.partitions += [_refused(each.partition_index, no) for each in topic.partitions]
            continue
        known = call.node.metadata.topic(topic.name)
        count = 0 if known is None else len(known.partitions)
        there: list[OffsetDeleteRequestPartition] = []
        for each in topic.partitions:
            if 0 <= each.partition_index < count:
                there.append(each)
            else:
                answer = refused.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
                answer.partitions.append(_refused(each.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if there:
            request.topics.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
    if denied and not request.topics:
        return OffsetDeleteResponse(topics=list(refused.values()))
    answer_of_group: OffsetDeleteResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, _: shard.delete_offsets(request, ticket)
    )
    if isinstance(answer_of_group, ErrorCode):
        return OffsetDeleteResponse(error_code=answer_of_group)
    for each_said in answer_of_group.topics:
        if each_said.name in refused:
            refused[each_said.name].partitions += each_said.partitions
        else:
            refused[each_said.name] = each_said
    return OffsetDeleteResponse(topics=list(refused.values()))


def _refused(index: int, error: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=error)
