"""Many records at a time are the same records as one by one."""

from __future__ import annotations

import pytest

from ottla.client import ConsumerSettings, TopicPartition
from ottla.client.blocking.runs import RunConsumer, RunProducer
from ottla.client.consume.settings import FetchSettings
from ottla.client.model import IsolationLevel
from ottla.client.produce.accumulator import ProducerSettings
from ottla.client.produce.run import Run
from ottla.kernel.errors import ApiError
from ottla.testing import TestBroker

PLACE = TopicPartition("runs", 0)


def read_all(bootstrap: str, count: int, *, start: int = 0, committed: bool = False) -> list[tuple[int, bytes | None]]:
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    settings = ConsumerSettings(fetch=FetchSettings(isolation_level=isolation))
    found: list[tuple[int, bytes | None]] = []
    with RunConsumer(bootstrap, consumer=settings) as consumer:
        consumer.assign([PLACE])
        consumer.seek(PLACE, start)
        while len(found) < count:
            for place, records in consumer.poll_runs(1_000):
                assert place == PLACE
                found += [(record.offset, record.value) for record in records]
        assert consumer.position(PLACE) >= found[-1][0] + 1
    return found


def test_runs_come_back_in_their_order_with_keys_times_and_headers() -> None:
    with TestBroker() as broker:
        with RunProducer(broker.bootstrap_servers, producer=ProducerSettings(batch_size=2_000)) as producer:
            values: list[bytes | None] = [b"%d" % number if number % 7 else None for number in range(500)]
            keys: list[bytes | None] = [b"k%d" % number for number in range(500)]
            times = list(range(1000, 1500))
            run = Run(values, keys, [("h", b"1")], times, partition=0)
            parts = list(producer.produce_run("runs", run))
            places = [place for part in parts for place in part.result()]
        assert len(parts) > 3
        assert [(place.offset, place.timestamp) for place in places] == list(zip(range(500), times, strict=True))
        assert read_all(broker.bootstrap_servers, 500) == list(enumerate(values))
        assert read_all(broker.bootstrap_servers, 483, start=17) == list(enumerate(values))[17:]
        with RunConsumer(broker.bootstrap_servers) as consumer:
            consumer.assign([PLACE])
            consumer.seek_to_beginning()
            first = consumer.poll(5_000)[0]
        assert (first.key, first.headers, first.timestamp) == (b"k0", (("h", b"1"),), 1000)


def test_runs_of_aborted_transactions_are_left_out() -> None:
    with TestBroker() as broker:
        settings = ProducerSettings(transactional_id="t")
        with RunProducer(broker.bootstrap_servers, producer=settings) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            list(producer.produce_run("runs", Run([b"aborted"])))
            producer.flush()
            producer.abort_transaction()
            with producer.transaction():
                list(producer.produce_run("runs", Run([b"kept"])))
        assert [value for _, value in read_all(broker.bootstrap_servers, 1, committed=True)] == [b"kept"]
        assert [value for _, value in read_all(broker.bootstrap_servers, 2)] == [b"aborted", b"kept"]


def test_a_run_that_is_refused_says_so_for_its_records() -> None:
    with TestBroker() as broker, RunProducer(broker.bootstrap_servers) as producer:
        with pytest.raises(ValueError, match="timestamp -5 is not a number of milliseconds"):
            list(producer.produce_run("runs", Run([b"x"], timestamps=-5)))
        with pytest.raises(ValueError, match="has no partition 9: it has 1"):
            list(producer.produce_run("runs", Run([b"x"], partition=9)))
        (large,) = producer.produce_run("runs", Run([bytes(2_000_000)]))
        with pytest.raises(ApiError, match=r"MESSAGE_TOO_LARGE|larg"):
            list(large.result())
