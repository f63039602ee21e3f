"""Upkeep of a healthy cluster.

Leaderships return to preferred replicas, internal topics get their full number of replicas once there are enough
brokers, and a release's new entries are written once all brokers can read them.

`broker/metadata_log/metadata_follow.py` gives it a turn beside the caretaker's. One broker acts, the caretaker.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.cluster.brokers import known_metadata_version
from ottla.cluster.commands import (
    BalancedPartition,
    BalanceLeaders,
    Command,
    RaiseMetadataVersion,
    RaiseReplication,
)
from ottla.cluster.partitions import could_be_led_better
from ottla.metadata.state import Metadata

MOST_AT_ONCE = 1000
"""The most leaderships that one check moves."""
_PER_COMMAND = 100


class Upkeep:
    """The options are `auto.leader.rebalance.enable`, `leader.imbalance.check.interval.seconds`, and the replication
    factors of the internal topics by name."""

    def __init__(self, *, balances: bool, interval_ms: int, factors: Mapping[str, int]) -> None:
        self._balances = balances
        self._interval_ms = interval_ms
        self._factors = factors
        self._next_ms: int | None = None

    def turn(self, state: Metadata, *, first: bool, now_ms: int) -> list[Command]:
        """Commands to submit; `first` is whether this broker is the caretaker."""
        if not first:
            self._next_ms = None
            return []
        commands: list[Command] = [*self._raised(state)]
        if state.metadata_version() < (level := known_metadata_version(state)):
            commands.append(RaiseMetadataVersion(level))
        if self._balances:
            if self._next_ms is None:
                self._next_ms = now_ms + self._interval_ms
            elif now_ms >= self._next_ms:
                self._next_ms = now_ms + self._interval_ms
                commands += to_balance(state)
        return commands

    def _raised(self, state: Metadata) -> list[Command]:
        active = len(state.active_brokers())
        commands: list[Command] = []
        for name, factor in sorted(self._factors.items()):
            topic = state.topic(name)
            wanted = min(factor, active)
            if topic is not None and any(
                len(one.replicas) < wanted and not one.adding and not one.removing for one in topic.partitions
            ):
                commands.append(RaiseReplication(name, factor))
        return commands


def to_balance(state: Metadata) -> list[Command]:
    """Give leaderships back to preferred replicas, at most MOST_AT_ONCE, in commands of bounded work."""
    found = [
        BalancedPartition(topic.topic_id, partition.partition, partition.partition_epoch)
        for topic in state.visible_topics()
        for partition in topic.partitions
        if could_be_led_better(partition, state)
    ][:MOST_AT_ONCE]
    return [BalanceLeaders(tuple(found[at : at + _PER_COMMAND])) for at in range(0, len(found), _PER_COMMAND)]
