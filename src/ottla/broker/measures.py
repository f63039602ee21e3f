"""Metrics of the broker: gathered from its integers on request, with the names that Kafka's dashboards use.

Called by server/broker_server.py, which adds those of the process from server/measures.py. Names are those of the JMX
exporter's Kafka rules and of kafka_exporter. A fact has one name, except where the two exporters name it both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.broker.requests.request_times import ONE_IN
from ottla.broker.troubles import replicas_in_trouble
from ottla.metrics.metric import Metric, Sample, Traffic
from ottla.storage.directory.strays import stray_folders
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition

_TOPIC = ("topic",)
_PARTITION = ("topic", "partition")
_GROUP_PARTITION = ("consumergroup", "topic", "partition")


def _traffic(name: str, text: str) -> Metric:
    return Metric(f"kafka_server_brokertopicmetrics_{name}_total", "counter", text, _TOPIC)


INFO = Metric("ottla_build_info", "gauge", "1, labelled with the version.", ("version",))
TRAFFIC = {
    "messages_in": _traffic("messagesin", "Records appended."),
    "bytes_in": _traffic("bytesin", "Bytes of record batches appended."),
    "bytes_out": _traffic("bytesout", "Bytes of record batches read."),
    "produces": _traffic("totalproducerequests", "Partitions written to by Produce requests."),
    "fetches": _traffic("totalfetchrequests", "Partitions answered in Fetch responses."),
    "failed_produces": _traffic("failedproducerequests", "Partitions refused in Produce requests."),
    "failed_fetches": _traffic("failedfetchrequests", "Partitions refused in Fetch requests."),
}
LEADERS = Metric("kafka_server_replicamanager_leadercount", "gauge", "Partitions this broker leads.")
PARTITIONS = Metric("kafka_server_replicamanager_partitioncount", "gauge", "Replicas on this broker.")
UNDER_REPLICATED = Metric(
    "kafka_server_replicamanager_underreplicatedpartitions", "gauge", "Partitions led here with replicas out of sync."
)
OFFLINE = Metric(
    "kafka_controller_kafkacontroller_offlinepartitionscount", "gauge", "Partitions of the cluster without a leader."
)
CONTROLLERS = Metric(
    "kafka_controller_kafkacontroller_activecontrollercount", "gauge", "1 on the broker that is the caretaker."
)
UNDER_MIN = Metric("kafka_cluster_partition_underminisr", "gauge", "1 with fewer in sync than the minimum.", _PARTITION)
AT_MIN = Metric("kafka_cluster_partition_atminisr", "gauge", "1 with just the minimum in sync.", _PARTITION)
REPLICAS = Metric(
    "kafka_cluster_partition_replicascount",
    "gauge",
    "Replicas. The same as kafka_topic_partition_replicas: both names are kept for existing dashboards.",
    _PARTITION,
)
LOG_SIZE = Metric("kafka_log_log_size", "gauge", "Bytes of the partition's log.", _PARTITION)
OFFLINE_DIRECTORIES = Metric(
    "kafka_log_logmanager_offlinelogdirectorycount", "gauge", "Log directories of this broker that have failed."
)
DIRECTORY_OFFLINE = Metric(
    "kafka_log_logmanager_logdirectoryoffline", "gauge", "1 where the log directory has failed.", ("logdirectory",)
)
OFFLINE_REPLICAS = Metric(
    "kafka_server_replicamanager_offlinereplicacount",
    "gauge",
    "Replicas of this broker in failed log directories, or that cannot be opened and are the last of their partition.",
)
TROUBLED = Metric(
    "ottla_replica_trouble",
    "gauge",
    "1 for each replica that is not fully served, with the reason.",
    (*_PARTITION, "reason"),
)
STRAYS = Metric(
    "ottla_stray_folders", "gauge", "Folders that a start has set aside (`ottla log strays`).", ("logdirectory",)
)
IN_SYNC_SHRINKS = Metric(
    "kafka_server_replicamanager_isrshrinks_total", "counter", "Times that a partition led here lost a replica in sync."
)
IN_SYNC_EXPANDS = Metric(
    "kafka_server_replicamanager_isrexpands_total", "counter", "Times that a partition led here won a replica in sync."
)
SCRUBBED = Metric("ottla_scrub_checked_bytes_total", "counter", "Bytes of closed segments checked for damage.")
SCRUB_PASSES = Metric("ottla_scrub_passes_total", "counter", "Passes over all closed segments.")
DAMAGED = Metric("ottla_damaged_segments", "gauge", "Segments known to be damaged; damaged records are not served.")
REPAIRED = Metric("ottla_repaired_segments_total", "counter", "Damaged segments that were fetched from a peer.")
REQUESTS = Metric("ottla_requests_total", "counter", "Requests by API.", ("api",))
REQUEST_TIMES = Metric(
    "ottla_request_seconds",
    "histogram",
    "Time from the decoding of a request to its answer, waits for commits, members or new records included. "
    f"Of Produce and Fetch one in {ONE_IN} is timed, of other APIs every request: the count is not that of requests.",
    ("api",),
)
BUGS = Metric("ottla_handler_failures_total", "counter", "Requests that failed by the broker's own fault.")
MALFORMED = Metric("ottla_malformed_requests_total", "counter", "Connections closed because of an invalid request.")
THROTTLED = Metric(
    "ottla_throttled_requests_total", "counter", "Requests after which the client has to wait, by quota.", ("quota",)
)
THROTTLE_TIME = Metric(
    "ottla_throttle_seconds_total", "counter", "Seconds for which clients were told to wait, by quota.", ("quota",)
)
PUSHING = Metric("ottla_telemetry_clients", "gauge", "Clients whose pushed metrics are shown (KIP-714).")
LEFT_OUT = Metric(
    "ottla_telemetry_left_out_total",
    "counter",
    "Points that clients pushed and that are not shown: not asked for, of another kind, or above the bounds.",
)
SESSIONS = Metric("kafka_server_fetchsessioncache_numincrementalfetchsessions", "gauge", "Fetch sessions kept.")
SESSION_PARTITIONS = Metric(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", "gauge", "Partitions in fetch sessions."
)
METADATA_VERSION = Metric("ottla_metadata_version", "gauge", "The last entry of the metadata log applied.")
CLOCK_AHEAD = Metric(
    "ottla_clock_unproven_seconds",
    "gauge",
    "Seconds by which the clock is ahead of what other witnesses have proven; deletion by age is later by them.",
)
CLOCK_BEHIND = Metric("ottla_clock_behind_seconds", "gauge", "Seconds by which the clock is behind the proven time.")
EXPORTER_BROKERS = Metric("kafka_brokers", "gauge", "Brokers that live.")
TOPIC_PARTITIONS = Metric("kafka_topic_partitions", "gauge", "Partitions of the topic.", _TOPIC)
CURRENT_OFFSET = Metric("kafka_topic_partition_current_offset", "gauge", "High watermark.", _PARTITION)
OLDEST_OFFSET = Metric("kafka_topic_partition_oldest_offset", "gauge", "Log start offset.", _PARTITION)
PARTITION_LEADER = Metric("kafka_topic_partition_leader", "gauge", "The leader's broker id.", _PARTITION)
PARTITION_REPLICAS = Metric(
    "kafka_topic_partition_replicas",
    "gauge",
    "Replicas. The same as kafka_cluster_partition_replicascount: both names are kept for existing dashboards.",
    _PARTITION,
)
PARTITION_IN_SYNC = Metric("kafka_topic_partition_in_sync_replica", "gauge", "Replicas in sync.", _PARTITION)
PARTITION_PREFERRED = Metric(
    "kafka_topic_partition_leader_is_preferred", "gauge", "1 where the first replica leads.", _PARTITION
)
PARTITION_UNDER = Metric(
    "kafka_topic_partition_under_replicated_partition", "gauge", "1 with replicas out of sync.", _PARTITION
)
GROUP_OFFSET = Metric("kafka_consumergroup_current_offset", "gauge", "Committed offset.", _GROUP_PARTITION)
GROUP_LAG = Metric("kafka_consumergroup_lag", "gauge", "Records behind the high watermark.", _GROUP_PARTITION)
GROUP_OFFSET_SUM = Metric(
    "kafka_consumergroup_current_offset_sum", "gauge", "Committed offsets, summed.", ("consumergroup", "topic")
)
GROUP_LAG_SUM = Metric("kafka_consumergroup_lag_sum", "gauge", "Lag, summed.", ("consumergroup", "topic"))
GROUP_MEMBERS = Metric("kafka_consumergroup_members", "gauge", "Members.", ("consumergroup",))


def families() -> list[Metric]:
    """Every metric of the broker, for the reference."""
    found = [value for value in globals().values() if isinstance(value, Metric)]
    return found + list(TRAFFIC.values())


def gather(node: Node) -> Iterator[Sample]:
    """All present samples."""
    yield Sample(INFO, (__version__,), 1)
    yield from _broker(node)
    yield from _traffic_samples(node.replicas.traffic)
    yield from _cluster(node)
    for partition in node.replicas.all():
        yield from _log(partition)
    yield from _groups(node)
    yield from _pushed(node)


def _broker(node: Node) -> Iterator[Sample]:
    led = [partition for partition in node.replicas.all() if partition.leader is not None]
    yield Sample(LEADERS, (), len(led))
    yield Sample(PARTITIONS, (), len(node.replicas))
    yield Sample(UNDER_REPLICATED, (), sum(_is_under_replicated(partition) for partition in led))
    directories = node.replicas.directories
    yield Sample(OFFLINE_DIRECTORIES, (), len(directories.failed))
    for path in directories.paths:
        yield Sample(DIRECTORY_OFFLINE, (path,), path in directories.failed)
    yield Sample(OFFLINE_REPLICAS, (), len(directories.offline))
    for trouble in replicas_in_trouble(node.replicas, node.metadata):
        yield Sample(TROUBLED, (trouble.topic, str(trouble.partition), trouble.reason), 1)
    for directory in directories.online:
        yield Sample(STRAYS, (directory.path,), len(stray_folders(directory.disk, directory.path)))
    yield Sample(IN_SYNC_SHRINKS, (), node.replicas.in_sync.shrinks)
    yield Sample(IN_SYNC_EXPANDS, (), node.replicas.in_sync.expands)
    yield Sample(CLOCK_AHEAD, (), node.time.doubt.ahead_ms // 1000)
    yield Sample(CLOCK_BEHIND, (), node.time.doubt.behind_ms // 1000)
    yield Sample(BUGS, (), node.dispatch.bugs)
    yield Sample(MALFORMED, (), node.dispatch.malformed)
    for quota, throttled in node.services.quotas.throttled.items():
        yield Sample(THROTTLED, (quota,), throttled.requests)
        yield Sample(THROTTLE_TIME, (quota,), throttled.ms / 1000)
    yield Sample(SESSIONS, (), len(node.fetch_sessions))
    yield Sample(SESSION_PARTITIONS, (), node.fetch_sessions.partitions_cached())
    yield Sample(SCRUBBED, (), node.scrubber.checked_bytes)
    yield Sample(SCRUB_PASSES, (), node.scrubber.passes)
    yield Sample(DAMAGED, (), node.repairs.damaged_segments())
    yield Sample(REPAIRED, (), node.repairs.repaired_segments)
    for api, count in node.dispatch.counts():
        yield Sample(REQUESTS, (api,), count)
    for key, times in sorted(node.dispatch.times.by_key.items()):
        yield from times.samples(REQUEST_TIMES, (APIS[key].name,))


def _traffic_samples(traffic: dict[str, Traffic]) -> Iterator[Sample]:
    for name, metric in TRAFFIC.items():
        for topic, counted in sorted(traffic.items()):
            yield Sample(metric, (topic,), getattr(counted, name))


def _cluster(node: Node) -> Iterator[Sample]:
    metadata = node.metadata
    yield Sample(METADATA_VERSION, (), metadata.version)
    yield Sample(EXPORTER_BROKERS, (), len(metadata.live_brokers()))
    yield Sample(CONTROLLERS, (), metadata.caretaker() == node.broker)
    topics = metadata.visible_topics()
    yield Sample(OFFLINE, (), sum(not part.has_leader for topic in topics for part in topic.partitions))
    for topic in topics:
        yield Sample(TOPIC_PARTITIONS, (topic.name,), len(topic.partitions))
        for part in topic.partitions:
            labels = (topic.name, str(part.partition))
            yield Sample(PARTITION_LEADER, labels, part.leader)
            yield Sample(PARTITION_REPLICAS, labels, len(part.replicas))
            yield Sample(PARTITION_IN_SYNC, labels, len(part.in_sync))
            yield Sample(PARTITION_PREFERRED, labels, bool(part.replicas) and part.leader == part.replicas[0])
            yield Sample(PARTITION_UNDER, labels, len(part.in_sync) < len(part.replicas))


def _log(partition: Partition) -> Iterator[Sample]:
    labels = (partition.topic, str(partition.index))
    yield Sample(LOG_SIZE, labels, partition.log.size_bytes)
    leader = partition.leader
    if leader is None:
        return
    yield Sample(CURRENT_OFFSET, labels, partition.log.high_watermark)
    yield Sample(OLDEST_OFFSET, labels, partition.log.log_start_offset)
    in_sync = len(leader.committed_in_sync)
    yield Sample(UNDER_MIN, labels, in_sync < leader.required_in_sync)
    yield Sample(AT_MIN, labels, in_sync == leader.required_in_sync)
    yield Sample(REPLICAS, labels, len(leader.replicas))


def _is_under_replicated(partition: Partition) -> bool:
    leader = partition.leader
    return leader is not None and len(leader.committed_in_sync) < len(leader.replicas)


def _groups(node: Node) -> Iterator[Sample]:
    """Group metrics. Lag needs no sidecar: committed offsets and high watermarks are both here."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for group, topic, index, offset in _committed_offsets(node):
        labels = (group, topic, str(index))
        yield Sample(GROUP_OFFSET, labels, offset)
        partition = node.services.partition(topic, bytes(16), index)
        lag = max(0, partition.log.high_watermark - offset) if hasattr(partition, "log") else 0
        yield Sample(GROUP_LAG, labels, lag)
        offsets, lags = sums.get((group, topic), (0, 0))
        sums[(group, topic)] = (offsets + offset, lags + lag)
    for (group, topic), (offsets, lags) in sorted(sums.items()):
        yield Sample(GROUP_OFFSET_SUM, (group, topic), offsets)
        yield Sample(GROUP_LAG_SUM, (group, topic), lags)
    for group, members in _group_members(node):
        yield Sample(GROUP_MEMBERS, (group,), members)


def _pushed(node: Node) -> Iterator[Sample]:
    """The metrics of clients, by the names that the clients gave them."""
    telemetry = node.services.telemetry
    telemetry.forget_silent(node.around.clock.mono_ms())
    yield Sample(PUSHING, (), len(telemetry.pushed))
    yield Sample(LEFT_OUT, (), telemetry.pushed.left_out)
    yield from telemetry.pushed.samples()


def _committed_offsets(node: Node) -> Iterator[tuple[str, str, int, int]]:
    """(group, topic, partition, offset) of all committed offsets."""
    for shard in node.services.groups.shards():
        yield from shard.offsets.everything()


def _group_members(node: Node) -> Iterator[tuple[str, int]]:
    for shard in node.services.groups.shards():
        for group in sorted(shard.all_groups(), key=lambda each: each.group_id):
            yield group.group_id, group.size
