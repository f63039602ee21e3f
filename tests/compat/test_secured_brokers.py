"""Clients of others reach brokers with SASL_SSL by what reaching.py gives them, and their requests are judged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import reaching
from aiokafka import AIOKafkaConsumer, TopicPartition
from apache_kafka import ApacheKafka
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from java_programs import java
from kafka import KafkaAdminClient, KafkaProducer
from ottla_process import TemporaryBroker
from secured_brokers import USER, SecuredBrokers

from ottla.client.blocking.admin import Admin
from ottla.kernel.acls import WILDCARD, Acl, Operation, PatternType, Permission, ResourceKind


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> SecuredBrokers:
    return SecuredBrokers(tmp_path_factory.mktemp("authority") / "secure")


@pytest.fixture(scope="module")
def broker(secured: SecuredBrokers) -> Iterator[TemporaryBroker]:
    with TemporaryBroker(secured=secured) as process:
        yield process


@pytest.fixture
def logged_in(secured: SecuredBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(reaching.GIVEN, secured.login.text())


async def first_value(bootstrap: str, topic: str) -> bytes:
    consumer = AIOKafkaConsumer(**reaching.aiokafka(bootstrap), auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return (await asyncio.wait_for(consumer.getone(), 60)).value
    finally:
        await consumer.stop()


@pytest.mark.usefixtures("logged_in")
def test_each_python_client_does_its_part_with_the_login(broker: TemporaryBroker, name: str) -> None:
    with KafkaAdminClient(**reaching.kafka_python(broker.bootstrap)) as admin:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    with KafkaProducer(**reaching.kafka_python(broker.bootstrap)) as producer:
        producer.send(name, b"written").get(timeout=60)
    assert asyncio.run(first_value(broker.bootstrap, name)) == b"written"
    with Admin(broker.bootstrap, security=reaching.java()) as own:
        assert name in own.list_topics()


@pytest.mark.usefixtures("logged_in")
def test_the_user_of_the_tests_is_judged_by_the_acls(
    broker: TemporaryBroker, secured: SecuredBrokers, name: str
) -> None:
    with Admin(broker.bootstrap, security=secured.security) as administrator:
        administrator.create_topic(name, 1, 1)
        only_reads = Acl(
            ResourceKind.TOPIC, name, PatternType.LITERAL, f"User:{USER}", WILDCARD, Operation.READ, Permission.ALLOW
        )
        administrator.create_acls([only_reads])
    errors: list[KafkaError | None] = []
    producer = Producer(reaching.librdkafka(broker.bootstrap))
    producer.produce(name, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors[0] is not None and errors[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_nobody_is_served_without_a_login(broker: TemporaryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reaching.GIVEN, raising=False)
    client = AdminClient({**reaching.librdkafka(broker.bootstrap), "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)


@pytest.mark.kafka
@pytest.mark.usefixtures("logged_in")
def test_a_tool_of_apache_kafka_does_its_part_with_the_login(broker: TemporaryBroker, name: str) -> None:
    java("TopicCommand", "--bootstrap-server", broker.bootstrap, "--create", "--topic", name)
    assert name in java("TopicCommand", "--bootstrap-server", broker.bootstrap, "--list").split()


@pytest.mark.kafka
@pytest.mark.usefixtures("logged_in")
def test_apache_kafka_serves_the_same_login(secured: SecuredBrokers, name: str) -> None:
    with ApacheKafka(secured=secured, heap="256m") as kafka:
        with KafkaAdminClient(**reaching.kafka_python(kafka.bootstrap)) as admin:
            admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
        with KafkaProducer(**reaching.kafka_python(kafka.bootstrap)) as producer:
            producer.send(name, b"written").get(timeout=60)
        assert asyncio.run(first_value(kafka.bootstrap, name)) == b"written"


def test_a_broker_that_asks_nobody_is_reached_by_its_address_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reaching.GIVEN, raising=False)
    assert reaching.librdkafka("a:1") == {"bootstrap.servers": "a:1"}
    assert reaching.kafka_python("a:1") == reaching.aiokafka("a:1") == {"bootstrap_servers": "a:1"}
    assert reaching.kcat("a:1") == ["-b", "a:1"]
    assert (reaching.java_tool(["--list"]), reaching.java()) == (["--list"], {})
