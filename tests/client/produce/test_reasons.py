"""The errors of records that are refused, or tried again in vain: sizes, limits and the broker's own reason."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.client.sending import P0, World

from ottla.client import Admin, ApiError, ErrorCode, Producer, RequestTimedOut
from ottla.client.errors import BrokerUnreachable, refused
from ottla.kernel.errors import ErrorCode as Code
from ottla.testing import TestBroker

FULL = refused(Code.KAFKA_STORAGE_ERROR, "produce to t-0", "The disk is full")


@pytest.fixture
def own() -> Iterator[TestBroker]:
    """A broker whose injected errors meet no other test."""
    with TestBroker() as broker:
        yield broker


def test_a_record_that_is_too_large_is_refused_with_its_size_and_the_limit(ours: str, name: str):
    with Admin(ours) as admin:
        admin.create_topic(name, configs={"max.message.bytes": 1000})
    with Producer(ours) as producer, pytest.raises(ApiError) as refusal:
        producer.produce(name, b"x" * 2000).result(60)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    said = str(refusal.value)
    assert "one record of 2070 bytes was refused" in said
    assert "at most 1000 (max.message.bytes)" in said


def test_a_delivery_that_times_out_names_the_last_error():
    world = World()
    world.know()
    batches = [world.add(P0), world.add(P0)]
    world.fault[1] = FULL
    while not all(batch.outcome for batch in batches):
        world.send()
        world.time += 1_000
    for batch in batches:
        assert isinstance(batch.outcome, RequestTimedOut)
        assert str(batch.outcome).endswith(f"within 120000 ms; the last error: {FULL}")


def test_a_call_that_waits_in_vain_names_the_last_error(own: TestBroker, name: str, caplog: pytest.LogCaptureFixture):
    with Producer(own.bootstrap_servers, retry_backoff_ms=1, max_block_ms=50, buffer_memory=1000) as producer:
        producer.produce(name, "first").result(60)
        own.fail("Produce", "KAFKA_STORAGE_ERROR", times=1_000_000)
        delivery = producer.produce(name, "x" * 900)
        while not caplog.records:
            with pytest.raises(RequestTimedOut):
                delivery.result(0.01)
        with pytest.raises(RequestTimedOut, match="still being tried; the last error: KAFKA_STORAGE_ERROR"):
            delivery.result(0.01)
        with pytest.raises(RequestTimedOut, match=r"records still wait after 0\.01 s; the last error: KAFKA_STORAGE"):
            producer.flush(0.01)
        with pytest.raises(RequestTimedOut, match=r"no room .* buffer_memory is 1000; the last error: KAFKA_STORAGE"):
            producer.produce(name, "y" * 900)
        own.heal()
        producer.flush(60)
        assert delivery.result(60).offset == 1


def test_a_partition_that_is_tried_in_vain_is_said_once_until_it_works_again(caplog: pytest.LogCaptureFixture):
    world = World()
    world.know()
    batch = world.add(P0)
    world.fault[1] = FULL
    for _ in range(4):
        world.send()
        world.time += 1_000
    world.fault.clear()
    world.send()
    assert not isinstance(batch.outcome, Exception)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == [f"{FULL}; trying again until the records are 120 s old", "t-0: records are delivered again"]


def test_one_retry_is_not_worth_a_word(caplog: pytest.LogCaptureFixture):
    world = World()
    world.know()
    world.add(P0)
    world.fault[1] = FULL
    world.send()
    world.time += 1_000
    world.fault.clear()
    world.send()
    assert not caplog.records


def test_errors_of_the_library_speak_of_no_flags():
    with pytest.raises(BrokerUnreachable) as fault, Producer("localhost:1", bootstrap_timeout_ms=0) as producer:
        producer.produce("t", "x")
    assert "--" not in str(fault.value)
    assert "localhost:1" in str(fault.value)
