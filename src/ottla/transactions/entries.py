"""The records of `__transaction_state`, byte for byte Kafka's."""

from __future__ import annotations

import struct
from collections import defaultdict

from ottla.kernel.ids import TopicPartition
from ottla.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.schema.codec import MalformedMessage, decoder, encoder
from ottla.transactions.values import NEVER_WRITTEN, Transaction, TransactionEntry, TransactionState

_KEY_VERSION = 0
_NEWEST_VALUE_VERSION = 1
_INT16 = struct.Struct(">h")


def transaction_entry(transactional_id: str, transaction: Transaction, *, value_version: int) -> TransactionEntry:
    return TransactionEntry(TransactionLogKey(transactional_id=transactional_id), _value(transaction), value_version)


def tombstone(transactional_id: str) -> TransactionEntry:
    """The transactional id has expired."""
    return TransactionEntry(TransactionLogKey(transactional_id=transactional_id), None, _NEWEST_VALUE_VERSION)


def transaction_of(value: TransactionLogValue) -> Transaction:
    """The transaction that a record's value tells of."""
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        last_epoch=value.last_producer_epoch,
        previous_id=value.previous_producer_id,
        next_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        updated_ms=value.transaction_last_update_timestamp_ms,
        started_ms=value.transaction_start_timestamp_ms,
        version=value.client_transaction_version,
    )


def encode_entry(entry: TransactionEntry) -> tuple[bytes, bytes | None]:
    """The key and value of the record."""
    key = bytearray(_INT16.pack(_KEY_VERSION))
    encoder(TransactionLogKey, _KEY_VERSION)(entry.key, key)
    if entry.value is None:
        return bytes(key), None
    value = bytearray(_INT16.pack(entry.value_version))
    encoder(TransactionLogValue, entry.value_version)(entry.value, value)
    return bytes(key), bytes(value)


def decode_entry(key: bytes, value: bytes | None) -> TransactionEntry | None:
    """The entry in a record; None for keys of versions that newer brokers may write (KIP-915).

    Raises MalformedMessage where the bytes are not what they say.
    """
    if _version(key) != _KEY_VERSION:
        return None
    log_key, _ = decoder(TransactionLogKey, _KEY_VERSION)(memoryview(key), 2)
    if value is None:
        return tombstone(log_key.transactional_id)
    version = _version(value)
    if not 0 <= version <= _NEWEST_VALUE_VERSION:
        raise MalformedMessage(f"a transaction record's value of version {version}")
    log_value, _ = decoder(TransactionLogValue, version)(memoryview(value), 2)
    status = log_value.transaction_status
    if not 0 <= status <= max(TransactionState) or TransactionState(status) in NEVER_WRITTEN:
        raise MalformedMessage(f"a transaction record of status {status}")
    return TransactionEntry(log_key, log_value, version)


def _value(transaction: Transaction) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_id,
        next_producer_id=transaction.next_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if transaction.state == TransactionState.EMPTY
        else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
        last_producer_epoch=transaction.last_epoch,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions):
        topics[topic].append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise MalformedMessage("a transaction record of less than two bytes")
    return int(_INT16.unpack_from(data)[0])
