"""The blocking face of administration: topics, configurations, groups, over a `Cluster`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ottla.client.admin import admin
from ottla.client.admin import features as feature_admin
from ottla.client.admin import groups as group_admin
from ottla.client.admin import replicas as replica_admin
from ottla.client.admin import transactions as transaction_admin
from ottla.client.admin.admin import NewTopic
from ottla.client.admin.given import check_call
from ottla.client.admin.loads import Told, broker_loads
from ottla.client.admin.transactions import OpenTransaction
from ottla.client.admin.troubles import ReplicaTrouble, replica_troubles
from ottla.client.blocking.cluster import Cluster
from ottla.client.consume import offsets
from ottla.client.core.effects import ClientStory
from ottla.client.core.plan import ClusterPlan
from ottla.client.core.transport import PLAINTEXT, Security
from ottla.client.errors import ClientError
from ottla.client.model import (
    Broker,
    ClientSettings,
    CommittedOffset,
    TopicView,
    client_settings_from,
)
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.messages.create_topics import CreatableTopicResult
from ottla.messages.describe_log_dirs import DescribeLogDirsResult

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(story: Callable[Concatenate[ClusterPlan, P], ClientStory[R]]) -> Callable[Concatenate[Admin, P], R]:
    """A story of administration as a method of `Admin`: same parameters, result and docstring, without the plan."""

    @wraps(story)
    def method(self: Admin, /, *arguments: P.args, **named: P.kwargs) -> R:
        check_call(story, arguments, named)
        return self.cluster.run(story(self.cluster.plan, *arguments, **named))

    return method


class Admin:
    """Administers a cluster. Calls on several resources return an `ApiError` in place of each that failed.

    A call raises what concerns all of it: `ClientError` where no broker can be asked (BrokerUnreachable,
    RequestTimedOut) or none serves the API (UnsupportedVersion), else `ApiError`. `timeout_ms` is the time that the
    broker has for a call. `cluster` is the `Cluster` whose connections the calls use. A context manager.

        from ottla.client import Admin, TopicPartition

        with Admin("localhost:9092") as admin:
            admin.create_topic("ships", partitions=3, configs={"retention.ms": "3600000"})
            print(sorted(admin.list_topics()["ships"].partitions))
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
        cluster: Cluster | None = None,
        **options: Any,
    ) -> None:
        """`bootstrap` is one or several HOST:PORT, as for `Cluster`, and so are `settings` and `options`.

        `cluster` shares its connections; TypeError where settings or options are given beside it.
        """
        own = client_settings_from("Admin", settings, options)
        if cluster is not None and (settings is not None or options):
            raise TypeError("Admin shares the connections of cluster=, with their settings: give no others")
        self.cluster = cluster or Cluster(bootstrap, settings=own, security=security)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, those of a shared `cluster` too; a later call opens new ones."""
        self.cluster.close()

    create_topics = _blocking(admin.create_topics)

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | int | float] | None = None,
    ) -> CreatableTopicResult:
        """Create one topic, or raise its `ApiError`; -1 leaves a number to the broker's defaults."""
        result = self.create_topics([NewTopic(name, partitions, replication_factor, configs or {})])[name]
        if isinstance(result, ApiError):
            raise result
        return result

    delete_topics = _blocking(admin.delete_topics)
    create_partitions = _blocking(admin.create_partitions)

    def list_topics(self) -> dict[str, TopicView]:
        """All topics by name, internal ones too, asked for afresh."""
        return self.cluster.topics()

    describe_topics = _blocking(admin.describe_topics)
    describe_cluster = _blocking(admin.describe_cluster)
    describe_brokers = _blocking(replica_admin.describe_brokers)
    describe_features = _blocking(feature_admin.describe_features)
    update_features = _blocking(feature_admin.update_features)
    list_transactions = _blocking(transaction_admin.list_transactions)
    describe_transactions = _blocking(transaction_admin.describe_transactions)
    describe_producers = _blocking(transaction_admin.describe_producers)

    def hanging_transactions(
        self,
        older_than_ms: float,
        *,
        topics: Collection[str] | None = None,
        partitions: Sequence[TopicPartition] | None = None,
        broker: int | None = None,
    ) -> list[OpenTransaction]:
        """Open transactions that no coordinator means to end, whose last record is older than `older_than_ms`.

        Searches `partitions`, or all of `topics`, or of every topic; with a broker's id those that it has replicas of.
        """
        story = transaction_admin.hanging_transactions(
            self.cluster.plan,
            older_than_ms,
            time.time() * 1000,
            topics=topics,
            partitions=partitions,
            broker=broker,
        )
        return self.cluster.run(story)

    abort_in_partition = _blocking(transaction_admin.abort_in_partition)

    def terminate_transaction(self, transactional_id: str) -> None:
        """Abort a producer's open transaction, and fence the producer.

        An id that its coordinator does not know is made by it: look with `describe_transactions` first.
        """
        self.cluster.run(transaction_admin.terminate(self.cluster.plan, transactional_id))

    unregister_broker = _blocking(replica_admin.unregister_broker)
    alter_reassignments = _blocking(replica_admin.alter_reassignments)
    list_reassignments = _blocking(replica_admin.list_reassignments)
    alter_replica_log_dirs = _blocking(replica_admin.alter_replica_log_dirs)
    elect_leaders = _blocking(replica_admin.elect_leaders)
    delete_records = _blocking(admin.delete_records)
    describe_configs = _blocking(admin.describe_configs)
    alter_configs = _blocking(admin.alter_configs)

    def replica_troubles(self) -> list[ReplicaTrouble]:
        """Troubles that the living brokers report of their replicas; brokers of other kinds report none."""
        return self.cluster.run(replica_troubles(self.cluster.plan, list(self.cluster.brokers())))

    def broker_loads(self) -> dict[int, Told]:
        """Traffic and lags as each living broker tells them, by its id; brokers of other kinds tell nothing."""
        return self.cluster.run(broker_loads(self.cluster.plan, list(self.cluster.brokers())))

    def describe_log_dirs(
        self, brokers: Collection[Broker] | None = None, partitions: Collection[TopicPartition] | None = None
    ) -> dict[int, list[DescribeLogDirsResult] | Exception]:
        """The log directories of each broker, by its id, with the sizes of these partitions or all."""
        asked = self.cluster.brokers().values() if brokers is None else brokers
        return self.cluster.run(replica_admin.describe_log_dirs(self.cluster.plan, list(asked), partitions))

    def api_versions(
        self, brokers: Collection[Broker] | None = None
    ) -> dict[int, dict[int, tuple[int, int]] | ClientError]:
        """The API versions that each broker announces: by its id, API key -> (first, last)."""
        asked = self.cluster.brokers().values() if brokers is None else brokers
        return self.cluster.run(admin.api_versions(self.cluster.plan, list(asked)))

    list_groups = _blocking(group_admin.list_groups)
    describe_groups = _blocking(group_admin.describe_groups)
    describe_consumer_groups = _blocking(group_admin.describe_consumer_groups)
    delete_groups = _blocking(group_admin.delete_groups)
    delete_offsets = _blocking(group_admin.delete_offsets)

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, for these partitions or all; those without a commit are left out."""
        return self.cluster.committed_offsets(group, partitions)

    def commit_offsets(
        self, group: str, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, ApiError | None]:
        """Set the offsets of a group without members; None: committed. UNKNOWN_MEMBER_ID where it has members."""
        return self.cluster.run(offsets.commit_offsets(self.cluster.plan, group, committed))

    list_offsets = _blocking(offsets.list_offsets_each)
