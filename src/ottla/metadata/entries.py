"""The entries of the metadata log. Every change of the cluster is one or more of these entries, appended together.

`cluster/` decides them, a coordination engine keeps their bytes in order, `state.py` applies them. Each carries its
type and version, and the broker epoch and sequence of its writer: by these a writer whose answer was lost finds its own
entry again (rule C1).
"""

from __future__ import annotations

import struct as bits
from typing import NamedTuple

from ottla.kernel.errors import InvariantBroken
from ottla.schema.codec import MalformedMessage, decoder, encoder
from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Bytes, Float64, Int8, Int16, Int32, Int64, String, Uuid

ENTRY_LIMIT = 256 * 1024
"""The most bytes of an entry (rule C4): ZooKeeper answers a read of at most a megabyte."""
UNREGISTERED = -1
"""The broker epoch of a writer that is not registered yet."""


class UnknownEntry(Exception):
    """An entry of a type or version that this release does not know: the broker must stop (rule C1)."""


@struct()
class ListenerEntry:
    """One address of a broker."""

    name: str = field(String)
    host: str = field(String)
    port: int = field(Int32)
    security_protocol: int = field(Int16)


@struct()
class DamagedTopic:
    """Partitions of a topic whose replica on a broker is damaged or short (rule A7)."""

    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@struct()
class ConfigChange:
    """One option; null takes the setting away."""

    name: str = field(String)
    value: str | None = field(String, nullable_since=0, default=None)


@struct()
class HeldDirectoryRecord:
    """A log directory of a broker, and the incarnation that last wrote to it (rule H2)."""

    directory_id: str = field(String)
    incarnation: bytes = field(Uuid)
    closed: bool = field(Bool)
    """True if that incarnation has closed it cleanly. Set in snapshots only; else `BrokerFenced` tells it."""


@message(versions=(0, 0), flexible_since=0)
class BrokerRegistered:
    """A broker has come up. The entry's version in the log is its broker epoch (rule A8)."""

    broker_id: int = field(Int32)
    incarnation: bytes = field(Uuid)
    host: str = field(String)
    rack: str | None = field(String, nullable_since=0, default=None)
    listeners: list[ListenerEntry] = field(Array(ListenerEntry))
    damaged: list[DamagedTopic] = field(Array(DamagedTopic))
    short: list[DamagedTopic] = field(Array(DamagedTopic))
    """Replicas that may have lost their tail, as after a power cut with `write.caching`."""
    metadata_version: int = field(Int16, default=1)
    """The highest metadata.version this broker knows."""
    epoch: int = field(Int64, default=UNREGISTERED)
    """Set in snapshots only, as the version of the broker's entry is not in them."""
    options: list[ConfigChange] = field(Array(ConfigChange), tag=0)
    """Options of the broker's own file that decisions depend on."""
    directories: list[str] = field(Array(String), tag=1)
    """The ids of its log directories; a release that does not know them forgets them with its next snapshot."""
    held: list[HeldDirectoryRecord] = field(Array(HeldDirectoryRecord), tag=2)
    """The directories' incarnations: by them its next registration sees whether one is older.

    Forgotten like `directories`.
    """
    rolled_back: list[DamagedTopic] = field(Array(DamagedTopic), tag=3)
    """Replicas in directories that are older than their last known state."""


@message(versions=(0, 0), flexible_since=0)
class BrokerFenced:
    """The broker of this epoch must not act any more: it died, hung, or reported its stop (`stopped`)."""

    broker_id: int = field(Int32)
    epoch: int = field(Int64)
    stopped: bool = field(Bool)
    early: bool = field(Bool, tag=0)
    """True if the broker's session had not ended: it may be alive, and believe that it leads.

    Its lease may still be valid (rule A12). From metadata.version 2 on.
    """
    closed: list[str] = field(Array(String), tag=1)
    """The ids of the log directories that it closed cleanly before it reported its stop."""


@message(versions=(0, 0), flexible_since=0)
class BrokerUnfenced:
    """The broker of this epoch has caught up and acts again."""

    broker_id: int = field(Int32)
    epoch: int = field(Int64)


@message(versions=(0, 0), flexible_since=0)
class BrokerDraining:
    """The broker of this epoch is about to stop: it leads nothing new and joins no in-sync set."""

    broker_id: int = field(Int32)
    epoch: int = field(Int64)


@message(versions=(0, 0), flexible_since=0)
class BrokerUnregistered:
    """The broker is forgotten."""

    broker_id: int = field(Int32)


@message(versions=(0, 0), flexible_since=0)
class TopicCreated:
    """A topic's id and name are taken. It is invisible until `TopicReady`."""

    topic_id: bytes = field(Uuid)
    name: str = field(String)
    configs: list[ConfigChange] = field(Array(ConfigChange))


@message(versions=(0, 0), flexible_since=0)
class TopicReady:
    """All partitions of a new topic are in the log."""

    topic_id: bytes = field(Uuid)


@message(versions=(0, 0), flexible_since=0)
class TopicDeleted:
    topic_id: bytes = field(Uuid)


@struct()
class PartitionEntry:
    """The whole agreed state of one partition."""

    topic_id: bytes = field(Uuid)
    partition: int = field(Int32)
    leader: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32)
    partition_epoch: int = field(Int32)
    replicas: list[int] = field(Array(Int32))
    in_sync: list[int] = field(Array(Int32))
    eligible: list[int] = field(Array(Int32))
    """Replicas that left an in-sync set below min.insync.replicas, and so hold all committed records (KIP-966)."""
    last_known: list[int] = field(Array(Int32))
    """The last leader, if neither an in-sync nor an eligible replica is left."""
    adding: list[int] = field(Array(Int32), tag=0)
    removing: list[int] = field(Array(Int32), tag=1)
    offline: list[int] = field(Array(Int32), tag=2)
    """Brokers whose log directory with this replica has failed. A release that does not know them leaves them out."""
    awaited: str = field(String, tag=3)
    """The incarnation of the missing log directory, after the last replica came back older than it was."""


@message(versions=(0, 0), flexible_since=0)
class PartitionsCreated:
    """New partitions, of one topic or several."""

    partitions: list[PartitionEntry] = field(Array(PartitionEntry))


@message(versions=(0, 0), flexible_since=0)
class PartitionsChanged:
    """Partitions that have a new leader, in-sync set or replicas; each with a later partition epoch."""

    partitions: list[PartitionEntry] = field(Array(PartitionEntry))


@message(versions=(0, 0), flexible_since=0)
class ConfigsSet:
    """Options of one resource. `resource_type` is that of Kafka's DescribeConfigs; "" names all brokers."""

    resource_type: int = field(Int8)
    resource_name: str = field(String)
    changes: list[ConfigChange] = field(Array(ConfigChange))


@message(versions=(0, 0), flexible_since=0)
class ProducerIdsAllocated:
    """`count` producer ids from `first` on belong to a broker; no other ever gives them out."""

    broker_id: int = field(Int32)
    first: int = field(Int64)
    count: int = field(Int32)


@message(versions=(0, 0), flexible_since=0)
class FeatureLevelSet:
    """The level at which the cluster uses a feature; `metadata.version` gates what decisions may write."""

    name: str = field(String)
    level: int = field(Int16)


@message(versions=(0, 0), flexible_since=0)
class ClusterCreated:
    """The first entry of every log."""

    cluster_id: str = field(String)
    secret: bytes = field(Bytes)
    """The secret by which brokers prove themselves to one another."""


@message(versions=(0, 0), flexible_since=0)
class ScramKeysSet:
    """A user's keys for one mechanism of SCRAM; the mechanism's number is that of KIP-554. No password is kept."""

    user: str = field(String)
    mechanism: int = field(Int8)
    salt: bytes = field(Bytes)
    iterations: int = field(Int32)
    stored_key: bytes = field(Bytes)
    server_key: bytes = field(Bytes)


@message(versions=(0, 0), flexible_since=0)
class ScramKeysRemoved:
    """A user cannot log in by this mechanism any more."""

    user: str = field(String)
    mechanism: int = field(Int8)


@struct()
class AclEntry:
    """One ACL; the numbers are those of Kafka's protocol."""

    resource_type: int = field(Int8)
    name: str = field(String)
    pattern_type: int = field(Int8)
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission: int = field(Int8)


@message(versions=(0, 0), flexible_since=0)
class AclsAdded:
    """New ACLs. They count from this entry on."""

    acls: list[AclEntry] = field(Array(AclEntry))


@message(versions=(0, 0), flexible_since=0)
class AclsRemoved:
    """ACLs that do not count any more."""

    acls: list[AclEntry] = field(Array(AclEntry))


@struct()
class QuotaEntry:
    key: str = field(String)
    value: float = field(Float64)


@message(versions=(0, 0), flexible_since=0)
class ClientQuotasSet:
    """All quotas of one entity; without any it has none. A part is null if it does not count, "" is the default."""

    user: str | None = field(String, nullable_since=0, default=None)
    client_id: str | None = field(String, nullable_since=0, default=None)
    ip: str | None = field(String, nullable_since=0, default=None)
    quotas: list[QuotaEntry] = field(Array(QuotaEntry))


@message(versions=(0, 0), flexible_since=0)
class DelegationTokenSet:
    """A new delegation token, or the later state of one. Its secret is not in the log."""

    token_id: str = field(String)
    owner: str = field(String)
    requester: str = field(String)
    renewers: list[str] = field(Array(String))
    issued_ms: int = field(Int64)
    expires_ms: int = field(Int64)
    max_ms: int = field(Int64)


@message(versions=(0, 0), flexible_since=0)
class DelegationTokensRemoved:
    """Tokens by which nobody logs in any more."""

    token_ids: list[str] = field(Array(String))


Body = (
    BrokerRegistered
    | BrokerFenced
    | BrokerUnfenced
    | BrokerDraining
    | BrokerUnregistered
    | TopicCreated
    | TopicReady
    | TopicDeleted
    | PartitionsCreated
    | PartitionsChanged
    | ConfigsSet
    | ProducerIdsAllocated
    | FeatureLevelSet
    | ClusterCreated
    | ScramKeysSet
    | ScramKeysRemoved
    | AclsAdded
    | AclsRemoved
    | ClientQuotasSet
    | DelegationTokenSet
    | DelegationTokensRemoved
)

ENTRY_TYPES: dict[int, type[Body]] = {
    1: ClusterCreated,
    2: FeatureLevelSet,
    3: BrokerRegistered,
    4: BrokerFenced,
    5: BrokerUnfenced,
    6: BrokerDraining,
    7: BrokerUnregistered,
    8: TopicCreated,
    9: TopicReady,
    10: TopicDeleted,
    11: PartitionsCreated,
    12: PartitionsChanged,
    13: ConfigsSet,
    14: ProducerIdsAllocated,
    15: ScramKeysSet,
    16: ScramKeysRemoved,
    17: AclsAdded,
    18: AclsRemoved,
    19: ClientQuotasSet,
    20: DelegationTokenSet,
    21: DelegationTokensRemoved,
}
"""The types by their numbers, which never change."""
_NUMBERS = {kind: number for number, kind in ENTRY_TYPES.items()}
_VERSION = 0
_HEADER = bits.Struct(">hhqq")


class MetadataEntry(NamedTuple):
    """One decoded entry with the mark of its writer."""

    broker_epoch: int
    sequence: int
    body: Body


def encode_entry(body: Body, *, broker_epoch: int, sequence: int) -> bytes:
    """The bytes a coordination engine keeps; at most `ENTRY_LIMIT` of them."""
    out = bytearray(_HEADER.pack(_NUMBERS[type(body)], _VERSION, broker_epoch, sequence))
    encoder(type(body), _VERSION)(body, out)
    if len(out) > ENTRY_LIMIT:
        raise InvariantBroken(f"a {type(body).__name__} of {len(out)} bytes is more than one entry may have")
    return bytes(out)


def decode_entry(data: bytes) -> MetadataEntry:
    """UnknownEntry if a newer release wrote it; MalformedMessage if it is damaged."""
    if len(data) < _HEADER.size:
        raise MalformedMessage(f"a metadata entry of {len(data)} bytes")
    number, version, broker_epoch, sequence = _HEADER.unpack_from(data)
    kind = ENTRY_TYPES.get(number)
    if kind is None or version > _VERSION:
        raise UnknownEntry(
            f"The metadata log holds an entry of type {number}, version {version}, which this release does not know: "
            "a newer release wrote it. Start that release, or a later one."
        )
    body, end = decoder(kind, version)(memoryview(data), _HEADER.size)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes too many in a metadata entry of type {number}")
    return MetadataEntry(broker_epoch, sequence, body)
