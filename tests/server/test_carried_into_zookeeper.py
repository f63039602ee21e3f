"""A single broker becomes broker 1 of a cluster with ZooKeeper as its store, and keeps all its data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_clients import described, read_all
from cluster_processes import until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from coordination_stores import ZookeeperKind
from processes import OttlaProcess
from zookeeper_ensemble import ZookeeperEnsemble

from ottla.coordination.zookeeper import bring
from ottla.kernel.seams import LogEntry, StoredSnapshot, Written


@pytest.fixture
def hosts(zookeeper: ZookeeperEnsemble) -> str:
    zookeeper.wait_until_whole()
    return zookeeper.hosts


@pytest.fixture
def store(hosts: str) -> Iterator[ZookeeperKind]:
    opened = ZookeeperKind(hosts)
    yield opened
    opened.close()


def brought(store: ZookeeperKind, snapshot: StoredSnapshot, mark: bytes) -> bool:
    digest = ("ottla", "secret")
    return bring(store.hosts, store.chroot, snapshot, mark, session_timeout_ms=6000, digest=digest)


@pytest.mark.parametrize("version", [1234, 1999])
def test_a_log_goes_on_behind_what_was_brought_to_it(store: ZookeeperKind, version: int) -> None:
    snapshot = StoredSnapshot(version, b"s" * 700_000)
    assert brought(store, snapshot, b"ours")
    assert brought(store, snapshot, b"ours"), "again, as by whoever did not hear of it"
    assert not brought(store, snapshot, b"another's")
    broker = store.open(1)
    assert store.wait(broker.head()) == version
    assert store.wait(broker.load_snapshot()) == snapshot
    with pytest.raises(LookupError):
        store.wait(broker.read(0))
    assert store.wait(broker.append([b"next", b"and next"], version)) == Written(version + 2)
    assert store.wait(broker.read(version))[0] == LogEntry(version + 1, b"next")
    later = StoredSnapshot(version + 2, b"later")
    store.wait(broker.save_snapshot(later))
    assert store.wait(broker.load_snapshot()) == later


def test_nothing_is_brought_to_a_log_that_has_begun(store: ZookeeperKind) -> None:
    assert store.wait(store.open(1).append([b"entry"], 0)) == Written(1)
    assert not brought(store, StoredSnapshot(5, b"s"), b"mark")


def test_a_broker_that_was_alone_brings_its_cluster_into_zookeeper(tmp_path: Path, hosts: str) -> None:
    with OttlaProcess(tmp_path / "1") as alone:
        producer = Producer({"bootstrap.servers": alone.address})
        for number in range(10):
            producer.produce("t", str(number))
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": alone.address, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
        consumer.close()
        before = AdminClient({"bootstrap.servers": alone.address}).list_topics(timeout=60).cluster_id
    options = (
        "--join",
        f"zookeeper://{hosts}/test/carried-{time.monotonic_ns()}",
        "--set",
        "zookeeper.digest=ottla:secret",
    )
    first, second = (OttlaProcess(tmp_path / str(number), "--id", str(number), *options) for number in (1, 2))
    with first, second:
        admin = AdminClient({"bootstrap.servers": second.address})
        assert admin.list_topics(timeout=60).cluster_id == before
        assert read_all(first, "t") == list(range(10))
        admin.create_topics([NewTopic("u", num_partitions=1, replication_factor=2)])["u"].result(60)
        assert described(admin, "u")[1] == [1, 2]
        consumer = Consumer({"bootstrap.servers": second.address, "group.id": "g"})
        assert consumer.committed([TopicPartition("t", 0)], timeout=30)[0].offset == 7
        consumer.close()
        first.stop()
        first.start()
        until(lambda: described(admin, "u")[1] == [1, 2])
    with pytest.raises(RuntimeError, match="--join"):
        OttlaProcess(tmp_path / "1").start()
