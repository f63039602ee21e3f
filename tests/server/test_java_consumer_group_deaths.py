"""A group of Java consumers with the consumer protocol (KIP-848), while brokers are killed and come back."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cluster_processes import OttlaCluster, until
from confluent_kafka import KafkaError, Message, Producer
from java_programs import JavaProgram

from ottla.client import Admin, NewTopic, TopicPartition
from ottla.client.model import LATEST

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PARTITIONS = [TopicPartition("t", index) for index in range(4)]
OPTIONS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}
SETTINGS = [part for name, value in OPTIONS.items() for part in ("--set", f"{name}={value}")]


class Writer:
    """Writes numbers to the partitions in turn until the end of the block; every one must be acknowledged."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written = 0
        self.acknowledged: set[int] = set()
        self.failed: list[KafkaError] = []

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._over.wait(0.005):
            number = self.written
            self._producer.produce("t", str(number), partition=number % len(PARTITIONS), on_delivery=self._delivered)
            self.written += 1
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            value = message.value()
            assert value is not None
            self.acknowledged.add(int(value))


class Member(JavaProgram):
    """Kafka's VerifiableConsumer: it commits after each poll, and prints an event for each record and commit."""

    def __init__(self, libs: Path, servers: str, log: Path) -> None:
        tool = ["org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", servers, "--topic", "t"]
        super().__init__(f"{libs}/*", [*tool, "--group-protocol", "consumer", "--group-id", "g", "--verbose"], log)
        self._log_file = log

    def events(self, name: str) -> Iterator[dict[str, Any]]:
        return (event for event in self._events() if event["name"] == name)

    def read(self) -> set[int]:
        return {int(event["value"]) for event in self.events("record_data")}

    def committed(self) -> dict[TopicPartition, int]:
        """The offsets of the commits that were acknowledged."""
        offsets: dict[TopicPartition, int] = {}
        for event in self.events("offsets_committed"):
            offsets |= places(event) if event["success"] else {}
        return offsets

    def read_again(self) -> list[tuple[TopicPartition, int]]:
        """The records that this member was given though it had committed past them."""
        committed: dict[TopicPartition, int] = {}
        again = []
        for event in self._events():
            if event["name"] == "offsets_committed" and event["success"]:
                committed |= places(event)
            elif event["name"] == "record_data":
                place = TopicPartition(event["topic"], event["partition"])
                if event["offset"] < committed.get(place, 0):
                    again.append((place, event["offset"]))
        return again

    def _events(self) -> Iterator[dict[str, Any]]:
        """All events so far; the last line may be half written."""
        for line in self._log_file.read_text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("}\n"):
                yield json.loads(line)


def places(event: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(each["topic"], each["partition"]): each["offset"] for each in event["offsets"]}


def kill_and_start(cluster: OttlaCluster, number: int, admin: Admin, writer: Writer, members: list[Member]) -> None:
    """Kill a broker; start it once the group has read and committed past what was written before the death."""
    acknowledged = Counter[TopicPartition]()
    for member in members:
        acknowledged |= Counter(member.committed())
    cluster.brokers[number].kill()
    last = writer.written + 100
    until(lambda: set(range(last)) <= set().union(*(member.read() for member in members)))
    kept = admin.committed_offsets("g")
    for place, offset in acknowledged.items():
        assert kept[place].offset >= offset, f"{place}: the commit of {offset} was lost, {kept[place]} is left"
    cluster.brokers[number].start()
    until(lambda: all(len(part.isr) == 3 for name in ("t", "__consumer_offsets") for part in parts(admin, name)))


def parts(admin: Admin, topic: str) -> list[Any]:
    return list(admin.list_topics()[topic].partitions.values())


def test_java_members_lose_no_record_and_no_commit_when_brokers_are_killed(kafka_libs: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(OttlaCluster(tmp_path, 3, *SETTINGS))
        servers = cluster.bootstrap_servers
        admin = stack.enter_context(Admin(servers))
        admin.create_topics([NewTopic("t", len(PARTITIONS), 3)])
        members = [Member(kafka_libs, servers, tmp_path / f"member-{number}.log") for number in (1, 2)]
        for member in members:
            stack.enter_context(member)
        with Writer(servers) as writer:
            until(lambda: all(member.committed() for member in members))
            for _ in range(2):
                coordinator = parts(admin, "__consumer_offsets")[0].leader
                kill_and_start(cluster, coordinator, admin, writer, members)
                leader = next(part.leader for part in parts(admin, "t") if part.leader != coordinator)
                kill_and_start(cluster, leader, admin, writer, members)
        assert not writer.failed
        ends = admin.list_offsets(dict.fromkeys(PARTITIONS, LATEST))
        wanted = {place: end.offset for place, end in ends.items()}
        until(lambda: {place: each.offset for place, each in admin.committed_offsets("g").items()} == wanted)
        assert set().union(*(member.read() for member in members)) == writer.acknowledged == set(range(writer.written))
        assert [member.read_again() for member in members] == [[], []]
        group = admin.describe_consumer_groups(["g"])["g"]
        assert (group.group_state, len(group.members)) == ("Stable", 2)
