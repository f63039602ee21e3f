"""Keys and values of the records in `__consumer_offsets`, as classic groups write them.

A key is an int16 that names its type, then the key class at version 0; a value is an int16 that names its version, then
the value class at that version; a null value is a tombstone.
"""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bytes, Int32, Int64, String, Uuid

LEGACY_OFFSET_COMMIT_TYPE = 0
"""The type that very old brokers wrote before `OffsetCommitKey`; the same fields follow."""
OFFSET_COMMIT_TYPE = 1
GROUP_METADATA_TYPE = 2


@message(versions=(0, 0), flexible_since=None)
class OffsetCommitKey:
    group: str = field(String)
    topic: str = field(String)
    partition: int = field(Int32)


@message(versions=(0, 4), flexible_since=4)
class OffsetCommitValue:
    offset: int = field(Int64)
    leader_epoch: int = field(Int32, since=3, default=-1)
    metadata: str = field(String)
    commit_timestamp: int = field(Int64)
    expire_timestamp: int = field(Int64, since=1, until=1, default=-1)
    topic_id: bytes = field(Uuid, since=4, tag=0)


@message(versions=(0, 0), flexible_since=None)
class GroupMetadataKey:
    group: str = field(String)


@struct()
class MemberMetadata:
    member_id: str = field(String)
    group_instance_id: str | None = field(String, since=3, nullable_since=0, default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    rebalance_timeout: int = field(Int32, since=1, default=-1)
    session_timeout: int = field(Int32)
    subscription: bytes = field(Bytes)
    assignment: bytes = field(Bytes)


@message(versions=(0, 4), flexible_since=4)
class GroupMetadataValue:
    protocol_type: str = field(String)
    generation: int = field(Int32)
    protocol: str | None = field(String, nullable_since=0)
    leader: str | None = field(String, nullable_since=0)
    current_state_timestamp: int = field(Int64, since=2, default=-1)
    members: list[MemberMetadata] = field(Array(MemberMetadata))
