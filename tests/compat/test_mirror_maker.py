"""MirrorMaker 2 beside ottla's mirror: each one way between Apache Kafka and ottla, and one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka, jars_folder
from java_programs import JavaProgram
from ottla_process import TemporaryBroker
from tests import java_tools
from tests.mirror.campaign import Truth, compared
from tests.mirror.program import MirrorProgram

from ottla.client import Admin, Cluster, CommittedOffset, Producer, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.model import LATEST
from ottla.kernel.errors import ApiError
from ottla.testing.reading import read_topic

ROOT = Path(__file__).resolve().parents[2]
JARS = Path(os.environ.get("OTTLA_MIRROR_JARS", str(ROOT / ".cache" / "mirror" / "libs")))
pytestmark = [
    pytest.mark.compat,
    pytest.mark.kafka,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not list(JARS.glob("connect-mirror-4*.jar")),
        reason="Apache Kafka's jars are not here: those of MirrorMaker 2",
    ),
]
PATIENCE_S = 300.0
COMMON = {
    "replication.factor": "1", "offset-syncs.topic.replication.factor": "1", "heartbeats.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1", "offset.storage.replication.factor": "1", "offset.flush.interval.ms":
    "1000", "status.storage.replication.factor": "1", "config.storage.replication.factor": "1", "tasks.max": "2",
    "emit.checkpoints.interval.seconds": "1", "refresh.groups.interval.seconds": "1", "emit.heartbeats.enabled": "true",
    "refresh.topics.interval.seconds": "1", "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}  # fmt: skip


@pytest.fixture(scope="module")
def sites() -> Iterator[tuple[str, str]]:
    """Apache Kafka and ottla."""
    with ApacheKafka() as kafka, TemporaryBroker() as ottla:
        yield kafka.bootstrap, ottla.bootstrap


def properties(folder: Path, source: str, target: str, topics: str, **more: str) -> Path:
    found = {
        "clusters": "a, b", "a.bootstrap.servers": source, "b.bootstrap.servers": target, "a->b.enabled": "true",
        "a->b.topics": topics, **COMMON, **more,
    }  # fmt: skip
    path = folder / f"{topics}-{time.monotonic_ns()}.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in found.items()))
    return path


@contextmanager
def mirror_maker(path: Path) -> Iterator[JavaProgram]:
    command = ["-Xmx512m", "org.apache.kafka.connect.mirror.MirrorMaker", str(path)]
    with JavaProgram(f"{JARS}/*", command, path.with_suffix(".log")) as program:
        yield program
        program.stop()


def end_of(bootstrap: str, topic: str) -> int:
    try:
        with Cluster(bootstrap) as cluster:
            return sum(each.offset for each in cluster.list_offsets(cluster.partitions(topic), LATEST).values())
    except (ApiError, ClientError):
        return 0


def until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def fill(bootstrap: str, topic: str, *, first: int = 0, count: int = 400) -> None:
    """Transactions of ten records, every fifth of which is aborted."""
    with Producer(bootstrap, transactional_id=f"{topic}-{first}", compression="lz4") as producer:
        producer.init_transactions()
        for begin in range(first, first + count, 10):
            producer.begin_transaction()
            for number in range(begin, begin + 10):
                producer.produce(topic, f"{number}", key=f"k{number % 7}", headers=[("h", b"1")], partition=number % 2)
            if begin % 50 == 40:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


@pytest.mark.parametrize("ours_from", ["apache-kafka", "ottla"])
def test_each_copies_one_way_while_the_other_copies_back(
    sites: tuple[str, str], ours_from: str, tmp_path: Path
) -> None:
    source, target = sites if ours_from == "apache-kafka" else sites[::-1]
    ours, theirs = f"ours-{ours_from}", f"theirs-{ours_from}"
    for bootstrap, topic in ((source, ours), (target, theirs)):
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, partitions=2)
        fill(bootstrap, topic)
    with Cluster(source) as cluster:
        committed = {TopicPartition(ours, index): CommittedOffset(33 + index) for index in range(2)}
        cluster.commit_offsets(f"readers-{ours_from}", committed)
    with (
        mirror_maker(properties(tmp_path, target, source, theirs)) as maker,
        MirrorProgram(tmp_path / "ours.log", str(properties(tmp_path, source, target, ours))) as mirror,
    ):
        until(lambda: end_of(target, f"a.{ours}") >= 320, mirror.last_words)
        mirror.kill()
        fill(source, ours, first=400)
        mirror.start()
        until(lambda: end_of(target, f"a.{ours}") >= 640, mirror.last_words)
        until(lambda: end_of(source, f"a.{theirs}") >= 320, maker.last_words)
        written = read_topic(source, ours, at_least=640, isolation_level="read_committed", timeout=60)
        copied = read_topic(target, f"a.{ours}", at_least=640, isolation_level="read_uncommitted", timeout=60)
        assert compared(written, copied) == []
        truth = Truth(written, copied)
        wanted = {TopicPartition(f"a.{ours}", index): truth.of(index, 33 + index) for index in range(2)}
        with Cluster(target) as cluster:
            until(lambda: offsets(cluster, f"readers-{ours_from}") == wanted, mirror.last_words)
    checkpoints = formatted(target, "a.checkpoints.internal", "CheckpointFormatter")
    for partition, offset in wanted.items():
        whose = f"consumerGroupId=readers-{ours_from}, topicPartition={partition.topic}-{partition.partition}"
        where = f"upstreamOffset={33 + partition.partition}, downstreamOffset={offset}"
        assert f"Checkpoint{{{whose}, {where}, " in checkpoints, checkpoints
    syncs = formatted(source, "mm2-offset-syncs.b.internal", "OffsetSyncFormatter")
    assert f"OffsetSync{{topicPartition={ours}-0" in syncs, syncs
    assert "Heartbeat{sourceClusterAlias=a, targetClusterAlias=b" in formatted(
        target, "heartbeats", "HeartbeatFormatter"
    )


def offsets(cluster: Cluster, group: str) -> Mapping[TopicPartition, int]:
    return {each: at.offset for each, at in cluster.committed_offsets(group).items()}


def formatted(bootstrap: str, topic: str, formatter: str) -> str:
    """A topic as MirrorMaker 2's own formatter shows it."""
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--timeout-ms", "8000"]
    name = f"org.apache.kafka.connect.mirror.formatters.{formatter}"
    both = Path(f"{JARS}/*:{jars_folder()}")
    return java_tools.java(both, "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, "--formatter", name)


def test_one_goes_on_where_the_other_stopped_and_back(sites: tuple[str, str], tmp_path: Path) -> None:
    _, source = sites
    with TemporaryBroker() as other, Admin(source) as admin:
        target = other.bootstrap
        admin.create_topic("relay", partitions=2)
        path = properties(tmp_path, source, target, "relay")
        with Producer(source) as producer:

            def produce(first: int) -> None:
                for number in range(first, first + 100):
                    producer.produce("relay", f"{number}", partition=number % 2)
                producer.flush()

            produce(0)
            with mirror_maker(path) as maker:
                until(lambda: end_of(target, "a.relay") >= 100, maker.last_words)
            produce(100)
            with MirrorProgram(tmp_path / "relay.log", str(path)) as mirror:
                until(lambda: end_of(target, "a.relay") >= 200, mirror.last_words)
                mirror.stop()
            produce(200)
            with mirror_maker(path) as maker:
                until(lambda: end_of(target, "a.relay") >= 300, maker.last_words)
        written = read_topic(source, "relay", at_least=300, isolation_level="read_committed", timeout=60)
        copied = read_topic(target, "a.relay", at_least=300, isolation_level="read_uncommitted", timeout=60)
        assert compared(written, copied) == []
