"""OffsetDelete (key 47, version 0): forget a group's offsets of topics that it does not read (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    for topic in asked:
        known = call.node.metadata.topic(topic.name)
        count = 0 if known is None else len(known.partitions)
        there: list[OffsetDeleteRequestPartition] = []
        for each in topic.partitions:
            if 0 <= each.partition_index < count:
                there.append(each)
            else:
                answer = refused.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
                answer.partitions.append(_unknown(each.partition_index))
        if there:
            request.topics.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
    said: OffsetDeleteResponse | ErrorCode = await call.node.groups.ask(
        request.group_id, lambda shard, ticket, _: shard.delete_offsets(request, ticket)
    )
    if isinstance(said, ErrorCode):
        return OffsetDeleteResponse(error_code=said)
    for each_said in said.topics:
        if each_said.name in refused:
            refused[each_said.name].partitions += each_said.partitions
        else:
            refused[each_said.name] = each_said
    return OffsetDeleteResponse(topics=list(refused.values()))


def _unknown(index: int) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
