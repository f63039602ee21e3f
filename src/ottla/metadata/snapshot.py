"""The whole state as bytes: the shortest run of entries that makes it again.

`broker/metadata_log/metadata_follow.py` saves one now and then, so that the log can be cut and a newcomer need not
read it all.
"""

from __future__ import annotations

import struct as bits
from collections.abc import Iterator, Sequence

from ottla.kernel.ids import NO_LEADER, LeaderEpoch, PartitionEpoch
from ottla.kernel.quotas import in_order
from ottla.kernel.seams import StoredSnapshot
from ottla.metadata import entries as log
from ottla.metadata import seal
from ottla.metadata.acls import split_acls
from ottla.metadata.partition_state import NEVER_UNCLEAN, PartitionState, entry_of
from ottla.metadata.quotas import client_quotas_set
from ottla.metadata.state import Metadata, Topic
from ottla.metadata.tokens import token_set
from ottla.schema.codec import MalformedMessage

_SIZE = bits.Struct(">i")
_WEIGHT_LIMIT = log.ENTRY_LIMIT // 2


def take_snapshot(state: Metadata) -> StoredSnapshot:
    """The state as of its version, behind a checksum where the state's level of metadata.version has them."""
    out = bytearray()
    for body in _bodies(state):
        data = log.encode_entry(body, broker_epoch=log.UNREGISTERED, sequence=0)
        out += _SIZE.pack(len(data))
        out += data
    bare = StoredSnapshot(state.version, bytes(out))
    return seal.sealed_snapshot(bare) if state.metadata_version() >= seal.SEALED_ENTRIES else bare


def load_snapshot(snapshot: StoredSnapshot) -> Metadata:
    """The state in a snapshot; MalformedMessage if the bytes are damaged."""
    state = Metadata()
    position = 0
    data = seal.unsealed_snapshot(snapshot).body
    if not data:
        raise MalformedMessage("it is empty")
    while position < len(data):
        if position + _SIZE.size > len(data):
            raise MalformedMessage("a metadata snapshot that ends in the middle of an entry")
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        if not 0 <= size <= len(data) - position:
            raise MalformedMessage("a metadata snapshot that ends in the middle of an entry")
        state.apply(snapshot.version, log.decode_entry(data[position : position + size]).body)
        position += size
    state.version = snapshot.version
    if state.metadata_version() >= seal.SEALED_ENTRIES and not seal.is_sealed(snapshot):
        raise MalformedMessage("it carries no checksum")
    return state


def split_partitions(partitions: Sequence[PartitionState]) -> Iterator[list[log.PartitionEntry]]:
    """Runs of partitions that fit into one entry each (rule C4)."""
    run: list[log.PartitionEntry] = []
    weight = 0
    for partition in partitions:
        sets = (partition.in_sync, partition.eligible, partition.last_known, partition.offline)
        lists = (partition.replicas, partition.adding, partition.removing, *sets)
        own = 64 + 4 * sum(map(len, lists))
        if run and weight + own > _WEIGHT_LIMIT:
            yield run
            run, weight = [], 0
        run.append(entry_of(partition))
        weight += own
    if run:
        yield run


def _bodies(state: Metadata) -> Iterator[log.Body]:
    """The topics in an order in which each can be applied."""
    yield log.ClusterCreated(cluster_id=state.cluster_id, secret=state.secret)
    for name in sorted(state.features):
        yield log.FeatureLevelSet(name=name, level=state.features[name])
    if state.next_producer_id:
        yield log.ProducerIdsAllocated(broker_id=state.producer_id_owner, first=state.next_producer_id, count=0)
    yield from _broker_bodies(state)
    for topic_id in sorted(state.topics):
        topic = state.topics[topic_id]
        configs = [log.ConfigChange(name=name, value=topic.configs[name]) for name in sorted(topic.configs)]
        yield log.TopicCreated(topic_id=topic_id, name=topic.name, configs=configs)
        yield from _partition_bodies(topic)
        if topic.ready:
            yield log.TopicReady(topic_id=topic_id)
    for (resource_type, name), configs_of in sorted(state.configs.items()):
        changes = [log.ConfigChange(name=key, value=configs_of[key]) for key in sorted(configs_of)]
        yield log.ConfigsSet(resource_type=resource_type, resource_name=name, changes=changes)
    for (user, mechanism), keys in sorted(state.scram.items()):
        yield log.ScramKeysSet(user=user, mechanism=mechanism, **keys._asdict())
    for token_id in sorted(state.tokens):
        yield token_set(state.tokens[token_id])
    for run in split_acls(sorted(state.acls)):
        yield log.AclsAdded(acls=run)
    for entity in sorted(state.quotas, key=in_order):
        yield client_quotas_set(entity, state.quotas[entity])


def _partition_bodies(topic: Topic) -> Iterator[log.Body]:
    """The partitions' entries. No entry notes that a partition was led uncleanly: the same change is written again."""
    unclean = [one for one in topic.partitions if one.unclean_epoch != NEVER_UNCLEAN]
    for run in split_partitions([_before_unclean(one) for one in topic.partitions]):
        yield log.PartitionsCreated(partitions=run)
    for step in ([_led_uncleanly(one) for one in unclean], unclean):
        for run in split_partitions(step):
            yield log.PartitionsChanged(partitions=run)


def _before_unclean(partition: PartitionState) -> PartitionState:
    if partition.unclean_epoch == NEVER_UNCLEAN:
        return partition
    return partition._replace(
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(partition.unclean_epoch - 1),
        partition_epoch=PartitionEpoch(partition.partition_epoch - 2),
        in_sync=(),
        eligible=(),
    )


def _led_uncleanly(partition: PartitionState) -> PartitionState:
    """The partition with all replicas in sync, so that the present leader came to it cleanly."""
    return partition._replace(
        leader=partition.replicas[0],
        leader_epoch=partition.unclean_epoch,
        partition_epoch=PartitionEpoch(partition.partition_epoch - 1),
        in_sync=partition.replicas,
        eligible=(),
    )


def _broker_bodies(state: Metadata) -> Iterator[log.Body]:
    for broker_id in sorted(state.brokers):
        broker = state.brokers[broker_id]
        yield log.BrokerRegistered(
            broker_id=broker_id,
            incarnation=broker.incarnation,
            host=broker.host,
            rack=broker.rack,
            listeners=[
                log.ListenerEntry(name=name, host=host, port=port, security_protocol=protocol)
                for name, host, port, protocol in broker.listeners
            ],
            metadata_version=broker.metadata_version,
            epoch=broker.epoch,
            options=[log.ConfigChange(name=name, value=value) for name, value in broker.options],
            directories=list(broker.directories),
            held=[
                log.HeldDirectoryRecord(directory_id=one.directory_id, incarnation=one.incarnation, closed=one.closed)
                for one in broker.held
            ],
        )
        if broker.draining:
            yield log.BrokerDraining(broker_id=broker_id, epoch=broker.epoch)
        if broker.fenced:
            yield log.BrokerFenced(broker_id=broker_id, epoch=broker.epoch, early=broker.fenced_early)
