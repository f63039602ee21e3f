"""ListOffsets and DeleteRecords see records acknowledged at acks=1, although a disk is still syncing them."""

from __future__ import annotations

from typing import Any

import pytest
from plain_requests import a_deletion_of_records
from sim_broker import SimBroker

from ottla.broker.replicas.partition import SETTLE_MS
from ottla.kernel.errors import ErrorCode
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
LATER_US = 60_000
"""The time that a sync takes here: longer than a request and its answer."""


class Place:
    """One broker with a topic, and syncs of settable duration."""

    def __init__(self) -> None:
        self.broker = SimBroker()
        self.broker.create_topic()
        assert self.broker.loop.run_until(lambda: self.latest() == 0, within_ms=5000)
        self.peer = self.broker.peer()
        self.broker.wait_for(self.peer.connect())

    def syncs_take(self, delay_us: int) -> None:
        self.broker.here.set_sync_us((delay_us, delay_us))

    def produce(self, count: int) -> None:
        builder = BatchBuilder()
        for at in range(count):
            builder.add(1000 + at, None, b"x")
        data = [PartitionProduceData(index=0, records=builder.build())]
        topics = [TopicProduceData(name="t", partition_data=data)]
        request = ProduceRequest(acks=1, timeout_ms=9000, topic_data=topics)
        answer = self.broker.wait_for(self.peer.ask(request, most=9))
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def offsets(self, timestamp: int, isolation_level: int = 0) -> Any:
        partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        topics = [ListOffsetsTopic(name="t", partitions=partitions)]
        request = ListOffsetsRequest(topics=topics, isolation_level=isolation_level)
        return self.broker.ask(request).topics[0].partitions[0]

    def latest(self, isolation_level: int = 0) -> int:
        answer = self.offsets(LATEST, isolation_level)
        return -1 if answer.error_code else int(answer.offset)

    def delete(self, offset: int, timeout_ms: int = 5000) -> tuple[int, int]:
        answer = self.broker.ask(a_deletion_of_records(offset, timeout_ms=timeout_ms)).topics[0].partitions[0]
        return answer.low_watermark, answer.error_code


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_what_was_acknowledged_is_below_the_latest_offset(place: Place, isolation_level: int) -> None:
    place.syncs_take(LATER_US)
    place.produce(10)
    assert place.latest(isolation_level) == 10


@pytest.mark.parametrize(("timestamp", "offset"), [(1005, 5), (MAX_TIMESTAMP, 9)])
def test_what_was_acknowledged_is_found_by_its_time(place: Place, timestamp: int, offset: int) -> None:
    place.syncs_take(LATER_US)
    place.produce(10)
    assert place.offsets(timestamp).offset == offset


@pytest.mark.parametrize(("offset", "start"), [(10, 10), (4, 4), (-1, 10)])
def test_what_was_acknowledged_can_be_deleted(place: Place, offset: int, start: int) -> None:
    place.syncs_take(LATER_US)
    place.produce(10)
    assert place.delete(offset) == (start, ErrorCode.NONE)


def test_records_that_no_log_holds_cannot_be_deleted(place: Place) -> None:
    place.produce(10)
    assert place.delete(11) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_disk_that_does_not_answer_is_waited_for_no_longer_than_a_moment(place: Place) -> None:
    place.syncs_take(20 * SETTLE_MS * 1000)
    place.produce(10)
    before_ms = place.broker.loop.now_us // 1000
    assert place.latest() == 0
    assert SETTLE_MS <= place.broker.loop.now_us // 1000 - before_ms < 2 * SETTLE_MS
    assert place.delete(10) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)


def test_nobody_waits_where_nothing_is_on_its_way(place: Place) -> None:
    place.produce(10)
    assert place.latest() == 10
    place.syncs_take(LATER_US)
    before_us = place.broker.loop.now_us
    assert place.latest() == 10
    assert place.offsets(EARLIEST).offset == 0
    assert place.broker.loop.now_us - before_us < LATER_US


def test_the_earliest_offset_waits_for_nothing(place: Place) -> None:
    place.syncs_take(LATER_US)
    place.produce(10)
    before_us = place.broker.loop.now_us
    assert place.offsets(EARLIEST).offset == 0
    assert place.broker.loop.now_us - before_us < LATER_US
