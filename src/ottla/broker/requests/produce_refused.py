"""The rare answers of Produce: why a record was refused (version 8 on), who leads instead (version 10 on, KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.replicas.admission import RefusedBatch
    from ottla.broker.requests.call import Call
    from ottla.wire.hot import ProducedTopic

_LEADERSHIP = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class RefusedAt(NamedTuple):
    """A refused batch with the place of its partition in the answer."""

    topic: int
    partition: int
    refusal: RefusedBatch


def explain(
    call: Call, answers: list[ProducedTopic], explained: list[RefusedAt], *, throttle_ms: int = 0
) -> ProduceResponse:
    """The same answer by the declared message, with what the hot encoder leaves out."""
    response = ProduceResponse(throttle_time_ms=throttle_ms)
    for name, topic_id, partitions in answers:
        response.responses.append(
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        error_code=error,
                        base_offset=base_offset,
                        log_append_time_ms=append_time_ms,
                        log_start_offset=log_start_offset,
                    )
                    for index, error, base_offset, append_time_ms, log_start_offset in partitions
                ],
            )
        )
    for place in explained:
        partition = response.responses[place.topic].partition_responses[place.partition]
        partition.error_message = place.refusal.message
        partition.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in place.refusal.record_errors
        ]
    _hint_leaders(call, response)
    return response


def _hint_leaders(call: Call, response: ProduceResponse) -> None:
    node = call.node
    endpoints = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code not in _LEADERSHIP:
                continue
            hint = node.endpoints.leader_hint(topic.name, topic.topic_id, partition.index, call.connection)
            if hint is not None:
                partition.current_leader = LeaderIdAndEpoch(leader_id=hint.leader, leader_epoch=hint.epoch)
                if hint.endpoint is not None:
                    endpoints[hint.leader] = hint.endpoint
    response.node_endpoints = [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints.values()
    ]
