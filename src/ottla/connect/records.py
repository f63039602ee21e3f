"""Records on their way through Connect. They are not changed: each step makes new ones, which share what stayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.connect.data import Schema


class SchemaAndValue(NamedTuple):
    """A value with its schema, None where there is none."""

    schema: Schema | None
    value: Any


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a record."""

    key: str
    schema: Schema | None
    value: Any


@dataclass(slots=True)
class ConnectRecord:
    """The parts that all records have."""

    topic: str
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()

    def __str__(self) -> str:
        """The record's place alone: its content may be secret."""
        return f"{type(self).__name__}{{topic='{self.topic}', partition={self.partition}}}"

    def with_key(self, schema: Schema | None, key: Any) -> ConnectRecord:
        """The record with another key."""
        made = self.copied()
        made.key_schema, made.key = schema, key
        return made

    def with_value(self, schema: Schema | None, value: Any) -> ConnectRecord:
        """The record with another value."""
        made = self.copied()
        made.value_schema, made.value = schema, value
        return made

    def with_topic(self, topic: str) -> ConnectRecord:
        """The record for another topic."""
        made = self.copied()
        made.topic = topic
        return made

    def with_headers(self, headers: tuple[Header, ...]) -> ConnectRecord:
        """The record with other headers."""
        made = self.copied()
        made.headers = headers
        return made

    def copied(self) -> ConnectRecord:
        """A record of its own with the same parts."""
        return ConnectRecord(
            self.topic, self.partition, self.key_schema, self.key, self.value_schema, self.value, self.timestamp,
            self.headers,
        )  # fmt: skip


@dataclass(slots=True)
class SourceRecord(ConnectRecord):
    """A record that a source connector read, with the place where it read it."""

    source_partition: dict[str, Any] | None = None
    source_offset: dict[str, Any] | None = None
    fault: Exception | None = None
    """The reason for which the value, as it was read, can be no record. The task treats it by `errors.*`."""
    ends_transaction: bool = False
    """With `transaction.boundary=connector`: the transaction ends behind this record, also where it is dropped."""

    def copied(self) -> SourceRecord:
        """A record of its own with the same parts."""
        return SourceRecord(
            self.topic, self.partition, self.key_schema, self.key, self.value_schema, self.value, self.timestamp,
            self.headers, self.source_partition, self.source_offset, self.fault, self.ends_transaction,
        )  # fmt: skip


@dataclass(slots=True)
class PassedPlace(SourceRecord):
    """A place that a source has passed without a record: its offset is kept behind those before, nothing is sent."""

    at_once: bool = False
    """Keep the offset before anything else is read: it took long to get there."""


@dataclass(slots=True)
class SinkRecord(ConnectRecord):
    """A record of a topic for a sink connector.

    Transformations may send it elsewhere. The original topic and partition with the offset are its place in Kafka,
    by which a sink knows what it has seen.
    """

    offset: int = 0
    timestamp_type: str = "CreateTime"
    original_topic: str | None = None
    original_partition: int | None = None

    def __post_init__(self) -> None:
        if self.original_topic is None:
            self.original_topic, self.original_partition = self.topic, self.partition

    def __str__(self) -> str:
        """The record's place, in Kafka too."""
        origin = f"{self.original_topic}-{self.original_partition}"
        return f"SinkRecord{{topic='{self.topic}', partition={self.partition}, read at {origin}, offset={self.offset}}}"

    def copied(self) -> SinkRecord:
        """A record of its own with the same parts."""
        return SinkRecord(
            self.topic, self.partition, self.key_schema, self.key, self.value_schema, self.value, self.timestamp,
            self.headers, self.offset, self.timestamp_type, self.original_topic, self.original_partition,
        )  # fmt: skip
