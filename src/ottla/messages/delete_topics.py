"""DeleteTopics, key 20: delete topics by name or id."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int16, Int32, String, Uuid


@struct()
class DeleteTopicState:
    name: str | None = field(String, since=6, nullable_since=0, default=None)
    topic_id: bytes = field(Uuid, since=6)


@message(versions=(1, 6), flexible_since=4)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field(Array(DeleteTopicState), since=6)
    topic_names: list[str] = field(Array(String), until=5)
    timeout_ms: int = field(Int32)


@struct()
class DeletableTopicResult:
    name: str | None = field(String, nullable_since=6)
    topic_id: bytes = field(Uuid, since=6)
    error_code: int = field(Int16)
    error_message: str | None = field(String, since=5, nullable_since=0, default=None)


@message(versions=(1, 6), flexible_since=4)
class DeleteTopicsResponse:
    throttle_time_ms: int = field(Int32)
    responses: list[DeletableTopicResult] = field(Array(DeletableTopicResult))


def refusal(request: DeleteTopicsRequest, error: int, version: int) -> DeleteTopicsResponse | None:
    """By name before version 6, by name or id from then on."""
    responses = [DeletableTopicResult(name=name, error_code=error) for name in request.topic_names] + [
        DeletableTopicResult(name=topic.name or "", topic_id=topic.topic_id, error_code=error)
        for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=responses) if responses else None
