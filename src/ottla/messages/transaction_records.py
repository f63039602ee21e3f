"""Keys and values of the records in `__transaction_state`.

A key is an int16 that names its version, then the key class at version 0; a value is an int16 that names its version,
then the value class at that version; a null value is a tombstone: the transactional id has expired.
"""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, Int64, String


@message(versions=(0, 0), flexible_since=None)
class TransactionLogKey:
    transactional_id: str = field(String)


@struct()
class PartitionsSchema:
    topic: str = field(String)
    partition_ids: list[int] = field(Array(Int32))


@message(versions=(0, 1), flexible_since=1)
class TransactionLogValue:
    producer_id: int = field(Int64)
    previous_producer_id: int = field(Int64, since=1, tag=0, default=-1)
    next_producer_id: int = field(Int64, since=1, tag=1, default=-1)
    producer_epoch: int = field(Int16)
    next_producer_epoch: int = field(Int16, since=1, tag=3, default=-1)
    transaction_timeout_ms: int = field(Int32)
    transaction_status: int = field(Int8)
    transaction_partitions: list[PartitionsSchema] | None = field(Array(PartitionsSchema), nullable_since=0)
    transaction_last_update_timestamp_ms: int = field(Int64)
    transaction_start_timestamp_ms: int = field(Int64)
    client_transaction_version: int = field(Int16, since=1, tag=2)
    last_producer_epoch: int = field(Int16, since=1, tag=100, default=-1)
    """Ours alone, which Kafka passes over: a repeated InitProducerId is known again after a change of coordinators."""
