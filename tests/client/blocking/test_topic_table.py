"""A compacted topic as a dict in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ottla.client import Admin, ApiError, ClientError, Producer, TopicTable
from ottla.testing import TestBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker({}) as made:
        yield made


def topic(broker: TestBroker, name: str) -> str:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name, 2, configs={"cleanup.policy": "compact"})
    return name


def write(broker: TestBroker, name: str, *pairs: tuple[str, str | None]) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for key, value in pairs:
            producer.produce(name, value, key)


def test_a_process_that_has_written_reads_its_write_and_a_record_without_a_value_deletes_the_key(
    broker: TestBroker,
) -> None:
    name = topic(broker, "prices")
    write(broker, name, ("tea", "1.5"), ("milk", "2"), ("tea", "1.75"))
    with TopicTable(name, broker.bootstrap_servers, key=bytes.decode, value=float) as prices:
        prices.wait_until_caught_up(timeout=60)
        assert prices.snapshot() == {"tea": 1.75, "milk": 2.0}
        write(broker, name, ("milk", None), ("salt", "9"))
        prices.wait_until_caught_up(timeout=60)
        assert dict(prices) == {"tea": 1.75, "salt": 9.0}
        assert "milk" not in prices
        assert (prices.lag(), len(prices)) == (0, 2)
        assert prices.delay_ms is not None


def test_records_of_an_open_and_of_an_aborted_transaction_are_not_seen(broker: TestBroker) -> None:
    name = topic(broker, "rates")
    with Producer(broker.bootstrap_servers, transactional_id="rates") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(name, "1", "a")
        producer.flush()
        with TopicTable(name, broker.bootstrap_servers) as rates:
            rates.wait_until_caught_up(timeout=60)
            assert dict(rates) == {}
            producer.abort_transaction()
            with producer.transaction():
                producer.produce(name, "2", "b")
            rates.wait_until_caught_up(timeout=60)
            assert dict(rates) == {b"b": b"2"}


def test_changes_are_told_in_order(broker: TestBroker) -> None:
    name = topic(broker, "told")
    changes: list[tuple[bytes, bytes | None]] = []
    all_told = threading.Event()

    def tell(key: bytes, value: bytes | None) -> None:
        changes.append((key, value))
        if value is None:
            all_told.set()

    with TopicTable(name, broker.bootstrap_servers, on_change=tell):
        write(broker, name, ("k", "1"), ("k", "2"), ("k", None))
        assert all_told.wait(60)
    assert changes == [(b"k", b"1"), (b"k", b"2"), (b"k", None)]


def test_a_value_that_cannot_be_read_ends_the_following_and_waiting_says_so(broker: TestBroker) -> None:
    name = topic(broker, "bad")
    write(broker, name, ("k", "no number"))
    says = pytest.raises(ClientError, match="follows no longer: could not convert string to float")
    with TopicTable(name, broker.bootstrap_servers, value=float) as bad, says:
        bad.wait_until_caught_up(timeout=60)


def test_a_topic_that_does_not_exist_and_a_table_that_was_not_started_are_told(broker: TestBroker) -> None:
    with pytest.raises(ApiError):
        TopicTable("nowhere", broker.bootstrap_servers).start()
    with pytest.raises(ClientError, match=r"call start\(\)"):
        TopicTable("prices", broker.bootstrap_servers).lag()
