"""The values that clients hand out and take: brokers, topics, offsets, fetched bytes, records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ottla.client.security import PLAINTEXT, SecuritySetting
from ottla.client.settings import (
    INT64_MAX,
    ChoiceText,
    Milliseconds,
    Settings,
    Text,
    completed,
    field_names,
    require_kind,
    require_known,
)
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID

LATEST = -1
"""ListOffsets: the offset after the last visible record."""
EARLIEST = -2
"""ListOffsets: the first offset kept."""
MAX_TIMESTAMP = -3
"""ListOffsets: the record with the greatest timestamp."""
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""No frame of a broker may be larger."""


class IsolationLevel(IntEnum):
    """The transactions that a reader sees: all, or only those that are committed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Isolation(ChoiceText[IsolationLevel]):
    """The setting for it, which takes its words too."""

    def __init__(self, default: IsolationLevel) -> None:
        super().__init__(default, {level.name.lower(): level for level in IsolationLevel})


class Destination(NamedTuple):
    """The address of a request. Requests of different purposes have connections of their own (a long poll blocks)."""

    host: str
    port: int
    purpose: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Broker(NamedTuple):
    """A broker as the metadata shows it: the address that it advertises to clients."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def destination(self, purpose: str = "") -> Destination:
        """The broker's address for requests of one purpose."""
        return Destination(self.host, self.port, purpose)


class PartitionView(NamedTuple):
    """One partition as the metadata shows it, with the ids of brokers; leader -1 where there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode = ErrorCode.NONE


class TopicView(NamedTuple):
    """One topic as the metadata shows it; `topic_id` is 16 zero bytes where the broker has no ids."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionView]
    error: ErrorCode = ErrorCode.NONE

    @property
    def has_id(self) -> bool:
        """True if the broker has told the topic's id."""
        return self.topic_id != NO_TOPIC_ID


class OffsetAtTime(NamedTuple):
    """An answer of ListOffsets; offset -1 where no record has so late a timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


class AbortedRange(NamedTuple):
    """Records of this producer from `first_offset` up to its next abort marker are not for read_committed."""

    producer_id: int
    first_offset: int


@dataclass(slots=True)
class Fetched:
    """One partition's part of a Fetch answer: whole batches only, a cut-off last one is left out.

    `records` may begin below the offset asked for (a batch is never cut) and is a view of the answer's frame,
    which belongs to the receiver. `next_offset` is where to go on.
    """

    topic: str
    partition: int
    offset: int
    next_offset: int
    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedRange]
    error: ErrorCode = ErrorCode.NONE
    leader_epoch: int = -1
    """The leader epoch of the last batch; -1 where there is none."""


class Produced(NamedTuple):
    """The place of a batch. `base_offset` is -1 with acks=0, `timestamp` is -1 unless the log sets the time."""

    base_offset: int
    timestamp: int = -1
    log_start_offset: int = -1


class ProducerIdentity(NamedTuple):
    """The producer id and epoch that the batches of an idempotent or transactional producer carry."""

    producer_id: int
    producer_epoch: int


class InTransaction(NamedTuple):
    """The transaction that a Produce belongs to; `brokers_add`: its partitions are added by their leaders (KIP-890)."""

    transactional_id: str
    brokers_add: bool


class GroupMetadata(NamedTuple):
    """A group for which a transaction commits offsets, and the member that it commits as; by default none."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    """An offset of a group: the next one to read. Offset -1: nothing committed."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Header = tuple[str, bytes | None]
"""A header of a record: its name and its value."""


class ConsumedRecord(NamedTuple):
    """A record as a consumer hands it out; `timestamp_type` is 0 for CreateTime, 1 for LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ClientSettings(Settings):
    """Settings of clients; names follow Kafka's client options.

    Times are milliseconds, or text such as "5s", or a timedelta. ValueError or TypeError names a setting that is wrong.
    """

    client_id: Text = Text("ottla")
    """The name under which brokers know this client."""
    request_timeout_ms: Milliseconds = Milliseconds(30_000)
    """For one answer."""
    api_timeout_ms: Milliseconds = Milliseconds(60_000)
    """For a call with all its attempts (`default.api.timeout.ms`)."""
    connect_timeout_ms: Milliseconds = Milliseconds(10_000)
    """For one connection to be made."""
    bootstrap_timeout_ms: Milliseconds = Milliseconds(10_000)
    """The longest try for the first connection; 0: one attempt at each address."""
    retry_backoff_ms: Milliseconds = Milliseconds(100, most=INT64_MAX)
    """The first pause between two attempts; each further one is twice as long."""
    retry_backoff_max_ms: Milliseconds = Milliseconds(1_000, most=INT64_MAX)
    """The longest pause between two attempts."""
    metadata_max_age_ms: Milliseconds = Milliseconds(300_000, most=INT64_MAX)
    """A consumer looks for new topics and partitions so often, a producer for partitions of topics that it sends to."""
    security: SecuritySetting = SecuritySetting(PLAINTEXT)
    """TLS and SASL, by Kafka's names or librdkafka's: `{"security.protocol": "SASL_SSL", "sasl.mechanism": …}`."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Options of Kafka's clients that were given, are known and have no effect here."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        require_kind("ignored", self.ignored, Mapping)


def client_settings_from(caller: str, settings: ClientSettings | None, options: Mapping[str, object]) -> ClientSettings:
    """The settings of connections, completed by single ones; TypeError for those that there are not."""
    require_kind("settings", settings, ClientSettings)
    require_known(caller, options, ["bootstrap", "settings", *field_names(ClientSettings)])
    return completed(settings or ClientSettings(), options)
