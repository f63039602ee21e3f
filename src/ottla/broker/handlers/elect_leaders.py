"""ElectLeaders (key 43, versions 0 to 2): elects preferred leaders, or unclean ones (KIP-183, KIP-460).

An unclean election is for partitions without a leader: the live replica with the longest log leads; Apache Kafka takes
the first live one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cluster.commands import ElectLeader
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_PREFERRED, _UNCLEAN = 0, 1


async def handle(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """A request for all partitions is answered only for those that needed an election, as in Apache Kafka."""
    response = ElectLeadersResponse()
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return _unknown_type(request)
    everything = request.topic_partitions is None
    wanted = (
        [(topic.name, list(range(len(topic.partitions)))) for topic in call.node.metadata.visible_topics()]
        if request.topic_partitions is None
        else [(asked.topic, asked.partitions) for asked in request.topic_partitions]
    )
    unclean, timeout_ms = request.election_type == _UNCLEAN, max(1, request.timeout_ms)
    longest = await _longest(call, wanted) if unclean else {}
    asked = []
    for name, partitions in wanted:
        commands = [(one, longest.get((name, one)) or ElectLeader(name, one, unclean)) for one in partitions]
        asked.append((name, [(one, call.node.follow.submit(command, timeout_ms)) for one, command in commands]))
    for name, slots in asked:  # all are submitted before the first is awaited, so they share appends
        result = ReplicaElectionResult(topic=name)
        for partition, slot in slots:
            outcome = await slot
            one_result = PartitionResult(partition_id=partition, error_message=None)
            if isinstance(outcome, ApiError):
                if everything and outcome.code == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                one_result.error_code = outcome.code
                one_result.error_message = outcome.message
            result.partition_result.append(one_result)
        response.replica_election_results.append(result)
    return response


async def _longest(call: Call, wanted: Sequence[tuple[str, Sequence[int]]]) -> dict[tuple[str, int], ElectLeader]:
    """A command for each partition without a leader: elect the longest log of the live replicas."""
    found = []
    for name, partitions in wanted:
        topic = call.node.metadata.topic(name)
        for index in partitions if topic is not None else ():
            state = None if topic is None else call.node.metadata.partition(topic.topic_id, index)
            if state is not None and not state.has_leader:
                found.append((TopicPartition(name, index), state))
    order = await call.node.longest_logs.of(found)
    return {
        place: ElectLeader(*place, unclean=True, longest=order[place], asked_at=state.partition_epoch)
        for place, state in found
    }


def _unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    message = f"Unknown election type {request.election_type}"
    response = ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    for asked in request.topic_partitions or ():
        results = [
            PartitionResult(partition_id=partition, error_code=ErrorCode.INVALID_REQUEST, error_message=message)
            for partition in asked.partitions
        ]
        response.replica_election_results.append(ReplicaElectionResult(topic=asked.topic, partition_result=results))
    return response
