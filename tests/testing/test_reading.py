"""Reads of a broker by a test: the records of a topic, and conditions that become true."""

from __future__ import annotations

import threading

import pytest

from ottla.client import Admin, ApiError, Producer
from ottla.testing import TestBroker

pytest_plugins = ["pytester"]


def test_the_records_of_a_topic_come_by_partition_and_offset(ottla_broker: TestBroker, ottla_topic: str) -> None:
    with Admin(ottla_broker.bootstrap_servers) as admin:
        admin.create_topic(ottla_topic, partitions=2)
    with Producer(ottla_broker.bootstrap_servers) as producer:
        for value in ("a", "b", "c"):
            producer.produce(ottla_topic, value, "key", partition=1, headers={"n": "1"})
        producer.produce(ottla_topic, "d", partition=0)
    found = ottla_broker.records(ottla_topic)
    assert [(record.partition, record.offset, record.value) for record in found] == [
        (0, 0, b"d"),
        (1, 0, b"a"),
        (1, 1, b"b"),
        (1, 2, b"c"),
    ]
    assert (found[1].key, found[1].headers) == (b"key", (("n", b"1"),))


def test_a_topic_that_nobody_wrote_to_has_no_records_and_is_not_made(
    ottla_broker: TestBroker, ottla_topic: str
) -> None:
    assert ottla_broker.records(ottla_topic) == []
    with Admin(ottla_broker.bootstrap_servers) as admin:
        assert ottla_topic not in admin.list_topics()
    with pytest.raises(ApiError, match="INVALID_TOPIC_EXCEPTION"):
        ottla_broker.records("no/topic")


def test_records_are_waited_for_even_where_the_topic_is_yet_to_come(ottla_broker: TestBroker, ottla_topic: str) -> None:
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.extend(ottla_broker.records(ottla_topic, at_least=2, timeout=60)))
    reader.start()
    with Producer(ottla_broker.bootstrap_servers) as producer:
        for value in ("a", "b"):
            producer.produce(ottla_topic, value).result(60)
    reader.join(60)
    assert len(found) == 2
    with pytest.raises(TimeoutError, match=f"topic '{ottla_topic}' has 2 of 3 records after 0.01 s"):
        ottla_broker.records(ottla_topic, at_least=3, timeout=0.01)


def test_records_of_an_aborted_transaction_are_left_out_on_demand(ottla_broker: TestBroker, ottla_topic: str) -> None:
    with Producer(ottla_broker.bootstrap_servers, transactional_id=ottla_topic) as producer:
        producer.init_transactions()
        for value, end in (("a", producer.abort_transaction), ("b", producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(ottla_topic, value)
            producer.flush()
            end()
    everything = ottla_broker.records(ottla_topic)
    committed = ottla_broker.records(ottla_topic, isolation_level="read_committed")
    assert ([each.value for each in everything], [each.value for each in committed]) == ([b"a", b"b"], [b"b"])


def test_a_condition_is_waited_for_and_its_value_returned() -> None:
    answers = iter([0, AssertionError("not yet"), "done"])

    def condition() -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert TestBroker().wait_for(condition) == "done"


def test_a_condition_that_stays_false_is_told_with_its_last_value_or_error() -> None:
    with pytest.raises(TimeoutError, match=r"the order came did not become true within 0 s; it was \[\]"):
        TestBroker().wait_for(list, timeout=0, what="the order came")

    def fails() -> bool:
        raise AssertionError("2 of 3")

    with pytest.raises(TimeoutError, match=r"the condition did not .* it last raised AssertionError: 2 of 3"):
        TestBroker().wait_for(fails, timeout=0)
    with pytest.raises(ZeroDivisionError):
        TestBroker().wait_for(lambda: 1 / 0)


def test_options_of_a_broker_may_be_numbers_and_switches() -> None:
    with TestBroker({"num.partitions": 3, "auto.create.topics.enable": True}) as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.produce("t", "x").result(60)
        with Admin(broker.bootstrap_servers) as admin:
            assert len(admin.list_topics()["t"].partitions) == 3
    with pytest.raises(TypeError, match=r"the option 'num.partitions' is text or a number"):
        TestBroker({"num.partitions": [3]})  # type: ignore[dict-item]


def test_a_suite_that_imports_another_kafka_has_fixtures_that_do_not_hide_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import kafka

        def test_it_sends(ottla_broker, ottla_topic):
            producer = kafka.KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers)
            producer.send(ottla_topic, b"one").get(60)
            producer.close()
            assert [record.value for record in ottla_broker.records(ottla_topic)] == [b"one"]

        def test_the_short_names_are_the_same(ottla_broker, ottla_topic, request):
            assert request.getfixturevalue("kafka") is ottla_broker
            assert request.getfixturevalue("kafka_topic") == ottla_topic
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
