"""ListPartitionReassignments (key 46, version 0): the reassignments that run (KIP-455).

Requested partitions without a running reassignment are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cluster.reassign import is_reassigning
from ottla.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Topic

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    metadata = call.node.metadata
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        for topic in metadata.visible_topics():
            _add(response, topic, topic.partitions)
        return response
    for asked in request.topics:
        found = metadata.topic(asked.name)
        if found is not None:
            wanted = [metadata.partition(found.topic_id, index) for index in asked.partition_indexes]
            _add(response, found, [one for one in wanted if one is not None])
    return response


def _add(response: ListPartitionReassignmentsResponse, topic: Topic, partitions: Sequence[PartitionState]) -> None:
    ongoing = [
        OngoingPartitionReassignment(
            partition_index=one.partition,
            replicas=list(one.replicas),
            adding_replicas=list(one.adding),
            removing_replicas=list(one.removing),
        )
        for one in partitions
        if is_reassigning(one)
    ]
    if ongoing:
        response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
