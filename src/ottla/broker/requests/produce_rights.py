"""The rights of a Produce, asked before anything else of it: the refused topics are answered, the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.header import HEADER_SIZE
from ottla.wire.hot import Produce, ProducedTopic
from ottla.wire.hot_answers import not_produced

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


def within_rights(call: Call, request: Produce) -> tuple[Produce, list[ProducedTopic]]:
    """The topics that the caller may write to, and the answers of the others."""
    if _is_transactional(request):
        transactional_id = request.transactional_id
        if transactional_id is None or not call.may(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transactional_id):
            no = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return request._replace(topics=[]), [_refused(topic, no) for topic in request.topics]
    refused: list[ProducedTopic] = []
    kept = []
    for topic in request.topics:
        error = _refusal(call, topic[0], topic[1])
        if error:
            refused.append(_refused(topic, error))
        else:
            kept.append(topic)
    if refused:
        return request._replace(topics=kept), refused
    shape, rights = call.connection.produce_shape, call.node.rights
    if shape is not None and rights is not None:  # what this shape may do it may do until an ACL changes
        shape.allowed_at = rights.version()
    return request, refused


def _refused(topic: Any, error: ErrorCode) -> ProducedTopic:
    name, topic_id, records_of = topic
    return name, topic_id, [not_produced(index, error) for index, _ in records_of]


def _refusal(call: Call, name: str, topic_id: bytes) -> ErrorCode:
    if not name:
        topic = call.node.metadata.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    may = call.may(Operation.WRITE, ResourceKind.TOPIC, name)
    return ErrorCode.NONE if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _is_transactional(request: Produce) -> bool:
    return any(
        records is not None and len(records) >= HEADER_SIZE and Batch(records).is_transactional
        for _, _, records_of in request.topics
        for _, records in records_of
    )
