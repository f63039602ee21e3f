"""Commands about brokers and their log directories; `commands.py` says what a command is."""

from __future__ import annotations

from typing import NamedTuple

from ottla.cluster.footprints import EVERYTHING, Footprint
from ottla.kernel.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicId
from ottla.metadata.broker_state import HeldDirectory, Listener

ReplicasByTopic = tuple[tuple[TopicId, tuple[int, ...]], ...]
"""A broker's replicas: topics with the partitions that it holds, or should hold."""


class NewCluster(NamedTuple):
    """The cluster id that the first broker gives to an empty log."""

    cluster_id: str
    secret: bytes


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
