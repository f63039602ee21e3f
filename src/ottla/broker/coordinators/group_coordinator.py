"""The groups that this broker coordinates: a runner for each partition of `__consumer_offsets` that it leads.

Called by the handlers of the group APIs; based on coordinator.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.surroundings import Surroundings
from ottla.groups.shard import GroupShard
from ottla.groups.topics import Topics
from ottla.groups.values import Caller, ConsumerGroupSettings, GroupSettings, MigrationPolicy
from ottla.kernel.seams import Entropy

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"


class GroupCoordinator(Coordinator[GroupShard]):
    """Every group shard of this broker. `partitions` says how many the offsets topic has, 0 while there is none."""

    def __init__(
        self,
        around: Surroundings,
        entropy: Entropy,
        config: BrokerConfig,
        partitions: Callable[[], int],
        *,
        topics: Topics,
        consumer_settings: Callable[[str], ConsumerGroupSettings],
    ) -> None:
        super().__init__(around, partitions)
        self._topics = topics
        self._consumer_settings = consumer_settings
        self._entropy = entropy
        self._settings = settings_of(config)
        self._commit_timeout_ms = config.offsets_commit_timeout_ms

    def _run(self, partition: Partition, answers_from_ms: Callable[[], int]) -> ShardRunner[GroupShard]:
        return ShardRunner(
            partition,
            GroupShard(
                self._settings,
                self._new_suffix,
                topics=self._topics,
                consumer_settings=self._consumer_settings,
            ),
            self._around,
            commit_timeout_ms=self._commit_timeout_ms,
            on_deadline=self._wake_at,
            answers_from_ms=answers_from_ms,
        )

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take new options: they apply to shards loaded from now on, and to waits."""
        self._settings = settings_of(config)
        self._commit_timeout_ms = config.offsets_commit_timeout_ms

    def topics_deleted(self, topics: dict[str, bytes]) -> None:
        """Delete the offsets committed for deleted topics, given by name and id."""
        for runner in list(self._runners.values()):
            runner.tell(lambda shard: shard.topics_deleted(topics))

    def _new_suffix(self) -> str:
        return str(uuid.UUID(bytes=self._entropy.bytes(16), version=4))


def settings_of(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
    )


class Asking(Protocol):
    """A request of a client: requests/call.py."""

    api_version: int

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def sees(self) -> Callable[[str], bool]: ...


def caller_of(call: Asking) -> Caller:
    return Caller(call.client_id, call.client_host, call.api_version, call.sees)
