"""The pytest plugin in another project: it is found without configuration, and its broker serves every client."""

import asyncio
import subprocess
import sys

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest

from ottla.testing import TestBroker

pytest_plugins = ["pytester"]

A_SUITE = """
    import confluent_kafka

    def produce(broker, topic):
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(topic, b"one")
        assert producer.flush(60) == 0

    def read(broker, topic):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([topic])
        try:
            return [message.value() for message in consumer.consume(1, 10)]
        finally:
            consumer.close()

    def test_reads_what_it_wrote(kafka, kafka_topic):
        produce(kafka, kafka_topic)
        assert read(kafka, kafka_topic) == [b"one"]

    def test_another_test_has_another_topic(kafka, kafka_topic):
        produce(kafka, kafka_topic)
        assert read(kafka, kafka_topic) == [b"one"]

    def test_leaves_a_fault_behind(kafka):
        kafka.fail("Metadata", "UNKNOWN_SERVER_ERROR", times=1_000_000)

    def test_is_not_hurt_by_the_faults_of_another_test(kafka, kafka_topic):
        produce(kafka, kafka_topic)
"""


def test_a_suite_finds_the_fixtures_without_being_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(A_SUITE)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=4)


def test_a_suite_without_a_broker_does_not_import_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            assert "ottla.testing.plugin" in sys.modules
            assert not [name for name in sys.modules if name.startswith(("ottla.server", "ottla.broker", "uvloop"))]
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_suite_meets_the_broker_as_it_runs(pytester: pytest.Pytester) -> None:
    """By default pytest rewrites the asserts of every module in a package with a plugin."""
    pytester.makepyfile(
        """
        import sys

        def test_its_asserts_are_its_own(kafka):
            loader = sys.modules["ottla.broker.node"].__loader__
            assert type(loader).__name__ == "SourceFileLoader"
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_importing_the_plugin_imports_nothing_else_of_ours() -> None:
    """Every pytest run in the environment pays for it."""
    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import pytest, ottla.testing.plugin"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    ours = [line for line in said.splitlines() if line.split("|")[-1].strip().startswith("ottla")]
    assert {line.split("|")[-1].strip() for line in ours} == {"ottla", "ottla.testing", "ottla.testing.plugin"}


def test_confluent_kafka_delivers_after_a_leader_that_moved(kafka: TestBroker, kafka_topic: str) -> None:
    """After NOT_LEADER_OR_FOLLOWER librdkafka asks for metadata and sends again."""
    delivered = []
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    producer.list_topics(kafka_topic, timeout=60)
    before = kafka.requests("Produce")
    kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    producer.produce(kafka_topic, b"late", on_delivery=lambda error, message: delivered.append((error, message)))
    assert producer.flush(60) == 0
    [(error, message)] = delivered
    assert error is None
    assert message.offset() == 0
    assert kafka.requests("Produce") - before >= 3


def test_confluent_kafka_reports_an_error_that_is_final(kafka: TestBroker, kafka_topic: str) -> None:
    errors = []
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.list_topics(kafka_topic, timeout=60)
    kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    producer.produce(kafka_topic, b"never", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert [error.code() for error in errors] == [confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_kafka_python_retries_a_fetch_that_failed(kafka: TestBroker, kafka_topic: str) -> None:
    with_producer = kafka_python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    assert with_producer.send(kafka_topic, b"one").get(10).offset == 0
    with_producer.close()
    kafka.fail("Fetch", "NOT_LEADER_OR_FOLLOWER")
    consumer = kafka_python.KafkaConsumer(
        kafka_topic,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    assert next(consumer).value == b"one"
    consumer.close()


def test_aiokafka_joins_a_group_whose_coordinator_was_loading(kafka: TestBroker, kafka_topic: str) -> None:
    async def exchange() -> bytes | None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait(kafka_topic, b"one")
        await producer.stop()
        kafka.fail("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS")
        consumer = aiokafka.AIOKafkaConsumer(
            kafka_topic,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=kafka_topic,
            auto_offset_reset="earliest",
            retry_backoff_ms=10,
        )
        await consumer.start()
        try:
            return (await asyncio.wait_for(consumer.getone(), 120)).value
        finally:
            await consumer.stop()

    assert asyncio.run(exchange()) == b"one"


def test_two_brokers_live_side_by_side() -> None:
    with TestBroker() as first, TestBroker() as second:
        assert first.bootstrap_servers != second.bootstrap_servers
        producer = confluent_kafka.Producer({"bootstrap.servers": first.bootstrap_servers})
        producer.produce("only-here", b"one")
        assert producer.flush(60) == 0
        topics = confluent_kafka.Producer({"bootstrap.servers": second.bootstrap_servers}).list_topics(timeout=60)
        assert "only-here" not in topics.topics


def test_a_broker_given_a_directory_keeps_what_it_was_told(tmp_path: object) -> None:
    for expected in (0, 1):
        with TestBroker(directory=str(tmp_path)) as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
            offsets: list[int] = []
            producer.produce("kept", b"one", on_delivery=lambda _, message, into=offsets: into.append(message.offset()))
            assert producer.flush(60) == 0
            assert offsets == [expected]


def test_an_unknown_api_or_error_is_named() -> None:
    with TestBroker() as broker:
        with pytest.raises(ValueError, match=r"no API is called 'Produces'; did you mean Produce\?"):
            broker.fail("Produces", "NOT_LEADER_OR_FOLLOWER")
        with pytest.raises(ValueError, match=r"no API is called 'Zzz'; there are .*Produce.*"):
            broker.fail("Zzz", "NOT_LEADER_OR_FOLLOWER")
        with pytest.raises(ValueError, match=r"no error is called 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER\?"):
            broker.fail("Produce", "NOT_LEADER")
        with pytest.raises(ValueError, match=r"did you mean KAFKA_STORAGE_ERROR\?"):
            broker.fail("Produce", "KAFKA_STORAGE_EROR")
        with pytest.raises(ValueError, match="no error has the number 9999"):
            broker.fail("Produce", 9999)
        with pytest.raises(ValueError, match="NONE is no failure"):
            broker.fail("Produce", 0)
        with pytest.raises(ValueError, match="times is at least 1, not 0"):
            broker.fail("Produce", 6, times=0)


def test_a_broker_that_is_not_running_says_so() -> None:
    with pytest.raises(RuntimeError, match="call start"):
        _ = TestBroker().bootstrap_servers
