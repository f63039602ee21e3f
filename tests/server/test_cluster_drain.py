"""`ottla cluster drain` with real brokers: its predictions about stopping a broker come true."""

from __future__ import annotations

import json

import pytest
from cluster_processes import OttlaCluster, until
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.main import main


@pytest.fixture
def cluster(tmp_path):
    with OttlaCluster(tmp_path) as running:
        yield running


def create(cluster, name, replicas, minimum):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic(name, 3, replicas, config={"min.insync.replicas": str(minimum)})
    admin.create_topics([topic])[name].result(20)
    until(lambda: all(len(each.isrs) == replicas for each in partitions(cluster, name)))


def partitions(cluster, name):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return admin.list_topics(name, timeout=10).topics[name].partitions.values()


def errors_of_writes(cluster, name):
    """Write one record to each partition; return the errors. Too few in-sync replicas refuse it at once."""
    errors = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "retries": "0"})
    for partition in range(3):
        producer.produce(name, b"x", partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return [error.code() for error in errors if error is not None]


def drain(cluster, *arguments):
    return main(["cluster", "drain", "-b", cluster.bootstrap_servers, *arguments])


def test_a_broker_that_may_be_stopped_is_missed_by_nobody(cluster, capsys):
    create(cluster, "all", 3, 2)
    create(cluster, "some", 2, 2)
    assert drain(cluster, "--broker", "3", "--dry-run") == 0
    told = capsys.readouterr().out
    assert "stopping broker 3 after that would be safe" in told
    assert drain(cluster, "--broker", "3") == 0
    told = capsys.readouterr().out
    assert "3 partitions on broker 3 can go to no other broker" in told
    assert "all-0, all-1, all-2" in told
    assert "start one more broker" in told
    assert told.splitlines()[-2:] == [
        "broker 3 leads 0 partitions and holds 3 replicas",
        "stopping broker 3 is safe now: every partition keeps the replicas in sync that it needs",
    ]
    assert all(3 not in each.replicas for each in partitions(cluster, "some"))
    cluster.brokers[3].stop()
    assert errors_of_writes(cluster, "all") == []
    assert errors_of_writes(cluster, "some") == []


def test_a_broker_that_is_needed_is_said_to_be_needed_with_what_would_suffer(cluster, capsys):
    create(cluster, "all", 3, 3)
    assert drain(cluster, "--broker", "3", "--format", "json") == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["safe_to_stop"]
    assert told["would_suffer"] == [
        {"topic": "all", "partition": index, "in_sync": 2, "min_in_sync": 3} for index in range(3)
    ]
    assert [each["brokers_missing"] for each in told["nowhere_to_go"]] == [1, 1, 1]
    assert drain(cluster, "--broker", "3") == 1
    assert "stopping broker 3 is not safe:\n  all-0 would have 2 replicas in sync" in capsys.readouterr().out
    cluster.brokers[3].stop()
    until(lambda: all(len(each.isrs) == 2 for each in partitions(cluster, "all")))
    refused = errors_of_writes(cluster, "all")
    assert len(refused) == 3
    assert set(refused) <= {KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


def test_a_single_replica_leaves_and_takes_its_records_along(cluster, capsys):
    create(cluster, "single", 1, 1)
    assert errors_of_writes(cluster, "single") == []
    (number,) = {each.replicas[0] for each in partitions(cluster, "single") if each.id == 0}
    assert drain(cluster, "--broker", str(number), "--leaders-only") == 1, "it is the last replica"
    assert "single-0 would have no replica in sync" in capsys.readouterr().out
    assert drain(cluster, "--broker", str(number)) == 0
    assert f"broker {number} leads 0 partitions and holds 0 replicas" in capsys.readouterr().out


def test_a_broker_that_is_gone_is_emptied_and_not_said_to_run(cluster, capsys):
    create(cluster, "some", 2, 1)
    cluster.brokers[3].stop()
    bootstrap = ",".join(cluster.brokers[number].address for number in (1, 2))
    assert main(["cluster", "drain", "-b", bootstrap, "--broker", "3"]) == 0
    told = capsys.readouterr().out
    assert "broker 3 leads 0 partitions and holds 0 replicas\nbroker 3 does not run, and no partition needs it" in told
