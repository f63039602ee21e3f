"""From a command and the state to entries, or to the error for the caller. Pure: the same on every broker.

`broker/metadata_log/metadata_follow.py` calls this with the commands of handlers and machines, and appends the entries;
on a conflict it catches up and decides again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.cluster import acls, brokers, configs, features, partitions, quotas, reassign, tokens, topics, users
from ottla.cluster.broker_commands import (
    BringOnline,
    DrainBroker,
    FenceBroker,
    RegisterBroker,
    TakeOffline,
    UnfenceBroker,
    UnregisterBroker,
)
from ottla.cluster.commands import (
    AddFirstUsers,
    AllocateProducerIds,
    AlterReassignment,
    BalanceLeaders,
    ChangeInSync,
    Command,
    CommandWriter,
    CreateAcls,
    CreatePartitions,
    CreateTopic,
    DeleteAcls,
    DeleteTopic,
    DeposeShortLeader,
    EditConfigs,
    EditQuotas,
    EditScramKeys,
    ElectLeader,
    RaiseMetadataVersion,
    RaiseReplication,
    ResignLeadership,
    UpdateFeatures,
    WithdrawReplica,
)
from ottla.cluster.token_commands import ChangeToken, CreateToken
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata.entries import Body
from ottla.metadata.state import Metadata


def decide(command: Command, state: Metadata, by: CommandWriter) -> list[Body] | ApiError:
    """The entries to append for a command, all of them or none; an empty list if nothing changes."""
    if isinstance(command, RegisterBroker):
        return brokers.register(command, state)
    if isinstance(command, UnfenceBroker):
        return brokers.unfence(command, state)
    registered = state.brokers.get(by.broker_id)
    if registered is None or registered.epoch != by.epoch or registered.fenced:
        return ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {by.broker_id} of epoch {by.epoch} may not act.")
    return _DECISIONS[type(command)](command, state, by)


Decision = Callable[[Any, Metadata, CommandWriter], "list[Body] | ApiError"]


def _without_writer(decide_it: Callable[[Any, Metadata], list[Body] | ApiError]) -> Decision:
    return lambda command, state, _by: decide_it(command, state)


_DECISIONS: dict[type, Decision] = {
    CreateTopic: _without_writer(topics.create),
    DeleteTopic: _without_writer(topics.delete),
    CreatePartitions: _without_writer(topics.create_partitions),
    ChangeInSync: partitions.change_in_sync,
    ResignLeadership: partitions.resign,
    WithdrawReplica: partitions.withdraw,
    DeposeShortLeader: partitions.depose,
    ElectLeader: _without_writer(partitions.elect),
    AlterReassignment: _without_writer(reassign.alter),
    RaiseReplication: _without_writer(reassign.raise_replication),
    BalanceLeaders: _without_writer(partitions.balance),
    EditConfigs: _without_writer(configs.edit),
    AllocateProducerIds: brokers.allocate_producer_ids,
    TakeOffline: brokers.take_offline,
    BringOnline: brokers.bring_online,
    FenceBroker: _without_writer(brokers.fence),
    DrainBroker: _without_writer(brokers.drain),
    RaiseMetadataVersion: _without_writer(brokers.raise_metadata_version),
    UpdateFeatures: _without_writer(features.update),
    UnregisterBroker: _without_writer(brokers.unregister),
    EditScramKeys: _without_writer(users.edit_scram_keys),
    CreateToken: _without_writer(tokens.create),
    ChangeToken: _without_writer(tokens.change),
    CreateAcls: _without_writer(acls.create),
    DeleteAcls: _without_writer(acls.delete),
    EditQuotas: _without_writer(quotas.edit),
    AddFirstUsers: _without_writer(users.add_first_users),
}
"""Each command with its decision; RegisterBroker and UnfenceBroker come before, from brokers that may not act yet."""
