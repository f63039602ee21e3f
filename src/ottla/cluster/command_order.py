"""The order of commands: those that go first, and those that may share an append."""

from __future__ import annotations

from ottla.cluster.broker_commands import BringOnline, FenceBroker, TakeOffline
from ottla.cluster.commands import (
    MIN_IN_SYNC,
    AllocateProducerIds,
    AlterReassignment,
    ChangeInSync,
    Command,
    CreateTopic,
    DeposeShortLeader,
    EditConfigs,
    ElectLeader,
    ResignLeadership,
    WithdrawReplica,
)

_OF_SETS = (DeposeShortLeader, ResignLeadership, WithdrawReplica, ChangeInSync)


def goes_first(command: Command) -> bool:
    """True for commands about leaders and in-sync sets: others, as new topics by the thousand, can wait (rule A4)."""
    return isinstance(command, (FenceBroker, TakeOffline, BringOnline, *_OF_SETS))


def sharing(command: Command) -> int:
    """The class of a command: commands of the same class above 0 may share an append, if their footprints differ.

    None of them reads what another changes, so all may be decided on one state. An edit of min.insync.replicas shares
    no append, since decisions about in-sync sets depend on it.
    """
    if isinstance(command, EditConfigs) and (command.replace or any(one.name == MIN_IN_SYNC for one in command.edits)):
        return 0
    if isinstance(command, (AllocateProducerIds, EditConfigs, *_OF_SETS)):
        return 1
    if isinstance(command, ElectLeader | AlterReassignment):
        return 3
    return 2 if isinstance(command, CreateTopic) else 0


def may_share_append(one: Command, other: Command) -> bool:
    return sharing(one) == sharing(other) != 0 and one.footprint != other.footprint
