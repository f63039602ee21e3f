"""The cluster as the metadata log tells it: one state, written only by `apply`.

`broker/metadata_log/metadata_follow.py` applies entries in order; all other parts read. Each topic carries the version
of the last entry that touched it, by which answers made of it are cached (rule E8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.kernel.acls import Acl
from ottla.kernel.credentials import DelegationToken, ScramKeys
from ottla.kernel.errors import InvariantBroken
from ottla.kernel.ids import NO_LEADER, BrokerEpoch, BrokerId, TopicId
from ottla.kernel.quotas import QuotaEntity
from ottla.metadata import entries as log
from ottla.metadata.acls import acl_of
from ottla.metadata.broker_state import BrokerState, HeldDirectory, Listener
from ottla.metadata.changes import Changes
from ottla.metadata.partition_state import PartitionState, partition_of, unclean_epoch
from ottla.metadata.tokens import token_of

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
ALL_BROKERS = ""
METADATA_VERSION = "metadata.version"


class Topic:
    """A topic that exists; `partitions` by index."""

    __slots__ = ("configs", "name", "partitions", "ready", "topic_id", "version")

    def __init__(self, topic_id: TopicId, name: str, configs: dict[str, str], version: int) -> None:
        self.topic_id = topic_id
        self.name = name
        self.configs: Mapping[str, str] = configs
        self.partitions: tuple[PartitionState, ...] = ()
        self.ready = False
        self.version = version

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, {len(self.partitions)} partitions, version {self.version})"


class Metadata:
    """The state that all brokers agree on, as of `version`."""

    __slots__ = (
        "_by_name", "_touched_acls", "_touched_brokers", "_touched_configs", "_touched_features", "_touched_quotas",
        "_touched_topics",
        "acls", "acls_version", "brokers", "brokers_version", "cluster_id", "configs", "features", "next_producer_id",
        "producer_id_owner", "quotas", "scram", "secret", "tokens", "topics", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.version = 0
        self.cluster_id = ""
        self.secret = b""
        self.features: dict[str, int] = {}
        self.brokers: dict[BrokerId, BrokerState] = {}
        self.brokers_version = 0
        """The version of the last entry about brokers."""
        self.topics: dict[TopicId, Topic] = {}
        """All topics by id, including those that are not ready yet."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """Configurations of brokers and groups, by resource type and name; a topic's are in the topic."""
        self.scram: dict[tuple[str, int], ScramKeys] = {}
        """The keys of users, by name and by the number of the mechanism."""
        self.tokens: dict[str, DelegationToken] = {}
        self.acls: dict[Acl, None] = {}
        self.acls_version = 0
        """The version of the last entry about ACLs."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = 0
        self.producer_id_owner: BrokerId = NO_LEADER
        """The broker that got the last block."""
        self._by_name: dict[str, Topic] = {}
        self._touched_topics: set[TopicId] = set()
        self._touched_configs: set[tuple[int, str]] = set()
        self._touched_brokers = False
        self._touched_features = False
        self._touched_quotas = False
        self._touched_acls = False

    # Questions

    def topic(self, name: str) -> Topic | None:
        """A topic that clients may see, by name."""
        topic = self._by_name.get(name)
        return topic if topic is not None and topic.ready else None

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """A topic that clients may see, by id."""
        topic = self.topics.get(TopicId(topic_id))
        return topic if topic is not None and topic.ready else None

    def name_taken(self, name: str) -> Topic | None:
        """The topic that has the name, ready or not."""
        return self._by_name.get(name)

    def topic_names(self) -> Iterator[str]:
        """Every name that is taken, sorted."""
        return iter(sorted(self._by_name))

    def visible_topics(self) -> list[Topic]:
        """The topics that clients may see, by name."""
        return [self._by_name[name] for name in sorted(self._by_name) if self._by_name[name].ready]

    def partition(self, topic_id: bytes, partition: int) -> PartitionState | None:
        topic = self.topics.get(TopicId(topic_id))
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition]

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(BrokerId(broker_id))
        return broker is not None and broker.active

    def is_live(self, broker_id: int) -> bool:
        """True if the broker is registered and not fenced."""
        broker = self.brokers.get(BrokerId(broker_id))
        return broker is not None and not broker.fenced

    def offline_replicas(self, partition: PartitionState) -> list[BrokerId]:
        """The replicas that are offline: on brokers that are not alive, or in a failed log directory."""
        return [one for one in partition.replicas if one in partition.offline or not self.is_live(one)]

    def live_brokers(self) -> list[BrokerState]:
        """The live brokers, by id."""
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers) if not self.brokers[broker_id].fenced]

    def active_brokers(self) -> list[BrokerState]:
        """The active brokers, by id."""
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.brokers[broker_id].active]

    def caretaker(self) -> BrokerId:
        """The live broker with the lowest epoch; NO_LEADER if none is alive."""
        live = self.live_brokers()
        return min(live, key=lambda broker: broker.epoch).broker_id if live else NO_LEADER

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The options set for a resource; of a topic, a broker (ALL_BROKERS for all), or a group."""
        if resource_type == TOPIC_RESOURCE:
            topic = self._by_name.get(name)
            return topic.configs if topic is not None else {}
        return self.configs.get((resource_type, name), {})

    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, 0)

    # Entries

    def apply(self, version: int, body: log.Body) -> None:
        """Apply the entry at `version`; entries come in order, each once."""
        _APPLY[type(body)](self, version, body)
        self.version = version

    def take_changes(self) -> Changes:
        """The parts that entries have touched since the last call."""
        changes = Changes(
            frozenset(self._touched_topics),
            self._touched_brokers,
            frozenset(self._touched_configs),
            features=self._touched_features,
            quotas=self._touched_quotas,
            acls=self._touched_acls,
        )
        self._touched_topics = set()
        self._touched_configs = set()
        self._touched_brokers = False
        self._touched_features = False
        self._touched_quotas = False
        self._touched_acls = False
        return changes

    def _cluster_created(self, version: int, body: log.ClusterCreated) -> None:
        self.cluster_id = body.cluster_id
        self.secret = body.secret

    def _feature_level_set(self, version: int, body: log.FeatureLevelSet) -> None:
        self.features[body.name] = body.level
        self._touched_features = True

    def _broker_registered(self, version: int, body: log.BrokerRegistered) -> None:
        self._set_broker(
            version,
            BrokerState(
                BrokerId(body.broker_id),
                BrokerEpoch(version if body.epoch == log.UNREGISTERED else body.epoch),
                body.incarnation,
                body.host,
                body.rack,
                tuple(Listener(one.name, one.host, one.port, one.security_protocol) for one in body.listeners),
                body.metadata_version,
                fenced=False,
                draining=False,
                options=tuple((one.name, one.value) for one in body.options if one.value is not None),
                directories=tuple(body.directories),
                held=tuple(HeldDirectory(one.directory_id, one.incarnation, one.closed) for one in body.held),
            ),
        )

    def _broker_fenced(self, version: int, body: log.BrokerFenced) -> None:
        if (broker := self._broker_of(body.broker_id, body.epoch)) is not None:
            held = tuple(one._replace(closed=one.closed or one.directory_id in body.closed) for one in broker.held)
            self._set_broker(version, broker._replace(fenced=True, fenced_early=body.early, held=held))

    def _broker_unfenced(self, version: int, body: log.BrokerUnfenced) -> None:
        if (broker := self._broker_of(body.broker_id, body.epoch)) is not None:
            self._set_broker(version, broker._replace(fenced=False, fenced_early=False))

    def _broker_draining(self, version: int, body: log.BrokerDraining) -> None:
        if (broker := self._broker_of(body.broker_id, body.epoch)) is not None:
            self._set_broker(version, broker._replace(draining=True))

    def _broker_unregistered(self, version: int, body: log.BrokerUnregistered) -> None:
        if self.brokers.pop(BrokerId(body.broker_id), None) is not None:
            self._broker_touched(version, BrokerId(body.broker_id))

    def _broker_of(self, broker_id: int, epoch: int) -> BrokerState | None:
        broker = self.brokers.get(BrokerId(broker_id))
        return broker if broker is not None and broker.epoch == epoch else None

    def _set_broker(self, version: int, broker: BrokerState) -> None:
        self.brokers[broker.broker_id] = broker
        self._broker_touched(version, broker.broker_id)

    def _broker_touched(self, version: int, broker_id: BrokerId) -> None:
        """Touch the topics of a broker that came or went: answers about them name offline replicas."""
        self.brokers_version = version
        self._touched_brokers = True
        for topic in self.topics.values():
            if any(broker_id in partition.replicas for partition in topic.partitions):
                topic.version = version

    def _topic_created(self, version: int, body: log.TopicCreated) -> None:
        configs = {change.name: change.value for change in body.configs if change.value is not None}
        topic = Topic(TopicId(body.topic_id), body.name, configs, version)
        self.topics[topic.topic_id] = topic
        self._by_name[topic.name] = topic

    def _topic_ready(self, version: int, body: log.TopicReady) -> None:
        topic = self.topics[TopicId(body.topic_id)]
        topic.ready = True
        self._topic_touched(version, topic)

    def _topic_deleted(self, version: int, body: log.TopicDeleted) -> None:
        topic = self.topics.pop(TopicId(body.topic_id))
        if self._by_name.get(topic.name) is topic:
            del self._by_name[topic.name]
        self._topic_touched(version, topic)

    def _partitions_created(self, version: int, body: log.PartitionsCreated) -> None:
        grown: dict[TopicId, list[PartitionState]] = {}
        for entry in body.partitions:
            grown.setdefault(TopicId(entry.topic_id), []).append(partition_of(entry))
        for topic_id, partitions in grown.items():
            topic = self.topics[topic_id]
            expected = range(len(topic.partitions), len(topic.partitions) + len(partitions))
            if [one.partition for one in partitions] != list(expected):
                raise InvariantBroken(f"{topic.name}: partitions are created out of order, {list(expected)} come next")
            topic.partitions += tuple(partitions)
            self._topic_touched(version, topic)

    def _partitions_changed(self, version: int, body: log.PartitionsChanged) -> None:
        changed: dict[TopicId, list[PartitionState]] = {}
        for entry in body.partitions:
            changed.setdefault(TopicId(entry.topic_id), []).append(partition_of(entry))
        for topic_id, partitions in changed.items():
            topic = self.topics[topic_id]
            held = list(topic.partitions)
            for partition in partitions:
                before = held[partition.partition]
                if partition.partition_epoch <= before.partition_epoch:
                    raise InvariantBroken(_falls(topic, "partition epoch", before, partition.partition_epoch))
                if partition.leader_epoch < before.leader_epoch:
                    raise InvariantBroken(_falls(topic, "leader epoch", before, partition.leader_epoch))
                held[partition.partition] = partition._replace(unclean_epoch=unclean_epoch(before, partition))
            topic.partitions = tuple(held)
            self._topic_touched(version, topic)

    def _topic_touched(self, version: int, topic: Topic) -> None:
        topic.version = version
        self._touched_topics.add(topic.topic_id)

    def _configs_set(self, version: int, body: log.ConfigsSet) -> None:
        resource = (body.resource_type, body.resource_name)
        configs = dict(self.config(*resource))
        for change in body.changes:
            if change.value is None:
                configs.pop(change.name, None)
            else:
                configs[change.name] = change.value
        self._touched_configs.add(resource)
        if body.resource_type == TOPIC_RESOURCE:
            if (topic := self._by_name.get(body.resource_name)) is not None:
                topic.configs = configs
                self._topic_touched(version, topic)
        elif configs:
            self.configs[resource] = configs
        else:
            self.configs.pop(resource, None)

    def _producer_ids_allocated(self, version: int, body: log.ProducerIdsAllocated) -> None:
        self.next_producer_id = body.first + body.count
        self.producer_id_owner = BrokerId(body.broker_id)

    def _scram_keys_set(self, version: int, body: log.ScramKeysSet) -> None:
        keys = ScramKeys(bytes(body.salt), body.iterations, bytes(body.stored_key), bytes(body.server_key))
        self.scram[body.user, body.mechanism] = keys

    def _scram_keys_removed(self, version: int, body: log.ScramKeysRemoved) -> None:
        self.scram.pop((body.user, body.mechanism), None)

    def _token_set(self, version: int, body: log.DelegationTokenSet) -> None:
        self.tokens[body.token_id] = token_of(body)

    def _tokens_removed(self, version: int, body: log.DelegationTokensRemoved) -> None:
        for token_id in body.token_ids:
            self.tokens.pop(token_id, None)

    def _acls_added(self, version: int, body: log.AclsAdded) -> None:
        self.acls.update(dict.fromkeys(map(acl_of, body.acls)))
        self._acls_changed(version)

    def _acls_removed(self, version: int, body: log.AclsRemoved) -> None:
        for entry in body.acls:
            self.acls.pop(acl_of(entry), None)
        self._acls_changed(version)

    def _acls_changed(self, version: int) -> None:
        self.acls_version = version
        self._touched_acls = True

    def _client_quotas_set(self, version: int, body: log.ClientQuotasSet) -> None:
        entity = QuotaEntity(body.user, body.client_id, body.ip)
        self.quotas[entity] = {each.key: each.value for each in body.quotas}
        if not body.quotas:
            del self.quotas[entity]
        self._touched_quotas = True


_APPLY: dict[type, Callable[[Metadata, int, Any], None]] = {
    log.ClusterCreated: Metadata._cluster_created,
    log.FeatureLevelSet: Metadata._feature_level_set,
    log.BrokerRegistered: Metadata._broker_registered,
    log.BrokerFenced: Metadata._broker_fenced,
    log.BrokerUnfenced: Metadata._broker_unfenced,
    log.BrokerDraining: Metadata._broker_draining,
    log.BrokerUnregistered: Metadata._broker_unregistered,
    log.TopicCreated: Metadata._topic_created,
    log.TopicReady: Metadata._topic_ready,
    log.TopicDeleted: Metadata._topic_deleted,
    log.PartitionsCreated: Metadata._partitions_created,
    log.PartitionsChanged: Metadata._partitions_changed,
    log.ConfigsSet: Metadata._configs_set,
    log.ProducerIdsAllocated: Metadata._producer_ids_allocated,
    log.ScramKeysSet: Metadata._scram_keys_set,
    log.ScramKeysRemoved: Metadata._scram_keys_removed,
    log.AclsAdded: Metadata._acls_added,
    log.AclsRemoved: Metadata._acls_removed,
    log.ClientQuotasSet: Metadata._client_quotas_set,
    log.DelegationTokenSet: Metadata._token_set,
    log.DelegationTokensRemoved: Metadata._tokens_removed,
}


def _falls(topic: Topic, epoch: str, before: PartitionState, after: int) -> str:
    return f"{topic.name}-{before.partition}: its {epoch} falls to {after}: {before}"
