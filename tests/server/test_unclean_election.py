"""Real brokers, and an administrator who elects a leader without all committed records."""

from __future__ import annotations

import signal

from cluster_clients import described
from cluster_processes import OttlaCluster, until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.kafka import leader_election


def admin_of(cluster, by):
    return AdminClient({"bootstrap.servers": cluster.brokers[by].address})


def seen(cluster, by):
    """The leader and the in-sync set, as a broker knows them."""
    return described(admin_of(cluster, by), "t")


def living(cluster, by):
    return set(admin_of(cluster, by).list_topics("t", timeout=60).brokers)


def produce(cluster, *texts):
    """Produce one by one, so that in-sync followers know that all records but the last are committed."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    failed = []
    for text in texts:
        producer.produce("t", text, partition=0, on_delivery=lambda error, message: error and failed.append(error))
        assert producer.flush(30) == 0
    assert not failed


def read(cluster, count):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    messages = consumer.consume(count, timeout=30)
    _, end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60)
    consumer.close()
    return [message.value().decode() for message in messages], end


def test_running_followers_cut_back_to_an_uncleanly_elected_leader_without_a_restart(tmp_path, capsys):
    with OttlaCluster(tmp_path, 3, "--set", "replica.lag.time.max.ms=1000") as cluster:
        one, two, three = cluster.brokers.values()
        topic = NewTopic("t", num_partitions=1, replica_assignment=[[3, 1, 2]])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([topic])["t"].result(60)
        produce(cluster, "kept 1", "kept 2")
        three.stop()
        until(lambda: seen(cluster, 1) == (1, [1, 2]))
        produce(cluster, "lost 1", "lost 2", "lost 3")
        two.process.send_signal(signal.SIGSTOP)
        produce(cluster, "lost 4")
        one.kill()
        two.process.send_signal(signal.SIGCONT)
        three.start()
        until(lambda: seen(cluster, 3)[0] == -1)

        arguments = ["--bootstrap-server", three.address, "--election-type", "unclean", "--topic", "t"]
        two.process.send_signal(signal.SIGSTOP)  # otherwise it would be asked, and lead with its longer log
        until(lambda: living(cluster, 3) == {3})
        assert leader_election.command([*arguments, "--partition", "0"]) == 0, capsys.readouterr()
        two.process.send_signal(signal.SIGCONT)
        until(lambda: seen(cluster, 3) == (3, [2, 3]))
        produce(cluster, "new 1")
        one.start()
        until(lambda: seen(cluster, 3) == (3, [1, 2, 3]))
        three.kill()
        until(lambda: seen(cluster, 1)[0] == 2)  # broker 1 has just started, so it leads last
        assert read(cluster, 3) == (["kept 1", "kept 2", "new 1"], 3)
        two.kill()
        until(lambda: seen(cluster, 1)[0] == 1)
        assert read(cluster, 3) == (["kept 1", "kept 2", "new 1"], 3)
        assert "stops following" not in cluster.log()
