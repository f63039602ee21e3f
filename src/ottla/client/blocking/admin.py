"""The blocking face of administration: topics, configurations, groups, over a `Cluster`."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.client.admin import admin
from ottla.client.admin import groups as group_admin
from ottla.client.admin import replicas as replica_admin
from ottla.client.admin.admin import ConfigOperation, NewTopic, Resource
from ottla.client.admin.loads import Told, broker_loads
from ottla.client.admin.replicas import Election, Reassignment
from ottla.client.admin.troubles import ReplicaTrouble, replica_troubles
from ottla.client.blocking.cluster import Cluster
from ottla.client.consume import offsets
from ottla.client.core.transport import PLAINTEXT, Security
from ottla.client.errors import ClientError
from ottla.client.model import (
    Broker,
    ClientSettings,
    CommittedOffset,
    IsolationLevel,
    OffsetAtTime,
    ProducerIdentity,
    TopicView,
)
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.messages.create_topics import CreatableTopicResult
from ottla.messages.describe_cluster import DescribeClusterResponse
from ottla.messages.describe_configs import DescribeConfigsResourceResult
from ottla.messages.describe_groups import DescribedGroup
from ottla.messages.describe_log_dirs import DescribeLogDirsResult
from ottla.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic
from ottla.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from ottla.client.admin.features import DescribedFeatures, UpgradeType
    from ottla.client.admin.transactions import DescribedTransaction, ListedTransaction, OpenTransaction
    from ottla.messages.describe_producers import ProducerState

K = TypeVar("K")


class Admin:
    """Administers a cluster. Calls on several resources return an `ApiError` in place of each that failed.

    A call raises what concerns all of it: `ClientError` where no broker can be asked (BrokerUnreachable,
    RequestTimedOut) or none serves the API (UnsupportedVersion), else `ApiError`. `cluster` is the `Cluster` whose
    connections the calls use. A context manager.

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
    ) -> None:
        """`bootstrap` is one or several HOST:PORT, as for `Cluster`. `cluster` shares its connections."""
        self.cluster = cluster or Cluster(bootstrap, settings=settings, security=security)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, those of a shared `cluster` too; a later call opens new ones."""
        self.cluster.close()

    def create_topics(
        self, topics: Collection[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatableTopicResult | ApiError]:
        """Create topics, each by itself, so that some may fail; `validate_only` checks and creates nothing.

        Errors are TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION for a name, INVALID_PARTITIONS,
        INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT and INVALID_CONFIG.

            from ottla.client import ApiError, NewTopic

            with Admin("localhost:9092") as admin:
                for name, result in admin.create_topics([NewTopic("boats", 2), NewTopic("no/name")]).items():
                    print(name, result.code.name if isinstance(result, ApiError) else result.num_partitions)
        """
        return self.cluster.run(admin.create_topics(self.cluster.plan, topics, validate_only=validate_only))

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> CreatableTopicResult:
        """Create one topic, or raise its `ApiError`; -1 leaves a number to the broker's defaults."""
        result = self.create_topics([NewTopic(name, partitions, replication_factor, configs or {})])[name]
        if isinstance(result, ApiError):
            raise result
        return result

    def delete_topics(
        self, names: Collection[str] = (), *, ids: Collection[bytes] = ()
    ) -> dict[str | bytes, ApiError | None]:
        """Delete topics by name or id; the result is keyed as they were given, None for those that are deleted.

        An id is 16 bytes, as in `TopicView.topic_id`. Errors are UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID.

            with Admin("localhost:9092") as admin:
                print(admin.delete_topics(["boats", "never-made"]))
        """
        return self.cluster.run(admin.delete_topics(self.cluster.plan, names, ids=ids))

    def create_partitions(
        self, counts: Mapping[str, int], assignments: Mapping[str, Sequence[Sequence[int]]] | None = None
    ) -> dict[str, ApiError | None]:
        """Raise the number of partitions of each topic to `counts`; None for those that were raised.

        `assignments` gives the brokers of each new partition, the preferred leader first. Errors are
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS where it would not be more, INVALID_REPLICA_ASSIGNMENT.

            with Admin("localhost:9092") as admin:
                print(admin.create_partitions({"ships": 4}))
        """
        return self.cluster.run(admin.create_partitions(self.cluster.plan, counts, assignments=assignments))

    def list_topics(self) -> dict[str, TopicView]:
        """All topics by name, internal ones too, asked for afresh."""
        return self.cluster.topics()

    def describe_topics(self, names: Collection[str]) -> dict[str, DescribeTopicPartitionsResponseTopic | ApiError]:
        """Partitions with their eligible leader replicas; UnsupportedVersion on brokers before Kafka 3.8."""
        return self.cluster.run(admin.describe_topics(self.cluster.plan, names))

    def describe_cluster(self) -> DescribeClusterResponse:
        """Cluster id, controller and brokers."""
        return self.cluster.run(admin.describe_cluster(self.cluster.plan))

    def describe_brokers(self, *, fenced: bool = False) -> DescribeClusterResponse:
        """Like `describe_cluster`; with `fenced` fenced brokers too, UnsupportedVersion on brokers before Kafka 4.0."""
        return self.cluster.run(replica_admin.describe_brokers(self.cluster.plan, fenced=fenced))

    def describe_features(self, broker: int | None = None) -> DescribedFeatures:
        """The cluster's features as one broker, by its id, tells of them; any broker if None."""
        from ottla.client.admin import features as feature_admin

        return self.cluster.run(feature_admin.describe_features(self.cluster.plan, broker))

    def update_features(
        self, levels: Mapping[str, int], kind: UpgradeType | None = None, *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Set the levels of features, upwards if no `kind` is given; None for those that were set.

        Newer brokers set all or none. `validate_only` checks and sets nothing.
        """
        from ottla.client.admin import features as feature_admin

        way = feature_admin.UpgradeType.UPGRADE if kind is None else kind
        story = feature_admin.update_features(self.cluster.plan, levels, way, validate_only=validate_only)
        return self.cluster.run(story)

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids of the cluster, as far as they pass all filters.

        `states` are Kafka's names, such as Ongoing or CompleteCommit. `longer_than_ms` keeps those whose transaction
        began longer ago, `pattern`, a regular expression in RE2's syntax, those whose whole id it matches. Raises
        UnsupportedVersion where a broker does not know these two.
        """
        from ottla.client.admin import transactions as transaction_admin

        story = transaction_admin.list_transactions(
            self.cluster.plan,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )
        return self.cluster.run(story)

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, DescribedTransaction | ApiError]:
        """Each transactional id as its coordinator knows it, or TRANSACTIONAL_ID_NOT_FOUND."""
        from ottla.client.admin import transactions as transaction_admin

        return self.cluster.run(transaction_admin.describe_transactions(self.cluster.plan, transactional_ids))

    def describe_producers(
        self, partitions: Collection[TopicPartition], broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerState] | Exception]:
        """The producers that the leader of each partition knows, or one broker that has a replica."""
        from ottla.client.admin import transactions as transaction_admin

        return self.cluster.run(transaction_admin.describe_producers(self.cluster.plan, partitions, broker))

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
        from ottla.client.admin import transactions as transaction_admin

        story = transaction_admin.hanging_transactions(
            self.cluster.plan,
            older_than_ms,
            time.time() * 1000,
            topics=topics,
            partitions=partitions,
            broker=broker,
        )
        return self.cluster.run(story)

    def abort_in_partition(
        self, partition: TopicPartition, producer: ProducerIdentity, coordinator_epoch: int = 0
    ) -> None:
        """Write an abort marker for a transaction that hangs in this partition (`hanging_transactions` finds them)."""
        from ottla.client.admin import transactions as transaction_admin

        story = transaction_admin.abort_in_partition(self.cluster.plan, partition, producer, coordinator_epoch)
        self.cluster.run(story)

    def terminate_transaction(self, transactional_id: str) -> None:
        """Abort a producer's open transaction, and fence the producer.

        An id that its coordinator does not know is made by it: look with `describe_transactions` first.
        """
        from ottla.client.admin import transactions as transaction_admin

        self.cluster.run(transaction_admin.terminate(self.cluster.plan, transactional_id))

    def unregister_broker(self, broker: int) -> None:
        """Forget a broker that does not come back, by its id. Its replicas stay assigned until they are moved.

        Raises `ApiError` BROKER_ID_NOT_REGISTERED where there is none.
        """
        self.cluster.run(replica_admin.unregister_broker(self.cluster.plan, broker))

    def alter_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> dict[TopicPartition, ApiError | None]:
        """Move partitions to these brokers, the preferred leader first; None cancels a move that is on its way.

        In the result None says that the move has begun; `list_reassignments` shows it until it is done. Errors are
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT and, for a cancellation, NO_REASSIGNMENT_IN_PROGRESS.
        """
        story = replica_admin.alter_reassignments(
            self.cluster.plan, wanted, allow_replication_factor_change=allow_replication_factor_change
        )
        return self.cluster.run(story)

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves on their way, of these partitions or all."""
        return self.cluster.run(replica_admin.list_reassignments(self.cluster.plan, partitions))

    def alter_replica_log_dirs(
        self, wanted: Mapping[tuple[int, TopicPartition], str]
    ) -> dict[tuple[int, TopicPartition], Exception | None]:
        """Move replicas, each by its broker's id and partition, into these directories of their brokers.

        None: the move has begun. Errors are LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR for a directory that has failed, and
        REPLICA_NOT_AVAILABLE where there is no replica yet: one that is made later is made there.
        """
        return self.cluster.run(replica_admin.alter_replica_log_dirs(self.cluster.plan, wanted))

    def elect_leaders(
        self, election: Election, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ApiError | None]:
        """Have leaders elected, for these partitions or all that can have another; None: elected.

        Errors are ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        return self.cluster.run(replica_admin.elect_leaders(self.cluster.plan, election, partitions))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | Exception]:
        """Delete all below each offset (-1: everything visible); the new first offsets, or what went wrong.

        OFFSET_OUT_OF_RANGE for an offset beyond the high watermark.

            with Admin("localhost:9092") as admin:
                print(admin.delete_records({TopicPartition("ships", 0): -1}))
        """
        return self.cluster.run(admin.delete_records(self.cluster.plan, before))

    def describe_configs(
        self,
        resources: Collection[Resource],
        *,
        keys: Collection[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[Resource, list[DescribeConfigsResourceResult] | ApiError]:
        """Every configuration of each resource, or those in `keys`; brokers are asked themselves.

        `synonyms` adds where each value may come from, `documentation` what it means.

            from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType

            with Admin("localhost:9092") as admin:
                topic = Resource(ResourceType.TOPIC, "ships")
                for config in admin.describe_configs([topic], keys=["retention.ms"])[topic]:
                    print(config.name, config.value)
        """
        story = admin.describe_configs(
            self.cluster.plan, resources, keys=keys, synonyms=synonyms, documentation=documentation
        )
        return self.cluster.run(story)

    def alter_configs(
        self,
        changes: Mapping[Resource, Collection[tuple[str, ConfigOperation, str | None]]],
        *,
        validate_only: bool = False,
    ) -> dict[Resource, ApiError | None]:
        """Change single configurations, each by name, operation and value (None to delete it); None: changed.

        `validate_only` checks and changes nothing. INVALID_CONFIG where a value will not do.

            with Admin("localhost:9092") as admin:
                print(admin.alter_configs({topic: [("retention.ms", ConfigOperation.SET, "7200000")]}))
        """
        return self.cluster.run(admin.alter_configs(self.cluster.plan, changes, validate_only=validate_only))

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
        return self.cluster.run(admin.describe_log_dirs(self.cluster.plan, list(asked), partitions))

    def api_versions(
        self, brokers: Collection[Broker] | None = None
    ) -> dict[int, dict[int, tuple[int, int]] | ClientError]:
        """The API versions that each broker announces: by its id, API key -> (first, last)."""
        asked = self.cluster.brokers().values() if brokers is None else brokers
        return self.cluster.run(admin.api_versions(self.cluster.plan, list(asked)))

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """All groups of the cluster in these states and of these types, Kafka's names in any case; none: all."""
        return self.cluster.run(group_admin.list_groups(self.cluster.plan, states=states, types=types))

    def describe_groups(self, groups: Collection[str]) -> dict[str, DescribedGroup | ApiError]:
        """State and members of each classic group.

        A group that does not exist has GROUP_ID_NOT_FOUND, or from brokers before Kafka 4.0 the state Dead.
        """
        return self.cluster.run(group_admin.describe_groups(self.cluster.plan, groups))

    def describe_consumer_groups(self, groups: Collection[str]) -> dict[str, DescribedConsumerGroup | ApiError]:
        """State, epochs and members of groups of the consumer protocol (KIP-848).

        GROUP_ID_NOT_FOUND for those of another kind.
        """
        return self.cluster.run(group_admin.describe_consumer_groups(self.cluster.plan, groups))

    def delete_groups(self, groups: Collection[str]) -> dict[str, ApiError | None]:
        """Delete groups with their offsets; None: deleted. Errors are NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND."""
        return self.cluster.run(group_admin.delete_groups(self.cluster.plan, groups))

    def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ApiError | None]:
        """Delete a group's committed offsets; GROUP_SUBSCRIBED_TO_TOPIC for topics that its members read.

        Raises `ApiError` GROUP_ID_NOT_FOUND where there is no such group.
        """
        return self.cluster.run(group_admin.delete_offsets(self.cluster.plan, group, partitions))

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

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAtTime | Exception]:
        """For each partition the offset at its spec, as for `Cluster.list_offsets`, or what went wrong."""
        return self.cluster.run(offsets.list_offsets_each(self.cluster.plan, specs, isolation_level))
