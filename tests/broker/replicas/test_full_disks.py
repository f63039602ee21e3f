"""A full log directory is logged once when it begins to refuse records, and once when it takes them again."""

from __future__ import annotations

import logging

import pytest
from plain_requests import a_produce
from sim_broker import SimBroker

from ottla.broker.replicas.full_disks import AGAIN_MS, QUIET_MS
from ottla.kernel.errors import ErrorCode
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

FOREVER = 1 << 62


class Place:
    """One broker with a topic of two partitions, on a disk of settable size."""

    def __init__(self) -> None:
        self.broker = SimBroker()
        self.broker.create_topic(partitions=2)
        assert self.broker.loop.run_until(lambda: len(self.broker.here.node.replicas) == 2, within_ms=5000)
        self.peer = self.broker.peer()
        assert self.produce(0) == ErrorCode.NONE

    def room(self, capacity_bytes: int) -> None:
        self.broker.machine.disk.capacity_bytes = capacity_bytes

    def produce(self, partition: int) -> int:
        answer = self.broker.wait_for(self.peer.ask(a_produce(bytes(1000), partition=partition), most=9))
        return int(answer.responses[0].partition_responses[0].error_code)

    def pass_ms(self, duration_ms: int) -> None:
        self.broker.loop.run_for(duration_ms)


@pytest.fixture
def place() -> Place:
    return Place()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "the log directory" in record.getMessage()]


def test_the_beginning_and_the_end_of_refusals_are_one_warning_each(place: Place, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "ottla.replicas"):
        place.room(0)
        for turn in range(5):
            assert place.produce(turn % 2) == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(said(caplog)) == 1
        assert said(caplog)[0].startswith("the log directory /data is full: produces to it are refused")
        assert "the first of them to t-0 at offset 1" in said(caplog)[0]
        place.room(FOREVER)
        assert place.produce(1) == ErrorCode.NONE
        place.pass_ms(2 * QUIET_MS)
        assert said(caplog)[1:] == [
            "the log directory /data has room again: 5 produces to 2 partitions were refused within 0 s"
        ]
        place.room(0)
        assert place.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(said(caplog)) == 3


def test_where_now_and_then_a_batch_still_fits_nothing_is_said_in_between(
    place: Place, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, "ottla.replicas"):
        for _ in range(20):
            place.room(0)
            assert place.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
            place.room(FOREVER)
            assert place.produce(0) == ErrorCode.NONE
            place.pass_ms(QUIET_MS // 2)
        assert len(said(caplog)) == 1


def test_refusals_that_do_not_end_are_said_again_with_their_count(place: Place, caplog: pytest.LogCaptureFixture):
    place.room(0)
    with caplog.at_level(logging.WARNING, "ottla.replicas"):
        for _ in range(AGAIN_MS // QUIET_MS + 2):
            assert place.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
            place.pass_ms(QUIET_MS)
    assert len(said(caplog)) == 2
    assert "still full: 6" in said(caplog)[1]


def test_where_what_was_refused_is_deleted_to_make_room_the_next_time_without_room_is_said_anew(
    place: Place, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, "ottla.replicas"):
        place.room(0)
        assert place.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        place.room(FOREVER)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000)
        assert place.broker.ask(request).responses[0].error_code == ErrorCode.NONE
        place.pass_ms(2 * AGAIN_MS)
        assert said(caplog)[1:] == [
            "the log directory /data has refused nothing for 10 minutes: 1 produces to 1 partitions were refused "
            "within 0 s"
        ]
        place.broker.create_topic()
        assert place.broker.loop.run_until(lambda: len(place.broker.here.node.replicas) == 1, within_ms=5000)
        place.room(0)
        assert place.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert said(caplog)[2].startswith("the log directory /data is full")


def test_a_directory_that_failed_is_not_called_full(place: Place, caplog: pytest.LogCaptureFixture):
    place.broker.here.node.services.partition("t", bytes(16), 0).log.stop_writing()
    with caplog.at_level(logging.WARNING, "ottla.replicas"):
        assert place.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert said(caplog) == []
