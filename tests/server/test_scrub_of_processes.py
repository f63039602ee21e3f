"""A bit flips in a closed segment of a leader with three real brokers: another leads, and the segment is repaired."""

from __future__ import annotations

import os
from pathlib import Path

from cluster_processes import OttlaCluster, until
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.main import main

CONFIG = {"segment.bytes": "1048576", "min.insync.replicas": "2"}
RECORDS = 2500


def test_a_leader_whose_disk_rots_is_relieved_and_repaired_and_nobody_reads_what_rotted(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path, 3, "--set", "ottla.scrub.interval.hours=0.0001") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1, 3, config=CONFIG)])["t"].result(60)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce("t", b"%06d" % number + bytes(1000))
            producer.poll(0)
        assert producer.flush(30) == 0
        leader = admin.list_topics("t", timeout=60).topics["t"].partitions[0].leader
        rotting = tmp_path / f"broker-{leader}" / "t-0" / f"{0:020}.log"
        file = os.open(rotting, os.O_RDWR)
        byte = os.pread(file, 1, 500_000)
        os.pwrite(file, bytes([byte[0] ^ 8]), 500_000)
        os.fsync(file)
        os.close(file)
        until(lambda: "is repaired" in cluster.brokers[leader].log())
        assert rotting.read_bytes()[500_000:500_001] == byte
        partition = admin.list_topics("t", timeout=60).topics["t"].partitions[0]
        assert partition.leader != leader
        assert sorted(partition.isrs) == [1, 2, 3]
        assert read_all(cluster) == list(range(RECORDS))
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
    assert main(["log", "check", str(tmp_path)]) == 0


def read_all(cluster: OttlaCluster) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "r", "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[int] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append(int(message.value()[:6]))
    consumer.close()
    return found
