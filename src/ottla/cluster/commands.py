"""Commands to the cluster: they carry an intent and the state that it was based on, never its result (rule C3).

Handlers and machines make them, `broker/metadata_log/metadata_follow.py` submits them, `decide.py` answers with
entries. `footprint` names what a command reads and writes: commands with different footprints may share one append.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.cluster.broker_commands import (
    BringOnline,
    DrainBroker,
    FenceBroker,
    RegisterBroker,
    TakeOffline,
    UnfenceBroker,
    UnregisterBroker,
)
from ottla.cluster.footprints import EVERYTHING, Footprint
from ottla.cluster.token_commands import ChangeToken, CreateToken
from ottla.kernel.acls import Acl, AclFilter
from ottla.kernel.credentials import ScramKeys
from ottla.kernel.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from ottla.kernel.quotas import QuotaEntity

MIN_IN_SYNC = "min.insync.replicas"

Assignment = tuple[tuple[BrokerId, ...], ...]
"""The replicas of each partition, in order; the first is preferred as leader."""


class CommandWriter(NamedTuple):
    """The asking broker: its command is refused if it is not registered in this epoch, or is fenced."""

    broker_id: BrokerId
    epoch: BrokerEpoch


class CreateTopic(NamedTuple):
    """Create a topic with `assignment`, or with numbers of partitions and replicas.

    `as_far_as_possible` takes fewer replicas if there are fewer brokers: so internal topics start on one broker.
    """

    name: str
    topic_id: TopicId
    partitions: int = -1
    replication_factor: int = -1
    assignment: Assignment | None = None
    configs: tuple[tuple[str, str], ...] = ()
    as_far_as_possible: bool = False

    @property
    def footprint(self) -> Footprint:
        # colliding names ('.' and '_') must have the same footprint
        return ("topic", self.name.replace(".", "_"))


class DeleteTopic(NamedTuple):
    name: str
    topic_id: TopicId

    @property
    def footprint(self) -> Footprint:
        return ("topic", self.name.replace(".", "_"))


class CreatePartitions(NamedTuple):
    """Raise a topic's number of partitions to `total`; `assignment` is for the new ones."""

    name: str
    total: int
    assignment: Assignment | None = None

    @property
    def footprint(self) -> Footprint:
        return ("topic", self.name.replace(".", "_"))


class ReplicaEpoch(NamedTuple):
    """A replica that a leader wants in sync, and the incarnation that the leader knows to hold the records."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class ChangeInSync(NamedTuple):
    """A leader's proposal of another in-sync set, based on the epochs it acts in (rule A4)."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    in_sync: tuple[ReplicaEpoch, ...]

    @property
    def footprint(self) -> Footprint:
        return ("partition", self.topic_id, self.partition)


class ElectLeader(NamedTuple):
    """Give a partition back to its preferred leader, or, `unclean`, elect any live leader."""

    topic: str
    partition: int
    unclean: bool
    if_allowed: bool = False
    """True if no administrator asked for it: then only if the topic's options allow it."""
    longest: tuple[BrokerId, ...] = ()
    """The live replicas by their reported log lengths; the first that is still alive leads uncleanly."""
    asked_at: PartitionEpoch | None = None
    """The partition when they were asked: once it has changed, their logs may be longer or shorter."""

    @property
    def footprint(self) -> Footprint:
        return ("partition of", self.topic, self.partition)


class ResignLeadership(NamedTuple):
    """A leader whose log is damaged asks that another in-sync replica leads; it stays in sync as a follower."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch

    @property
    def footprint(self) -> Footprint:
        return ("partition", self.topic_id, self.partition)


class WithdrawReplica(NamedTuple):
    """A follower that would have to cut its log behind damage asks to leave the in-sync and eligible sets."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch

    @property
    def footprint(self) -> Footprint:
        return ("partition", self.topic_id, self.partition)


class DeposeShortLeader(NamedTuple):
    """A replica that counts reports that its leader lacks committed records: another one shall lead (rule A11)."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch

    @property
    def footprint(self) -> Footprint:
        return ("partition", self.topic_id, self.partition)


class AlterReassignment(NamedTuple):
    """Give a partition other replicas; None cancels the running reassignment."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None
    may_change_factor: bool = True

    @property
    def footprint(self) -> Footprint:
        return ("partition of", self.topic, self.partition)


class BalancedPartition(NamedTuple):
    """A partition that is not led by its preferred replica, as it was seen."""

    topic_id: TopicId
    partition: int
    partition_epoch: PartitionEpoch


class BalanceLeaders(NamedTuple):
    """Give partitions back to their preferred leaders, if they have not changed since they were seen."""

    partitions: tuple[BalancedPartition, ...]

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class RaiseReplication(NamedTuple):
    """Add replicas to a topic's partitions that have fewer than `factor`, as far as there are brokers."""

    topic: str
    factor: int

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class RaiseMetadataVersion(NamedTuple):
    """Use a later level of the metadata log, which every broker knows by now."""

    level: int

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class FeatureChange(Enum):
    """The way that a feature's level may change; the numbers are UpdateFeatures'."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One feature's new level; `kind` is None for a number that has no meaning."""

    feature: str
    level: int
    kind: FeatureChange | None


class UpdateFeatures(NamedTuple):
    """Use features at other levels, all of them or none; `validate_only` changes nothing."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class EditScramKeys(NamedTuple):
    """Set a user's keys for a mechanism of SCRAM (its number as in KIP-554), or remove them (None)."""

    user: str
    mechanism: int
    keys: ScramKeys | None

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class CreateAcls(NamedTuple):
    """Add these ACLs; those that are there already stay."""

    acls: tuple[Acl, ...]

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class DeleteAcls(NamedTuple):
    """Remove the ACLs that one of these filters takes."""

    filters: tuple[AclFilter, ...]

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class AddFirstUsers(NamedTuple):
    """Set keys of users by (user, mechanism), where the cluster has no user with a password yet; else do nothing."""

    keys: tuple[tuple[str, int, ScramKeys], ...]

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class ConfigOperation(Enum):
    """Numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEdit(NamedTuple):
    """One edit of one option; `inherited` is the value that APPEND and SUBTRACT start from if none is set."""

    name: str
    operation: ConfigOperation
    value: str = ""
    inherited: str = ""


class EditConfigs(NamedTuple):
    """Edit options of a topic, a broker ("" for all), or a group; checked already by the handler."""

    resource_type: int
    resource_name: str
    edits: tuple[ConfigEdit, ...]
    replace: bool = False
    """True if options that are not edited are removed (AlterConfigs)."""

    @property
    def footprint(self) -> Footprint:
        return ("configs", self.resource_type, self.resource_name)


class AllocateProducerIds(NamedTuple):
    """A block of producer ids for the asking broker."""

    size: int = 1000

    @property
    def footprint(self) -> Footprint:
        return ("producer ids",)


class EditQuotas(NamedTuple):
    """Set quotas of an entity; None takes one away. The handler has checked keys and values."""

    entity: QuotaEntity
    edits: tuple[tuple[str, float | None], ...]

    @property
    def footprint(self) -> Footprint:
        return ("quotas", str(self.entity))


Command = (
    CreateTopic
    | DeleteTopic
    | CreatePartitions
    | ChangeInSync
    | ElectLeader
    | ResignLeadership
    | WithdrawReplica
    | DeposeShortLeader
    | AlterReassignment
    | BalanceLeaders
    | RaiseReplication
    | RaiseMetadataVersion
    | UpdateFeatures
    | RegisterBroker
    | TakeOffline
    | BringOnline
    | FenceBroker
    | UnfenceBroker
    | DrainBroker
    | UnregisterBroker
    | EditConfigs
    | AllocateProducerIds
    | EditScramKeys
    | CreateToken
    | ChangeToken
    | CreateAcls
    | DeleteAcls
    | AddFirstUsers
    | EditQuotas
)
