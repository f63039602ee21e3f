"""Sessions of each client for tools/capture_frames.py to record: `python tests/golden/sessions.py CLIENT BOOTSTRAP`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable


def confluent_kafka(bootstrap: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka import admin as administration

    admin = administration.AdminClient({"bootstrap.servers": bootstrap, "client.id": "golden"})
    wait(admin.create_topics([administration.NewTopic("c-topic", 2, 1, config={"retention.ms": "600000"})]))
    for settings in ({"acks": "1"}, {"enable.idempotence": True}, {"acks": "0"}):
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        for number in range(3):
            producer.produce("c-topic", b"value %d" % number, key=b"key", headers=[("h", b"1")])
        producer.flush(60)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "c-group", "auto.offset.reset": "earliest", "client.id": "golden"}
    )
    consumer.subscribe(["c-topic"])
    seen, until = 0, time.monotonic() + 300
    while seen < 6 and time.monotonic() < until:
        seen += consumer.poll(0.5) is not None
    consumer.commit(asynchronous=False)
    consumer.committed([TopicPartition("c-topic", 0)])
    consumer.offsets_for_times([TopicPartition("c-topic", 0, 0)])
    consumer.close()
    wait(admin.describe_consumer_groups(["c-group"]))
    admin.list_consumer_groups().result()
    admin.describe_cluster().result()
    resource = administration.ConfigResource("topic", "c-topic")
    wait(admin.describe_configs([resource]))
    entry = administration.ConfigEntry(
        "retention.ms", "700000", incremental_operation=administration.AlterConfigOpType.SET
    )
    wait(
        admin.incremental_alter_configs(
            [administration.ConfigResource("topic", "c-topic", incremental_configs=[entry])]
        )
    )
    wait(admin.create_partitions([administration.NewPartitions("c-topic", 3)]))
    wait(admin.delete_records([TopicPartition("c-topic", 0, 0)]))
    wait(admin.list_consumer_group_offsets([administration._ConsumerGroupTopicPartitions("c-group")]))
    wait(admin.delete_consumer_groups(["c-group"]))
    wait(admin.delete_topics(["c-topic"]))


def wait(futures: dict[object, object]) -> None:
    for future in futures.values():
        try:
            future.result(60)  # type: ignore[attr-defined]
        except Exception as fault:
            print(f"answered: {fault}")


def kafka_python(bootstrap: str) -> None:
    for number, version in enumerate([None, (2, 1), (2, 5), (3, 3)]):
        kafka_python_as(bootstrap, f"k-topic-{number}", {} if version is None else {"api_version": version})


def kafka_python_as(bootstrap: str, topic: str, common: dict[str, object]) -> None:
    import kafka
    from kafka.admin import ConfigResource, NewTopic

    common = {"bootstrap_servers": bootstrap, "client_id": "golden", **common}
    admin = kafka.KafkaAdminClient(**common)
    attempt(lambda: admin.create_topics([NewTopic(topic, 2, 1)]))
    producer = kafka.KafkaProducer(**common)
    for number in range(3):
        producer.send(topic, b"value %d" % number, key=b"key").get(10)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, group_id="k-group", auto_offset_reset="earliest", consumer_timeout_ms=3000, **common
    )
    for _ in consumer:
        pass
    consumer.commit()
    where = kafka.TopicPartition(topic, 0)
    consumer.committed(where)
    consumer.offsets_for_times({where: 0})
    consumer.close()
    attempt(lambda: admin.describe_groups(["k-group"]))
    attempt(admin.list_groups)
    attempt(lambda: admin.list_group_offsets("k-group"))
    attempt(admin.describe_cluster)
    attempt(admin.describe_log_dirs)
    attempt(lambda: admin.describe_configs([ConfigResource("TOPIC", topic)]))
    attempt(lambda: admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "600000"})]))
    attempt(lambda: admin.create_partitions({topic: 3}))
    attempt(lambda: admin.elect_leaders("PREFERRED", {topic: [0]}))
    attempt(admin.describe_metadata_quorum)
    attempt(lambda: admin.describe_producers([where]))
    attempt(admin.list_config_resources)
    attempt(lambda: admin.describe_topic_partitions([topic]))
    attempt(lambda: admin.delete_records({where: 1}))
    attempt(lambda: admin.delete_group_offsets("k-group", [where]))
    attempt(lambda: admin.delete_groups(["k-group"]))
    attempt(lambda: admin.delete_topics([topic]))
    admin.close()


def attempt(call: Callable[[], object]) -> None:
    """Make a call and ignore its error: frames of errors are captured too."""
    try:
        call()
    except Exception as fault:
        print(f"answered: {fault!r:.200}")


def aiokafka(bootstrap: str) -> None:
    asyncio.run(aiokafka_session(bootstrap))


async def aiokafka_session(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("a-topic", 2, 1)])
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    for number in range(3):
        await producer.send_and_wait("a-topic", b"value %d" % number, key=b"key")
    await producer.stop()
    consumer = AIOKafkaConsumer(
        "a-topic",
        bootstrap_servers=bootstrap,
        group_id="a-group",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    for _ in range(3):
        await asyncio.wait_for(consumer.getone(), 120)
    await consumer.commit()
    await consumer.stop()
    for call in (
        admin.list_consumer_groups(),
        admin.describe_consumer_groups(["a-group"]),
        admin.list_consumer_group_offsets("a-group"),
        admin.describe_topics(["a-topic"]),
        admin.delete_topics(["a-topic"]),
    ):
        await call
    await admin.close()


def group_records(bootstrap: str) -> None:
    """Print the records of `__consumer_offsets` in hex, as in tests/golden/group_records.txt."""
    import kafka

    where = [kafka.TopicPartition("__consumer_offsets", number) for number in range(5)]
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=3000)
    consumer.assign(where)
    consumer.seek_to_beginning()
    for record in consumer:
        print(record.key.hex(), "null" if record.value is None else record.value.hex())


JAVA = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "produce": "org.apache.kafka.tools.ConsoleProducer",
    "consume": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "configs": "kafka.admin.ConfigCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "elect": "org.apache.kafka.tools.LeaderElectionCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
JAVA_STEPS = """
topics --create --topic j-topic --partitions 2 --replication-factor 1
produce --topic j-topic
consume --topic j-topic --from-beginning --max-messages 3 --group j-group --timeout-ms 20000
consume --topic j-topic --from-beginning --max-messages 3 --partition 0 --timeout-ms 8000
topics --describe --topic j-topic
topics --list
topics --alter --topic j-topic --partitions 3
groups --describe --group j-group
groups --list --state
groups --reset-offsets --group j-group --topic j-topic --to-earliest --execute
groups --delete-offsets --group j-group --topic j-topic
groups --delete --group j-group
configs --alter --entity-type topics --entity-name j-topic --add-config retention.ms=600000
configs --describe --entity-type topics --entity-name j-topic
configs --describe --entity-type client-metrics
offsets --topic j-topic --time earliest
offsets --topic j-topic --time max-timestamp
log-dirs --describe --topic-list j-topic
quorum describe --status
elect --election-type preferred --topic j-topic --partition 0
transactions describe-producers --topic j-topic --partition 0
api-versions
topics --delete --topic j-topic
"""


def java(bootstrap: str) -> None:
    libs = os.environ.get("OTTLA_KAFKA_LIBS", ".cache/kafka/libs")
    steps = JAVA_STEPS.strip().splitlines()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as cut:
        cut.write('{"version": 1, "partitions": [{"topic": "j-topic", "partition": 0, "offset": 1}]}')
        cut.flush()
        steps.insert(-1, f"delete-records --offset-json-file {cut.name}")
        for step in steps:
            tool, *arguments = step.split()
            command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", JAVA[tool]]
            done = subprocess.run(
                [*command, "--bootstrap-server", bootstrap, *arguments],
                input="one\ntwo\nthree\n",
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
            if done.returncode:
                print(f"{step}: {done.stdout[-300:]} {done.stderr[-300:]}")


if __name__ == "__main__":
    client, server = sys.argv[1:]
    sessions = {
        "confluent-kafka": confluent_kafka,
        "kafka-python": kafka_python,
        "aiokafka": aiokafka,
        "java": java,
        "group-records": group_records,
    }
    sessions[client](server)
