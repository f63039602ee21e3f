"""Brokers come, go and come back: registration, fencing, draining, and their blocks of producer ids.

Each of these changes the partitions of the broker in the same append, so that no state in between is ever seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.broker_commands import (
    AcceptedStore,
    BringOnline,
    DrainBroker,
    FenceBroker,
    RegisterBroker,
    ReplicasByTopic,
    TakeOffline,
    UnfenceBroker,
    UnregisterBroker,
)
from ottla.cluster.commands import MIN_IN_SYNC, AllocateProducerIds, CommandWriter, RaiseMetadataVersion
from ottla.cluster.partitions import (
    IsActive,
    changed_entries,
    later,
    least_started_with,
    min_in_sync,
    settled,
    with_leader_elected,
    with_offline,
    without_broker,
    without_damaged,
    without_rolled_back,
    without_short,
)
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicId
from ottla.metadata import entries as log
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import METADATA_VERSION, Metadata, Topic

FIRST_METADATA_VERSION = 1
EARLY_FENCES = 2
"""The level from which on a fence may be marked as early: every broker knows what coordinators must do then."""
LEADERS_COMPLETE = 2
"""A broker that knows this level completes the reassignments of what it leads."""
TRANSACTIONS = 4
"""The level from which on every broker coordinates transactions and takes their markers."""
CONSUMER_GROUPS = 5
"""The level from which on every broker coordinates groups of the consumer protocol (KIP-848)."""
SECURITY = 6
"""The level from which on users are kept in the metadata."""
ACLS = 7
"""The level from which on ACLs are kept in the metadata."""
QUOTAS = 8
"""The level from which on clients' quotas are kept in the metadata."""
DELEGATION_TOKENS = 9
"""The level from which on delegation tokens are kept in the metadata."""
LATEST_METADATA_VERSION = DELEGATION_TOKENS
"""The features of ottla's own metadata log; decisions are gated by the level in the state (rule C1)."""
_LAST_PRODUCER_ID = (1 << 63) - 1
_PRODUCER_IDS_LOST = 1 << 40
_EPOCHS_LOST = 1 << 16
"""The distance by which epochs jump ahead if the store is older than the logs: an epoch given out since the store
was saved is not given out again."""
_TOPIC_BYTES = 32
"""The most bytes of a topic in an entry beside its partitions."""


def register(command: RegisterBroker, state: Metadata) -> list[log.Body] | ApiError:
    """The registration, and the end of every leadership of the broker's last incarnation (rule A8)."""
    entries: list[log.Body] = []
    if not state.cluster_id:
        new = command.new_cluster
        entries.append(log.ClusterCreated(cluster_id=new.cluster_id, secret=new.secret))
        entries.append(log.FeatureLevelSet(name=METADATA_VERSION, level=LATEST_METADATA_VERSION))
    elif state.metadata_version() > LATEST_METADATA_VERSION:
        return ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The cluster is at {METADATA_VERSION} {state.metadata_version()}; this release knows "
            f"{LATEST_METADATA_VERSION} at most.",
        )
    entries.append(
        log.BrokerRegistered(
            broker_id=command.broker_id,
            incarnation=command.incarnation,
            host=command.host,
            rack=command.rack,
            listeners=[
                log.ListenerEntry(name=name, host=host, port=port, security_protocol=protocol)
                for name, host, port, protocol in command.listeners
            ],
            damaged=_named(command.damaged + command.unreadable),
            short=_named(command.short),
            metadata_version=LATEST_METADATA_VERSION,
            options=[log.ConfigChange(name=name, value=value) for name, value in command.options],
            directories=list(command.directories),
            held=[
                log.HeldDirectoryRecord(directory_id=one.directory_id, incarnation=one.incarnation, closed=one.closed)
                for one in command.held
            ],
            rolled_back=_named(tuple(topic for some in command.rolled_back for topic in some.replicas)),
        )
    )
    if command.accepted_store is not None:
        beyond = state.next_producer_id + _PRODUCER_IDS_LOST
        entries.append(log.ProducerIdsAllocated(broker_id=command.broker_id, first=beyond, count=0))
    return entries + changed_entries(_partitions_at_registration(command, state))


def _named(replicas: ReplicasByTopic) -> list[log.DamagedTopic]:
    """As many damaged replicas as fit. They tell readers of the log why other entries change sets."""
    named: list[log.DamagedTopic] = []
    size = 0
    for topic_id, some in replicas:
        size += _TOPIC_BYTES + 4 * len(some)
        if size > log.ENTRY_LIMIT // 4:
            break
        named.append(log.DamagedTopic(topic_id=topic_id, partitions=list(some)))
    return named


def _partitions_at_registration(command: RegisterBroker, state: Metadata) -> Iterator[PartitionState]:
    damaged, short, offline = _keys(command.damaged), _keys(command.short), _keys(command.offline)
    unreadable = _keys(command.unreadable)
    accepted = None if command.accepted_store is None else _newest_epochs(command.accepted_store)
    rolled_back = {key: some for some in command.rolled_back for key in _keys(some.replicas)}
    is_active = _with(state, command.broker_id, active=True)
    least = least_started_with(state, command.broker_id, dict(command.options).get(MIN_IN_SYNC))
    fewer = least < least_started_with(state)
    if fewer:
        yield from _settled_elsewhere(state, command.broker_id, least)
    for topic, before in _partitions_of(state, command.broker_id):
        key = (topic.topic_id, before.partition)
        led = before.leader == command.broker_id
        others_count = any(one != command.broker_id for one in (*before.in_sync, *before.eligible))
        is_offline = key in offline or (key in unreadable and not others_count)
        after = with_offline(before, command.broker_id, offline=is_offline)
        if is_offline:
            after = without_broker(after, state, topic, command.broker_id, is_active)
        elif key in rolled_back:
            after = without_rolled_back(after, command.broker_id, rolled_back[key])
        elif key in damaged or key in unreadable:
            after = without_damaged(after, command.broker_id)
        elif key in short:
            after = without_short(after, command.broker_id, min_in_sync(state, topic))
        if led or not after.has_leader:
            after = with_leader_elected(after._replace(leader=NO_LEADER), state, topic, is_active=is_active)
        if fewer:
            after = settled(after, min_in_sync(state, topic, least))
        if accepted is not None:
            newest = max(before.leader_epoch, accepted.get(key, before.leader_epoch))
            after = later(before, after, ends_leadership=True)
            yield after._replace(leader_epoch=LeaderEpoch(newest + _EPOCHS_LOST))
        elif after != before or led:
            yield later(before, after, ends_leadership=led)


def _newest_epochs(accepted: AcceptedStore) -> dict[tuple[TopicId, int], LeaderEpoch]:
    return {(topic_id, index): epoch for topic_id, index, epoch in accepted.newest_epochs}


def _settled_elsewhere(state: Metadata, broker_id: BrokerId, least: int) -> Iterator[PartitionState]:
    """Settle partitions without a replica on this broker, as its options lower the number that is required in sync."""
    for topic in state.topics.values():
        for before in topic.partitions:
            if before.eligible and broker_id not in before.replicas:
                after = settled(before, min_in_sync(state, topic, least))
                if after != before:
                    yield later(before, after)


def _keys(replicas: ReplicasByTopic) -> set[tuple[TopicId, int]]:
    return {(topic_id, index) for topic_id, some in replicas for index in some}


def take_offline(command: TakeOffline, state: Metadata, by: CommandWriter) -> list[log.Body]:
    """Take the replicas of a failed log directory offline, while its broker goes on: they neither lead nor count.

    The last replica in sync stays in the set without leading, as that of a dead broker does: it may come back whole.
    """
    changed = []
    offline = _keys(command.replicas)
    for topic, before in _partitions_of(state, by.broker_id):
        if (topic.topic_id, before.partition) in offline:
            after = with_offline(before, by.broker_id, offline=True)
            after = without_broker(after, state, topic, by.broker_id, state.is_active)
            if after != before:
                changed.append(later(before, after))
    return changed_entries(changed)


def bring_online(command: BringOnline, state: Metadata, by: CommandWriter) -> list[log.Body]:
    """Take replicas back that a broker has opened: one that is in sync leads, if no replica does."""
    changed = []
    online, short = _keys(command.replicas), _keys(command.short)
    for topic, before in _partitions_of(state, by.broker_id):
        key = (topic.topic_id, before.partition)
        if key in online and by.broker_id in before.offline:
            after = with_offline(before, by.broker_id, offline=False)
            if key in short:
                after = without_short(after, by.broker_id, min_in_sync(state, topic))
            if not after.has_leader:
                after = with_leader_elected(after, state, topic)
            changed.append(later(before, after))
    return changed_entries(changed)


def fence(command: FenceBroker, state: Metadata) -> list[log.Body] | ApiError:
    """End an incarnation; nothing to do if it has ended already."""
    broker = state.brokers.get(command.broker_id)
    if broker is None or broker.epoch != command.epoch:
        return ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {command.broker_id} has another epoch.")
    if broker.fenced:
        return []
    if command.early and state.metadata_version() < EARLY_FENCES:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, "Not every broker knows of early fences.")
    entry = log.BrokerFenced(
        broker_id=command.broker_id,
        epoch=command.epoch,
        stopped=command.stopped,
        early=command.early,
        closed=list(command.closed),
    )
    return [entry, *changed_entries(_partitions_without(state, command.broker_id, command.newcomers))]


def known_metadata_version(state: Metadata) -> int:
    """The version that every registered broker knows, including those that are down: they come back as they were."""
    return min((broker.metadata_version for broker in state.brokers.values()), default=FIRST_METADATA_VERSION)


def raise_metadata_version(command: RaiseMetadataVersion, state: Metadata) -> list[log.Body] | ApiError:
    """Raise the level: decisions may write what it allows, and no broker joins that does not know it."""
    if command.level <= state.metadata_version():
        return []
    if command.level > known_metadata_version(state):
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Not every broker knows {METADATA_VERSION} {command.level}.")
    return [log.FeatureLevelSet(name=METADATA_VERSION, level=command.level)]


def unfence(command: UnfenceBroker, state: Metadata) -> list[log.Body] | ApiError:
    """Bring a broker back to life in the same epoch; partitions that wait for it get a leader."""
    broker = state.brokers.get(command.broker_id)
    if broker is None or broker.epoch != command.epoch:
        return ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {command.broker_id} has another epoch.")
    if not broker.fenced:
        return []
    is_active = _with(state, command.broker_id, active=not broker.draining)
    changed = []
    for topic, before in _partitions_of(state, command.broker_id):
        if not before.has_leader:
            after = with_leader_elected(before, state, topic, is_active=is_active)
            if after != before:
                changed.append(later(before, after))
    return [log.BrokerUnfenced(broker_id=command.broker_id, epoch=command.epoch), *changed_entries(changed)]


def drain(command: DrainBroker, state: Metadata) -> list[log.Body] | ApiError:
    """Prepare a broker's stop: other brokers lead what they can from now on; it leads the rest to the end."""
    broker = state.brokers.get(command.broker_id)
    if broker is None or broker.epoch != command.epoch:
        return ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {command.broker_id} has another epoch.")
    if broker.draining:
        return []
    is_active = _with(state, command.broker_id, active=False)
    changed = []
    for topic, before in _partitions_of(state, command.broker_id):
        others = [other for other in before.in_sync if other != command.broker_id and is_active(other)]
        if others:
            after = without_broker(before, state, topic, command.broker_id, is_active)
            if after != before:
                changed.append(later(before, after))
    return [log.BrokerDraining(broker_id=command.broker_id, epoch=command.epoch), *changed_entries(changed)]


def unregister(command: UnregisterBroker, state: Metadata) -> list[log.Body] | ApiError:
    broker = state.brokers.get(command.broker_id)
    if broker is None:
        return ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {command.broker_id} is not currently registered"
        )
    entries: list[log.Body] = []
    if not broker.fenced:
        entries.append(log.BrokerFenced(broker_id=command.broker_id, epoch=broker.epoch, stopped=False))
        entries += changed_entries(_partitions_without(state, command.broker_id))
    return [*entries, log.BrokerUnregistered(broker_id=command.broker_id)]


def allocate_producer_ids(
    command: AllocateProducerIds, state: Metadata, by: CommandWriter
) -> list[log.Body] | ApiError:
    """Give a broker the next block, for good: ids that it does not use are never used."""
    if state.next_producer_id > _LAST_PRODUCER_ID - command.size:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "There are no producer ids left.")
    return [log.ProducerIdsAllocated(broker_id=by.broker_id, first=state.next_producer_id, count=command.size)]


def _partitions_without(
    state: Metadata, broker_id: BrokerId, newcomers: tuple[BrokerId, ...] = ()
) -> list[PartitionState]:
    is_active = _with(state, broker_id, active=False)
    changed = []
    for topic, before in _partitions_of(state, broker_id):
        after = without_broker(before, state, topic, broker_id, is_active, newcomers)
        if after != before:
            changed.append(later(before, after))
    return changed


def _partitions_of(state: Metadata, broker_id: BrokerId) -> Iterator[tuple[Topic, PartitionState]]:
    for topic_id in sorted(state.topics):
        topic = state.topics[topic_id]
        for partition in topic.partitions:
            if broker_id in partition.replicas:
                yield topic, partition


def _with(state: Metadata, broker_id: BrokerId, *, active: bool) -> IsActive:
    """The active brokers after the change of one broker."""
    return lambda other: active if other == broker_id else state.is_active(other)
