"""Unusual Fetch requests are answered as by Apache Kafka: conflicting limits, shared sessions, unknown epochs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from raw_connection import RawConnection, answer, frame

from ottla.broker.handlers import fetch as fetch_handler
from ottla.kernel.errors import ErrorCode
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder
from ottla.testing import TestBroker

PRODUCE, FETCH, METADATA = 0, 1, 3
LONG_MS = 600_000
"""A wait that is longer than any test."""


class Room:
    """A topic of one partition, and a connection to its broker."""

    def __init__(self, broker: TestBroker) -> None:
        self.broker = broker
        self.topic = broker.new_topic_name("fetch")
        self.connection = RawConnection(broker.bootstrap_servers)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)])
        self.topic_id = self.connection.ask(METADATA, 12, asked).topics[0].topic_id

    def produce(self, size: int = 100) -> None:
        builder = BatchBuilder()
        builder.add(0, None, b"x" * size)
        data = [PartitionProduceData(index=0, records=builder.build())]
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=self.topic, partition_data=data)]
        )
        assert not self.connection.ask(PRODUCE, 9, request).responses[0].partition_responses[0].error_code

    def request(self, *, partition: dict[str, Any] | None = None, named: bool = True, **fields: Any) -> FetchRequest:
        asked = FetchPartition(partition=0, partition_max_bytes=1 << 20)
        for name, value in (partition or {}).items():
            setattr(asked, name, value)
        fields = {"max_wait_ms": LONG_MS, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, **fields}
        topic = FetchTopic(topic=self.topic, topic_id=self.topic_id, partitions=[asked])
        return FetchRequest(topics=[topic] if named else [], **fields)

    def fetch(self, version: int = 11, **fields: Any) -> Any:
        return self.connection.ask(FETCH, version, self.request(**fields))


@pytest.fixture
def room(kafka: TestBroker) -> Room:
    return Room(kafka)


def test_more_bytes_wanted_than_may_come_are_not_waited_for(room: Room) -> None:
    room.produce(1000)
    response = room.fetch(min_bytes=1 << 20, max_bytes=500)
    assert response.responses[0].partitions[0].records


def test_the_first_batch_comes_also_where_no_byte_may(room: Room) -> None:
    room.produce()
    assert room.fetch(max_bytes=0).responses[0].partitions[0].records


def test_who_loses_a_session_to_another_connection_is_answered(room: Room) -> None:
    room.produce()
    session = room.fetch(session_epoch=0, partition={"fetch_offset": 1}, max_wait_ms=1).session_id
    assert session
    waits = room.request(named=False, session_id=session, session_epoch=1)
    with RawConnection(room.broker.bootstrap_servers) as other:
        room.connection.send(frame(FETCH, 11, waits, 77))
        deadline = time.monotonic() + 300
        while not room.broker.call(lambda: sessions_epochs(room.broker).get(session) == 2):
            assert time.monotonic() < deadline
        other.send(frame(FETCH, 11, room.request(named=False, session_id=session, session_epoch=2), 78))
        lost = answer(FETCH, 11, room.connection.receive())
    assert lost.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def sessions_epochs(broker: TestBroker) -> dict[int, int]:
    return {number: session.epoch for number, session in broker._running().node.fetch_sessions._sessions.items()}


def test_a_session_by_names_cannot_be_gone_on_with_by_ids(room: Room) -> None:
    session = room.fetch(session_epoch=0, max_wait_ms=1).session_id
    response = room.fetch(version=13, named=False, session_id=session, session_epoch=1, max_wait_ms=1)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_epoch_that_never_was_leaves_the_offset_in_doubt(room: Room) -> None:
    room.produce()
    response = room.fetch(version=12, partition={"last_fetched_epoch": 1000, "fetch_offset": 1})
    assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fault_half_way_lets_go_of_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestBroker(directory=tmp_path / "data") as broker:
        room = Room(broker)
        room.produce()
        file = broker._running().node.replicas.by_name[(room.topic, 0)].log.active.file
        read = fetch_handler._read
        pieces = []

        def reading(*arguments: Any, **named: Any) -> Any:
            if pieces:
                raise RuntimeError("a fault of the broker's own")
            fetched = read(*arguments, **named)
            pieces.extend(fetched.slices)
            return fetched

        before = broker.call(lambda: file._holders)
        other = broker.new_topic_name("other")
        room.connection.ask(METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=other)]))
        monkeypatch.setattr(fetch_handler, "_read", reading)
        request = room.request()
        request.topics.append(FetchTopic(topic=other, partitions=[FetchPartition(partition=0)]))
        response = room.connection.ask(FETCH, 11, request)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert pieces
        assert broker.call(lambda: file._holders) == before
