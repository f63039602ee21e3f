"""Administration as both faces have it: topics, configurations, replicas, transactions, groups."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from ottla.client.admin import acls as acl_admin
from ottla.client.admin import admin
from ottla.client.admin import features as feature_admin
from ottla.client.admin import groups as group_admin
from ottla.client.admin import quotas as quota_admin
from ottla.client.admin import replicas as replica_admin
from ottla.client.admin import tokens as token_admin
from ottla.client.admin import transactions as transaction_admin
from ottla.client.admin import users as user_admin
from ottla.client.admin.admin import NewTopic
from ottla.client.admin.loads import Told, broker_loads
from ottla.client.admin.transactions import OpenTransaction
from ottla.client.admin.troubles import ReplicaTrouble, replica_troubles
from ottla.client.consume import offsets
from ottla.client.errors import ClientError
from ottla.client.faces.call import call, on_plan
from ottla.client.faces.cluster import ClusterCalls, all_topics, live_brokers
from ottla.client.model import (
    Broker,
    ClientSettings,
    CommittedOffset,
    IsolationLevel,
    OffsetAtTime,
    TopicView,
    client_settings_from,
)
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.messages.create_topics import CreatableTopicResult
from ottla.messages.describe_log_dirs import DescribeLogDirsResult


def admin_settings(
    settings: ClientSettings | None, options: Mapping[str, object], cluster: ClusterCalls | None
) -> ClientSettings:
    """The settings of an `Admin`; TypeError where it shares the connections of a cluster and is given some."""
    own = client_settings_from("Admin", settings, options)
    if cluster is not None and (settings is not None or options):
        raise TypeError("Admin shares the connections of cluster=, with their settings: give no others")
    return own


class AdminCalls:
    """The calls of an `Admin`."""

    cluster: ClusterCalls

    create_topics = on_plan(admin.create_topics)

    @call
    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | int | float] | None = None,
    ) -> CreatableTopicResult:
        """Create one topic, or raise its `ApiError`; -1 leaves a number to the broker's defaults."""
        made = NewTopic(name, partitions, replication_factor, configs or {})
        result = (await admin.create_topics(self.cluster.plan, [made]))[name]
        if isinstance(result, ApiError):
            raise result
        return result

    delete_topics = on_plan(admin.delete_topics)
    create_partitions = on_plan(admin.create_partitions)

    @call
    async def list_topics(self) -> dict[str, TopicView]:
        """All topics by name, internal ones too, asked for afresh."""
        return await all_topics(self.cluster.plan)

    describe_topics = on_plan(admin.describe_topics)
    describe_cluster = on_plan(admin.describe_cluster)
    describe_brokers = on_plan(replica_admin.describe_brokers)
    describe_features = on_plan(feature_admin.describe_features)
    update_features = on_plan(feature_admin.update_features)
    describe_users = on_plan(user_admin.describe_users)
    set_password = on_plan(user_admin.set_password)
    remove_password = on_plan(user_admin.remove_password)
    create_token = on_plan(token_admin.create_token)
    describe_tokens = on_plan(token_admin.describe_tokens)
    renew_token = on_plan(token_admin.renew_token)
    expire_token = on_plan(token_admin.expire_token)
    describe_acls = on_plan(acl_admin.describe_acls)
    describe_authorizer = on_plan(acl_admin.describe_authorizer)
    create_acls = on_plan(acl_admin.create_acls)
    delete_acls = on_plan(acl_admin.delete_acls)
    describe_quotas = on_plan(quota_admin.describe_quotas)
    alter_quotas = on_plan(quota_admin.alter_quotas)
    list_transactions = on_plan(transaction_admin.list_transactions)
    describe_transactions = on_plan(transaction_admin.describe_transactions)
    describe_producers = on_plan(transaction_admin.describe_producers)

    @call
    async def hanging_transactions(
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
        return await transaction_admin.hanging_transactions(
            self.cluster.plan,
            older_than_ms,
            time.time() * 1000,
            topics=topics,
            partitions=partitions,
            broker=broker,
        )

    abort_in_partition = on_plan(transaction_admin.abort_in_partition)

    @call
    async def terminate_transaction(self, transactional_id: str) -> None:
        """Abort a producer's open transaction, and fence the producer.

        An id that its coordinator does not know is made by it: look with `describe_transactions` first.
        """
        await transaction_admin.terminate(self.cluster.plan, transactional_id)

    unregister_broker = on_plan(replica_admin.unregister_broker)
    alter_reassignments = on_plan(replica_admin.alter_reassignments)
    list_reassignments = on_plan(replica_admin.list_reassignments)
    alter_replica_log_dirs = on_plan(replica_admin.alter_replica_log_dirs)
    elect_leaders = on_plan(replica_admin.elect_leaders)
    delete_records = on_plan(admin.delete_records)
    describe_configs = on_plan(admin.describe_configs)
    alter_configs = on_plan(admin.alter_configs)

    @call
    async def replica_troubles(self) -> list[ReplicaTrouble]:
        """Troubles that the living brokers report of their replicas; brokers of other kinds report none."""
        return await replica_troubles(self.cluster.plan, list(await live_brokers(self.cluster.plan)))

    @call
    async def broker_loads(self) -> dict[int, Told]:
        """Traffic and lags as each living broker tells them, by its id; brokers of other kinds tell nothing."""
        return await broker_loads(self.cluster.plan, list(await live_brokers(self.cluster.plan)))

    @call
    async def describe_log_dirs(
        self, brokers: Collection[Broker] | None = None, partitions: Collection[TopicPartition] | None = None
    ) -> dict[int, list[DescribeLogDirsResult] | Exception]:
        """The log directories of each broker, by its id, with the sizes of these partitions or all."""
        asked = (await live_brokers(self.cluster.plan)).values() if brokers is None else brokers
        return await replica_admin.describe_log_dirs(self.cluster.plan, list(asked), partitions)

    @call
    async def api_versions(
        self, brokers: Collection[Broker] | None = None
    ) -> dict[int, dict[int, tuple[int, int]] | ClientError]:
        """The API versions that each broker announces: by its id, API key -> (first, last)."""
        asked = (await live_brokers(self.cluster.plan)).values() if brokers is None else brokers
        return await admin.api_versions(self.cluster.plan, list(asked))

    list_groups = on_plan(group_admin.list_groups)
    describe_groups = on_plan(group_admin.describe_groups)
    describe_consumer_groups = on_plan(group_admin.describe_consumer_groups)
    delete_groups = on_plan(group_admin.delete_groups)
    delete_offsets = on_plan(group_admin.delete_offsets)

    @call
    async def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, for these partitions or all; those without a commit are left out."""
        return await offsets.committed_offsets(self.cluster.plan, group, partitions)

    @call
    async def commit_offsets(
        self, group: str, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, ApiError | None]:
        """Set the offsets of a group without members; None: committed. UNKNOWN_MEMBER_ID where it has members."""
        return await offsets.commit_offsets(self.cluster.plan, group, committed)

    @call
    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAtTime | Exception]:
        """For each partition the offset at its spec, as for `Cluster.list_offsets`, or what went wrong.

        `timeout_ms` is for all attempts, by default `api_timeout_ms`.
        """
        return await offsets.list_offsets_each(self.cluster.plan, specs, isolation_level, timeout_ms)
