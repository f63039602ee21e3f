"""Commands to the cluster: they carry an intent and the state that it was based on, never its result (rule C3).

Handlers and machines make them, `broker/metadata_log/metadata_follow.py` submits them, `decide.py` answers with
entries. `footprint` names what a command reads and writes: commands with different footprints may share one append.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.cluster.footprints import EVERYTHING, Footprint
from ottla.cluster.token_commands import ChangeToken, CreateToken
from ottla.kernel.acls import Acl, AclFilter
from ottla.kernel.credentials import ScramKeys
from ottla.kernel.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from ottla.kernel.quotas import QuotaEntity
from ottla.metadata.broker_state import HeldDirectory, Listener

MIN_IN_SYNC = "min.insync.replicas"

Assignment = tuple[tuple[BrokerId, ...], ...]
"""The replicas of each partition, in order; the first is preferred as leader."""
ReplicasByTopic = tuple[tuple[TopicId, tuple[int, ...]], ...]
"""A broker's replicas: topics with the partitions that it holds, or should hold."""


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


class NewCluster(NamedTuple):
    """The cluster id that the first broker gives to an empty log."""

    cluster_id: str
    secret: bytes


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


class RolledBack(NamedTuple):
    """Replicas in a log directory that is older than its last known state (rule H2)."""

    replicas: ReplicasByTopic
    """The replicas in it, and missing ones that should be in one of the broker's directories."""
    found: tuple[str, ...]
    """The incarnations that the directory may be of."""
    expected: str
    """The incarnation that was last known to have written it."""


class AcceptedStore(NamedTuple):
    """An administrator has a broker accept an older metadata store: epochs jump over those given out since."""

    newest_epochs: tuple[tuple[TopicId, int, LeaderEpoch], ...]
    """The last leader epoch in the log of each of the broker's replicas."""


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


class RegisterBroker(NamedTuple):
    """A broker has recovered its logs and wants to act; this ends all leaderships of its last incarnation (rule A8)."""

    broker_id: BrokerId
    incarnation: bytes
    host: str
    rack: str | None
    listeners: tuple[Listener, ...]
    new_cluster: NewCluster
    damaged: ReplicasByTopic = ()
    """Replicas that may neither lead nor count (rule A7)."""
    short: ReplicasByTopic = ()
    """Replicas that may have lost their tail: they do not count while another in-sync replica exists."""
    options: tuple[tuple[str, str], ...] = ()
    """The options in `partitions.DECIDING`, as the broker's own file sets them."""
    offline: ReplicasByTopic = ()
    """Replicas in log directories that could not be opened: they neither lead nor join, and may come back whole."""
    directories: tuple[str, ...] = ()
    """The ids of its log directories (KIP-858): by them its next start finds out whether one was replaced."""
    held: tuple[HeldDirectory, ...] = ()
    """The incarnations that write to them from now on."""
    rolled_back: tuple[RolledBack, ...] = ()
    """Replicas that neither lead nor count until they have fetched the others' records."""
    accepted_store: AcceptedStore | None = None
    unreadable: ReplicasByTopic = ()
    """Replicas that could not be opened: damaged while another one counts, else offline, and may come back whole."""

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class TakeOffline(NamedTuple):
    """A log directory of the asking broker has failed, and its replicas with it; the other directories go on."""

    replicas: ReplicasByTopic

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class BringOnline(NamedTuple):
    """The asking broker has opened these replicas, which it had reported offline."""

    replicas: ReplicasByTopic
    short: ReplicasByTopic = ()
    """The replicas that may have lost their tail, as in a registration."""

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class FenceBroker(NamedTuple):
    """The broker of this epoch must not act any more. `stopped`: it said so itself. `early`: its session goes on."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    stopped: bool = False
    early: bool = False
    closed: tuple[str, ...] = ()
    """The ids of the log directories that it has closed cleanly."""
    newcomers: tuple[BrokerId, ...] = ()
    """Brokers that started a moment ago, the first to start first: other replicas are elected before theirs."""

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class UnfenceBroker(NamedTuple):
    """A broker that was fenced lives after all."""

    broker_id: BrokerId
    epoch: BrokerEpoch

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class DrainBroker(NamedTuple):
    """A broker is about to stop: its leaderships move to other brokers, as far as these can lead."""

    broker_id: BrokerId
    epoch: BrokerEpoch

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class UnregisterBroker(NamedTuple):
    """Forget a broker; a live one is fenced first, and stops once it learns of that.

    Until then, for a lease at most, it may answer groups with outdated offsets: stop it before.
    """

    broker_id: BrokerId

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
