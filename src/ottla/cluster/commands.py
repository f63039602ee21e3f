"""Commands to the cluster: they carry an intent and what it was based on, never its result (rule C3).

Handlers and machines make them, `broker/control/metadata_follow.py` submits them, `decide.py` answers with entries.
`footprint` names what a command reads and writes: commands that do not meet may share one append.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.kernel.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from ottla.metadata.state import HeldDirectory, Listener

MIN_IN_SYNC = "min.insync.replicas"

Assignment = tuple[tuple[BrokerId, ...], ...]
"""The replicas of each partition, in order; the first is preferred as leader."""
ReplicasByTopic = tuple[tuple[TopicId, tuple[int, ...]], ...]
"""A broker's replicas: topics with the partitions of which it holds, or should hold, one."""
Footprint = tuple[str | bytes | int, ...]
EVERYTHING: Footprint = ("everything",)
"""The footprint of commands that share an append with no other."""


class Writer(NamedTuple):
    """The asking broker: a command of a broker that is not registered in this epoch, or fenced, is refused."""

    broker_id: BrokerId
    epoch: BrokerEpoch


class CreateTopic(NamedTuple):
    """With `assignment`, or with numbers of partitions and replicas.

    `as_far_as_possible` takes fewer replicas where there are fewer brokers: so internal topics start on one broker.
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
        # names that collide ('.' and '_') must meet
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
    """A replica a leader wants in sync, and the incarnation of which it knows that it holds the records."""

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
    """Give a partition back to its preferred leader, or, `unclean`, give it any leader that lives."""

    topic: str
    partition: int
    unclean: bool
    if_allowed: bool = False
    """Nobody asked for it: only where the topic's options let it happen."""
    longest: tuple[BrokerId, ...] = ()
    """The living replicas by the length of their logs, as they said; the first that still lives leads uncleanly."""
    asked_at: PartitionEpoch | None = None
    """The partition as it was when they were asked: once it has changed, they may be longer or shorter."""

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
    """A follower whose log stays as it is, as it was to be cut behind damage, asks that it counts no more."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch

    @property
    def footprint(self) -> Footprint:
        return ("partition", self.topic_id, self.partition)


class DeposeShortLeader(NamedTuple):
    """A replica that counts reports that its leader lacks what was committed: another one shall lead (rule A11)."""

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
    """Other replicas for a partition; None takes back the reassignment that runs."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None
    may_change_factor: bool = True

    @property
    def footprint(self) -> Footprint:
        return ("partition of", self.topic, self.partition)


class BalancedPartition(NamedTuple):
    """A partition that another replica leads than the preferred one, as it was seen."""

    topic_id: TopicId
    partition: int
    partition_epoch: PartitionEpoch


class BalanceLeaders(NamedTuple):
    """Give partitions back to their preferred leaders, as far as they are still as they were seen."""

    partitions: tuple[BalancedPartition, ...]

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class RaiseReplication(NamedTuple):
    """More replicas for a topic's partitions that have fewer than `factor`, as far as there are brokers."""

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
    """Replicas in a log directory that is older than what was last known of it (rule H2)."""

    replicas: ReplicasByTopic
    """Those that lie in it, and those that are in none of the broker's directories and should be."""
    found: tuple[str, ...]
    """The incarnations that it may be of."""
    expected: str
    """The one that was last known to stand in it."""


class AcceptedStore(NamedTuple):
    """An administrator has a broker take an older metadata store as it is: what others made of it is not to be met."""

    newest_epochs: tuple[tuple[TopicId, int, LeaderEpoch], ...]
    """The last leader epoch in the log of each of the broker's replicas."""


class UpgradeType(Enum):
    """The way that a feature's level may go; the numbers are UpdateFeatures'."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One feature's new level; `kind` None is a number that stands for nothing."""

    feature: str
    level: int
    kind: UpgradeType | None


class UpdateFeatures(NamedTuple):
    """Use features at other levels, all of them or none; `validate_only` changes nothing."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class RegisterBroker(NamedTuple):
    """A broker has recovered its logs and wants to act; ends whatever its last incarnation led (rule A8)."""

    broker_id: BrokerId
    incarnation: bytes
    host: str
    rack: str | None
    listeners: tuple[Listener, ...]
    new_cluster: NewCluster
    damaged: ReplicasByTopic = ()
    """Replicas that may neither lead nor count (rule A7)."""
    short: ReplicasByTopic = ()
    """Replicas that may have lost their tail: they do not count while another in-sync replica is there."""
    options: tuple[tuple[str, str], ...] = ()
    """The options in `partitions.DECIDING` as the broker's own file has them."""
    offline: ReplicasByTopic = ()
    """Replicas in log directories that could not be opened: they neither lead nor join, and may come back whole."""
    directories: tuple[str, ...] = ()
    """The ids of its log directories (KIP-858): by them it knows at its next start whether one is another."""
    held: tuple[HeldDirectory, ...] = ()
    """The incarnations that stand in them from now on."""
    rolled_back: tuple[RolledBack, ...] = ()
    """Replicas that neither lead nor count until they have what others have."""
    accepted_store: AcceptedStore | None = None

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class TakeOffline(NamedTuple):
    """A log directory of the asking broker has failed, and with it these replicas; its others go on."""

    replicas: ReplicasByTopic

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class BringOnline(NamedTuple):
    """The asking broker has opened these replicas, which it had reported offline."""

    replicas: ReplicasByTopic
    short: ReplicasByTopic = ()
    """Those that may have lost their tail, as in a registration."""

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
    """A broker is about to stop: its leaderships go elsewhere, as far as there is an elsewhere."""

    broker_id: BrokerId
    epoch: BrokerEpoch

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class UnregisterBroker(NamedTuple):
    """Forget a broker; one that still lives is fenced first, and ends once it hears of it.

    Until then, for a lease at most, it may tell groups less than they have committed elsewhere: stop it before.
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
    """One edit of one option; `inherited` is what APPEND and SUBTRACT start from where nothing is set."""

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
)


_OF_SETS = (DeposeShortLeader, ResignLeadership, WithdrawReplica, ChangeInSync)


def goes_first(command: Command) -> bool:
    """Leaders and in-sync sets are decided before what can wait: creating thousands of topics, say (rule A4)."""
    return isinstance(command, (FenceBroker, TakeOffline, BringOnline, *_OF_SETS))


def sharing(command: Command) -> int:
    """Commands of one number above 0 may share an append, where their footprints differ: none sees what the other
    changes, so that all may be decided on one state. What is required in sync decides over sets: it is alone."""
    if isinstance(command, EditConfigs) and (command.replace or any(one.name == MIN_IN_SYNC for one in command.edits)):
        return 0
    if isinstance(command, (AllocateProducerIds, EditConfigs, *_OF_SETS)):
        return 1
    if isinstance(command, ElectLeader | AlterReassignment):
        return 3
    return 2 if isinstance(command, CreateTopic) else 0


def may_share_append(one: Command, other: Command) -> bool:
    return sharing(one) == sharing(other) != 0 and one.footprint != other.footprint
