"""From a command and the state to entries, or to the error for the caller. Pure: the same on every broker.

`broker/metadata_log/metadata_follow.py` calls this with the commands of handlers and machines, and appends the entries;
on a conflict it catches up and decides again.
"""

from __future__ import annotations

from ottla.cluster import brokers, configs, features, partitions, reassign, topics
from ottla.cluster.commands import (
    AllocateProducerIds,
    AlterReassignment,
    BalanceLeaders,
    BringOnline,
    ChangeInSync,
    Command,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DeposeShortLeader,
    DrainBroker,
    EditConfigs,
    ElectLeader,
    FenceBroker,
    RaiseMetadataVersion,
    RaiseReplication,
    RegisterBroker,
    ResignLeadership,
    TakeOffline,
    UnfenceBroker,
    UnregisterBroker,
    UpdateFeatures,
    WithdrawReplica,
    Writer,
)
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata.entries import Body
from ottla.metadata.state import Metadata


def decide(command: Command, state: Metadata, by: Writer) -> list[Body] | ApiError:
    """The entries to append for a command, all of them or none; an empty list if nothing changes."""
    if isinstance(command, RegisterBroker):
        return brokers.register(command, state)
    if isinstance(command, UnfenceBroker):
        return brokers.unfence(command, state)
    registered = state.brokers.get(by.broker_id)
    if registered is None or registered.epoch != by.epoch or registered.fenced:
        return ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {by.broker_id} of epoch {by.epoch} may not act.")
    return _decide_for_registered(command, state, by)


def _decide_for_registered(command: Command, state: Metadata, by: Writer) -> list[Body] | ApiError:
    if isinstance(command, CreateTopic):
        return topics.create(command, state)
    if isinstance(command, DeleteTopic):
        return topics.delete(command, state)
    if isinstance(command, CreatePartitions):
        return topics.create_partitions(command, state)
    if isinstance(command, ChangeInSync):
        return partitions.change_in_sync(command, state, by)
    if isinstance(command, ResignLeadership):
        return partitions.resign(command, state, by)
    if isinstance(command, WithdrawReplica):
        return partitions.withdraw(command, state, by)
    if isinstance(command, DeposeShortLeader):
        return partitions.depose(command, state, by)
    if isinstance(command, ElectLeader):
        return partitions.elect(command, state)
    if isinstance(command, AlterReassignment):
        return reassign.alter(command, state)
    if isinstance(command, RaiseReplication):
        return reassign.raise_replication(command, state)
    if isinstance(command, BalanceLeaders):
        return partitions.balance(command, state)
    if isinstance(command, EditConfigs):
        return configs.edit(command, state)
    if isinstance(command, AllocateProducerIds):
        return brokers.allocate_producer_ids(command, state, by)
    if isinstance(command, TakeOffline):
        return brokers.take_offline(command, state, by)
    if isinstance(command, BringOnline):
        return brokers.bring_online(command, state, by)
    if isinstance(command, FenceBroker):
        return brokers.fence(command, state)
    if isinstance(command, DrainBroker):
        return brokers.drain(command, state)
    if isinstance(command, RaiseMetadataVersion):
        return brokers.raise_metadata_version(command, state)
    if isinstance(command, UpdateFeatures):
        return features.update(command, state)
    assert isinstance(command, UnregisterBroker)
    return brokers.unregister(command, state)
