"""FindCoordinator, key 10: which broker coordinates a group or a transactional id."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, String


@message(versions=(0, 6), flexible_since=3)
class FindCoordinatorRequest:
    key: str = field(String, until=3)
    key_type: int = field(Int8, since=1)
    coordinator_keys: list[str] = field(Array(String), since=4)


@struct()
class Coordinator:
    key: str = field(String, since=4)
    node_id: int = field(Int32, since=4)
    host: str = field(String, since=4)
    port: int = field(Int32, since=4)
    error_code: int = field(Int16, since=4)
    error_message: str | None = field(String, since=4, nullable_since=0)


@message(versions=(0, 6), flexible_since=3)
class FindCoordinatorResponse:
    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16, until=3)
    error_message: str | None = field(String, since=1, until=3, nullable_since=0)
    node_id: int = field(Int32, until=3)
    host: str = field(String, until=3)
    port: int = field(Int32, until=3)
    coordinators: list[Coordinator] = field(Array(Coordinator), since=4)


def refusal(request: FindCoordinatorRequest, error: int, version: int) -> FindCoordinatorResponse | None:
    """For each key from version 4 on."""
    if version < 4:
        return FindCoordinatorResponse(error_code=error, node_id=-1, port=-1)
    coordinators = [Coordinator(key=key, node_id=-1, port=-1, error_code=error) for key in request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=coordinators) if coordinators else None
