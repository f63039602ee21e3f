"""Three broker processes on one machine, seen by unmodified clients: one is killed, stops, and comes back."""

from __future__ import annotations

import json

import pytest
from cluster_clients import Writing, create, described, read_all
from cluster_processes import OttlaCluster, until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import OttlaProcess

from ottla.cli.main import main


@pytest.fixture
def cluster(tmp_path):
    with OttlaCluster(tmp_path, 3, "--set", "replica.lag.time.max.ms=5000") as running:
        yield running


def test_every_broker_knows_all_and_says_where_they_are(cluster):
    create(cluster, "t", partitions=6)
    seen = []
    for broker in cluster.brokers.values():
        metadata = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=60)
        seen.append(
            (
                metadata.controller_id,
                {f"{each.host}:{each.port}" for each in metadata.brokers.values()},
                {part.leader for part in metadata.topics["t"].partitions.values()},
                metadata.cluster_id,
            )
        )
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == 1
    assert seen[0][1] == {broker.address for broker in cluster.brokers.values()}
    assert seen[0][2] == {1, 2, 3}


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed_and_it_comes_back_in_sync(cluster):
    admin = create(cluster, "t")
    writing = Writing(cluster, "t")
    try:
        for _ in range(2):
            enough = len(writing.acknowledged) + 300
            until(lambda enough=enough: len(writing.acknowledged) > enough)
            leader, _ = described(admin, "t")
            cluster.brokers[leader].kill()
            enough = len(writing.acknowledged) + 300
            until(lambda enough=enough: len(writing.acknowledged) > enough)
            cluster.brokers[leader].start()
            until(lambda: described(admin, "t")[1] == [1, 2, 3])
    finally:
        writing.stop()
    assert not writing.errors
    found = read_all(cluster, "t")
    assert found == sorted(set(found)), "once each and in order"
    assert set(writing.acknowledged) <= set(found)


def test_a_group_goes_on_at_another_coordinator(cluster):
    create(cluster, "t")
    # Idempotent, so that a record that is seen twice was read twice.
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    options = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
    }
    consumer = Consumer(options)
    consumer.subscribe(["t"])
    seen = []

    def read_through(last):
        while not seen or seen[-1] < last:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is None:
                seen.append(int(message.value()))
                consumer.commit(message, asynchronous=False)

    for number in range(20):
        producer.produce("t", str(number))
    producer.flush(30)
    read_through(19)
    killed = coordinator(cluster, "g")
    cluster.brokers[killed].kill()
    for number in range(20, 40):
        producer.produce("t", str(number))
    assert producer.flush(30) == 0
    read_through(39)
    assert seen == list(range(40)), "nothing twice: what was committed before the kill was known to the next"
    assert coordinator(cluster, "g") != killed
    consumer.close()
    assert Consumer(options).committed([TopicPartition("t", 0)], timeout=30)[0].offset == 40


def coordinator(cluster, group):
    """The broker that answers as the group's coordinator."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return admin.describe_consumer_groups([group])[group].result(30).coordinator.id


def test_any_broker_creates_topics_and_configures_all(cluster):
    for number, broker in cluster.brokers.items():
        name = f"of-{number}"
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce(name, b"x")
        assert producer.flush(30) == 0
    seen = []
    for broker in cluster.brokers.values():
        topics = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=60).topics
        seen.append({name: [part.leader for part in topic.partitions.values()] for name, topic in topics.items()})
    assert seen[0] == seen[1] == seen[2]
    assert set(seen[0]) == {"of-1", "of-2", "of-3"}


def test_a_broker_that_was_alone_brings_its_cluster_along(tmp_path):
    alone = OttlaProcess(tmp_path / "broker-1")
    with alone:
        producer = Producer({"bootstrap.servers": alone.address})
        for number in range(10):
            producer.produce("t", str(number))
        assert producer.flush(30) == 0
        assert read_all(alone, "t") == list(range(10))
        consumer = Consumer({"bootstrap.servers": alone.address, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
        consumer.close()
        before = AdminClient({"bootstrap.servers": alone.address}).list_topics(timeout=60).cluster_id
    with OttlaCluster(tmp_path, 3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.brokers[3].address})
        metadata = admin.list_topics(timeout=60)
        assert metadata.cluster_id == before
        assert set(metadata.brokers) == {1, 2, 3}
        assert read_all(cluster, "t") == list(range(10))
        until(lambda: described(admin, "__consumer_offsets")[1] == [1, 2, 3])  # as many replicas as are configured
        cluster.brokers[1].stop()
        consumer = Consumer({"bootstrap.servers": cluster.brokers[3].address, "group.id": "g"})
        until(lambda: described(admin, "__consumer_offsets")[0] != 1)
        assert consumer.committed([TopicPartition("t", 0)], timeout=30)[0].offset == 7
        consumer.close()
    with pytest.raises(RuntimeError, match="--join"):
        OttlaProcess(tmp_path / "broker-1").start()


def test_a_number_is_one_brokers(cluster, tmp_path):
    with pytest.raises(RuntimeError, match="broker 2 is running already"):
        OttlaProcess(tmp_path / "other", "--id", "2", "--join", f"sqlite:{cluster.store}").start()


def test_a_broker_that_is_told_to_stop_hands_over_before_it_goes(cluster):
    admin = create(cluster, "t")
    writing = Writing(cluster, "t")
    try:
        for _ in range(3):
            enough = len(writing.acknowledged) + 300
            until(lambda enough=enough: len(writing.acknowledged) > enough)
            leader, _ = described(admin, "t")
            cluster.brokers[leader].stop()
            assert described(admin, "t")[0] not in (leader, -1)
            enough = len(writing.acknowledged) + 300
            until(lambda enough=enough: len(writing.acknowledged) > enough)
            cluster.brokers[leader].start()
            until(lambda: described(admin, "t")[1] == [1, 2, 3])
    finally:
        writing.stop()
    assert not writing.errors
    assert read_all(cluster, "t") == sorted(writing.acknowledged)


def test_a_broker_is_drained_and_gets_its_share_back(cluster, capsys):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic("t", num_partitions=6, replication_factor=2, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["t"].result(60)
    writing = Writing(cluster, "t")
    try:
        until(lambda: len(writing.acknowledged) > 100)
        assert main(["cluster", "drain", "--broker", "3", "-b", cluster.bootstrap_servers]) == 0
        assert "broker 3 leads 0 partitions and holds 0 replicas" in capsys.readouterr().out
        assert shares(admin) == {1: (3, 6), 2: (3, 6)}
        assert main(["cluster", "rebalance", "-b", cluster.bootstrap_servers, "--format", "json"]) == 0
        moved = json.loads(capsys.readouterr().out)
        assert all(3 in set(each["to"]) - set(each["from"]) for each in moved if set(each["to"]) != set(each["from"]))
        until(lambda: shares(admin) == {1: (2, 4), 2: (2, 4), 3: (2, 4)})
        assert main(["cluster", "rebalance", "-b", cluster.bootstrap_servers, "--dry-run"]) == 0
        assert capsys.readouterr().out == "nothing has to move\n"
    finally:
        writing.stop()
    assert not writing.errors
    assert read_all(cluster, "t") == sorted(writing.acknowledged)


def shares(admin):
    """The number of partitions that each broker (leads, has in sync)."""
    found = {}
    for partition in admin.list_topics("t", timeout=60).topics["t"].partitions.values():
        for number in partition.isrs:
            leads, held = found.get(number, (0, 0))
            found[number] = leads + (partition.leader == number), held + 1
    return found


def known_brokers(admin: AdminClient) -> set[str]:
    return {f"{each.host}:{each.port}" for each in admin.list_topics(timeout=60).brokers.values()}


def test_others_join_a_broker_that_runs_alone(tmp_path):
    with OttlaProcess(tmp_path / "first") as first:
        producer = Producer({"bootstrap.servers": first.address})
        producer.produce("t", b"x")
        assert producer.flush(30) == 0
        with OttlaProcess(tmp_path / "second", "--id", "2", "--join", f"sqlite:{tmp_path / 'first'}") as second:
            admin = AdminClient({"bootstrap.servers": first.address})
            until(lambda: known_brokers(admin) == {first.address, second.address})
            admin.create_topics([NewTopic("u", num_partitions=1, replication_factor=2)])["u"].result(60)
            assert described(admin, "u")[1] == [1, 2]
