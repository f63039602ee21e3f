"""Reads everything back: logs with their errors, groups, configurations, lookups by time.

Logs are read as a reader of committed records does, who leaves out what the broker names as aborted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position
from tests.damage.brokers import until
from tests.damage.values import Content, Known, LogView, View, Written

from ottla.client.admin.admin import ConfigSource, Resource, ResourceType
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster, Connection
from ottla.client.errors import ClientError
from ottla.client.model import ClientSettings, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.records.batch import iterate_batches
from ottla.records.faults import CorruptRecords
from ottla.records.reader import read_records

SETTINGS = ClientSettings(request_timeout_ms=8000, api_timeout_ms=4000, connect_timeout_ms=4000)
PATIENCE_S = 20
"""Clients wait so long for a leader, or for an error in place of damage, before their view counts."""
NOTICES_WITHIN_S = 40
"""Damage may be served for so long before a scrub must have found it: each pass waits for its own process."""
AGAIN_S = 0.3
_OF_ONE_OFFSET = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE}
_FAILED = (ApiError, ClientError)
_EARLIEST = -2


def see(bootstrap: str, known: Known, when: str, *, final: bool = True, patience_s: float = PATIENCE_S) -> View:
    """Read all known logs, groups and configurations from the present leaders."""
    view = View(when, final=final)
    with Cluster(bootstrap, settings=SETTINGS) as cluster:
        end = time.monotonic() + (patience_s if final else 1)
        topics = _topics(cluster, known, end)
        for log, written in known.logs.items():
            if log.topic in topics and log.partition in topics[log.topic].partitions:
                view.logs[log], view.leaders[log] = _see_log(cluster, log, written, end)
        if final:
            _see_the_rest(cluster, known, view)
    return view


def _topics(cluster: Cluster, known: Known, end: float) -> Mapping[str, TopicView]:
    """All topics, once each known partition has a leader or the time is up."""
    found: dict[str, TopicView] = {}

    def all_led() -> bool:
        with suppress(*_FAILED):
            found.clear()
            found.update(cluster.topics())
        return all(
            log.topic in found
            and log.partition in found[log.topic].partitions
            and found[log.topic].partitions[log.partition].leader >= 0
            for log in known.logs
        )

    until(all_led, end - time.monotonic())
    return found


def _see_log(cluster: Cluster, log: TopicPartition, written: Written, end: float) -> tuple[LogView, int]:
    """Read one log; return it with its leader.

    Damage that is served or refused is read again until the broker has noticed it, and repaired it if it can.
    """
    refused: list[dict[int, str]] = []
    last, leader = LogView(), -1

    def settled() -> bool:
        nonlocal last, leader
        if refused:
            time.sleep(AGAIN_S)
        last, leader = _read_from_leader(cluster, log, written)
        replicas = len(cluster.plan.metadata.topics[log.topic].partitions[log.partition].replicas)
        refused.append(last.refused)
        if last.garbled:
            return False
        if time.monotonic() > end:
            return True
        if last.error or (replicas > 1 and last.visible_to < written.end):
            return False
        return not last.refused or (replicas == 1 and refused[-2:-1] == [last.refused])

    until(settled, end + NOTICES_WITHIN_S - time.monotonic())
    return last, leader


def _read_from_leader(cluster: Cluster, log: TopicPartition, written: Written) -> tuple[LogView, int]:
    try:
        topic = cluster.topics()[log.topic]
        partition = topic.partitions[log.partition]
        broker = cluster.plan.metadata.brokers.get(partition.leader)
        if broker is None:
            return LogView(error=f"no leader ({partition.error.name})"), -1
        with closing(Connection(broker.host, broker.port, settings=SETTINGS)) as connection:
            return _Reader(connection, log, topic.topic_id, written).read(), broker.id
    except _FAILED as fault:
        return LogView(error=str(fault)), -1


class _Reader:
    """Reads one log over one connection."""

    def __init__(self, connection: Connection, log: TopicPartition, topic_id: bytes, written: Written) -> None:
        self._connection = connection
        self._log = log
        self._topic_id = topic_id
        self._written = written
        self._offsets = sorted(written.records)
        self._view = LogView()

    def read(self) -> LogView:
        view = self._view
        view.start = self._offset_at(_EARLIEST)
        below = sorted({0, self._written.start - 1, self._written.start // 2})
        for offset in (each for each in below if 0 <= each < self._written.start):
            self._read_on(offset)  # deleted records must not be there
        position = max(view.start, 0)
        while not view.error and (following := self._read_on(position)) is not None:
            position = following
        for offset in self._offsets:
            if offset >= max(view.visible_to, 0) or offset < view.start:
                view.refused.pop(offset, None)
        for timestamp in self._written.times:
            if not view.error:
                view.times[timestamp] = self._offset_at(timestamp)
        return view

    def _read_on(self, position: int) -> int | None:
        """Take the records of one fetch; return the next position, or None at the end."""
        view = self._view
        data = self._fetch(position)
        code = ErrorCode(data.error_code)
        if code is ErrorCode.NONE:
            view.visible_to = data.high_watermark
            if position >= data.high_watermark:
                return None
            return self._take(position, data)
        if code not in _OF_ONE_OFFSET:
            view.error = code.name
            return None
        if position >= self._written.start:
            view.refused[position] = code.name
        return self._behind(position)

    def _behind(self, position: int) -> int | None:
        """The next offset to fetch: that of a known record, or the end, to see later records."""
        known = next((offset for offset in self._offsets if offset > position), self._written.end)
        return known if known > position else None

    def _take(self, position: int, data: PartitionData) -> int | None:
        view, following = self._view, position
        waiting = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
        aborted: set[int] = set()
        try:
            for batch in iterate_batches(memoryview(data.records or b"")):
                if not batch.crc_holds():
                    raise CorruptRecords("the checksum does not hold")
                while waiting and waiting[0][0] <= batch.last_offset:
                    aborted.add(waiting.pop(0)[1])
                is_left_out = batch.is_control or (batch.is_transactional and batch.producer_id in aborted)
                if batch.is_control:
                    aborted.discard(batch.producer_id)
                for record in () if is_left_out else read_records(batch):
                    if record.offset >= position:
                        content = Content(record.timestamp, record.key, record.value, tuple(record.headers))
                        view.records[record.offset] = content
                following = max(following, batch.next_offset)
        except CorruptRecords:
            view.garbled.add(following)
            return self._behind(following)
        if following == position:  # no more records below the high watermark
            view.refused.setdefault(position, "an empty answer")
            return self._behind(position)
        return following

    def _fetch(self, position: int) -> PartitionData:
        part = FetchPartition(partition=self._log.partition, fetch_offset=position, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[FetchTopic(topic=self._log.topic, topic_id=self._topic_id, partitions=[part])],
        )
        response = self._connection.request(request)
        if response.error_code or not response.responses:
            return PartitionData(partition_index=0, error_code=response.error_code or -1, high_watermark=-1)
        found: PartitionData = response.responses[0].partitions[0]
        return found

    def _offset_at(self, timestamp: int) -> int:
        part = ListOffsetsPartition(partition_index=self._log.partition, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self._log.topic, partitions=[part])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic], timeout_ms=3000)
        answer = self._connection.request(request).topics[0].partitions[0]
        if answer.error_code:
            self._view.error = self._view.error or f"ListOffsets: {ErrorCode(answer.error_code).name}"
            return -1
        return int(answer.offset)


def _see_the_rest(cluster: Cluster, known: Known, view: View) -> None:
    for group in known.offsets:
        try:
            committed = cluster.committed_offsets(group)
            view.offsets[group] = {log: each.offset for log, each in committed.items()}
        except _FAILED as fault:
            view.offsets[group] = str(fault)
    resources = {topic: Resource(ResourceType.TOPIC, topic) for topic in known.configs}
    try:
        described = Admin(cluster=cluster).describe_configs(list(resources.values()))
    except _FAILED as fault:
        view.configs = dict.fromkeys(known.configs, str(fault))
        return
    for topic, resource in resources.items():
        found = described[resource]
        if isinstance(found, ApiError):
            view.configs[topic] = str(found)
        else:
            own = [each for each in found if each.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG]
            view.configs[topic] = {each.name: each.value or "" for each in own}


def differing(bootstrap: str, view: View) -> list[TopicPartition]:
    """Logs without errors that confluent-kafka reads differently."""
    found = []
    for log, seen in view.logs.items():
        if not seen.error and not seen.refused and not seen.garbled and seen.records:
            theirs = _by_confluent(bootstrap, log, min(seen.records), seen.visible_to)
            if {offset: content for offset, content in theirs.items() if offset < seen.visible_to} != seen.records:
                found.append(log)
    return found


def _by_confluent(bootstrap: str, log: TopicPartition, start: int, end: int) -> dict[int, Content]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "second-reader", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "check.crcs": True})
    consumer.assign([Position(log.topic, log.partition, start)])
    found: dict[int, Content] = {}
    try:
        while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
            offset = message.offset()
            assert offset is not None
            found[offset] = _content(message)
            if offset + 1 >= end:
                break
    except KafkaException:
        pass  # the records read so far are compared
    finally:
        consumer.close()
    return found


def _content(message: Any) -> Content:
    return Content(message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ()))
