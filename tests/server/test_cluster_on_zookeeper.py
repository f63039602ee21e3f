"""Three broker processes with ZooKeeper, seen by clients: a broker or a server dies, or a cable is cut."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cables import Cables
from cluster_clients import Writing, create, described, read_all
from cluster_processes import until
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from processes import OttlaProcess
from up_process import Up, alive
from zookeeper_ensemble import ZookeeperEnsemble

SESSION_S = 6
OPTIONS = ("--set", "zookeeper.digest=ottla:secret", "--set", "replica.lag.time.max.ms=5000")


class ZookeeperCluster:
    """Brokers 1 to 3, each with its own cables to the ensemble."""

    def __init__(self, directory: Path, ensemble: ZookeeperEnsemble) -> None:
        chroot = f"/test/brokers-{time.monotonic_ns()}"
        self.cables = {number: Cables(ensemble.ports) for number in (1, 2, 3)}
        self.joins = {number: f"zookeeper://{some.hosts}{chroot}" for number, some in self.cables.items()}
        self.brokers = {
            number: OttlaProcess(directory / f"broker-{number}", "--id", str(number), "--join", join, *OPTIONS)
            for number, join in self.joins.items()
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def log(self) -> str:
        return "\n".join(f"--- {number}\n{broker.log()}" for number, broker in self.brokers.items())

    def close(self) -> None:
        for some in self.cables.values():
            some.mend()
        for broker in self.brokers.values():
            if broker.process is not None and broker.process.poll() is None:
                broker.kill()
            broker.errors.close()
        for some in self.cables.values():
            some.close()


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZookeeperEnsemble) -> Iterator[ZookeeperCluster]:
    zookeeper.wait_until_whole()
    running = ZookeeperCluster(tmp_path, zookeeper)
    try:
        for broker in running.brokers.values():
            broker.start()
        yield running
    finally:
        running.close()


def grown(writing: Writing) -> None:
    """Wait until some hundred more records are acknowledged."""
    enough = len(writing.acknowledged) + 300
    until(lambda: len(writing.acknowledged) > enough)


def asked_again(admin: AdminClient) -> tuple[int, list[int]]:
    """Call `described` until it succeeds: a broker without ZooKeeper closes the connection of a client that asks."""
    while True:
        with contextlib.suppress(KafkaException):
            return described(admin, "t")


def nothing_is_lost(cluster: ZookeeperCluster, writing: Writing) -> None:
    assert not writing.errors
    found = read_all(cluster, "t")
    assert found == sorted(set(found)), "once each and in order"
    assert set(writing.acknowledged) <= set(found)


def leader_epochs(cluster: ZookeeperCluster) -> set[int]:
    """The leader epochs in which the records of the topic were appended."""
    options = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "epochs", "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.assign([TopicPartition("t", 0, 0)])
    _, end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60)
    epochs, read_to = set(), 0
    while read_to < end:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        epochs.add(message.leader_epoch())
        read_to = message.offset() + 1
    consumer.close()
    return epochs


def test_a_killed_leader_is_replaced_before_its_session_has_ended(cluster):
    admin = create(cluster, "t")
    writing = Writing(cluster, "t")
    try:
        grown(writing)
        leader, _ = described(admin, "t")
        cluster.brokers[leader].kill()
        grown(writing)
        assert f"broker {leader} has closed its connections and refuses new ones" in cluster.log()
        cluster.brokers[leader].start()
        until(lambda: described(admin, "t")[1] == [1, 2, 3])
    finally:
        writing.stop()
    nothing_is_lost(cluster, writing)


def test_a_stopped_leader_hands_over_before_it_ends(cluster):
    admin = create(cluster, "t")
    writing = Writing(cluster, "t")
    try:
        grown(writing)
        leader, _ = described(admin, "t")
        cluster.brokers[leader].stop()
        assert asked_again(admin)[0] not in (leader, -1), "it has handed over before it ended"
        grown(writing)
    finally:
        writing.stop()
    nothing_is_lost(cluster, writing)


def test_producers_do_not_notice_that_the_ensembles_leader_is_killed(cluster, zookeeper):
    create(cluster, "t")
    writing = Writing(cluster, "t")
    try:
        grown(writing)
        began = time.monotonic()
        zookeeper.kill(zookeeper.leader())
        zookeeper.wait_for_leader()
        until(lambda: time.monotonic() > began + SESSION_S)
        grown(writing)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        create(cluster, "made-with-two-servers")
        assert described(admin, "made-with-two-servers")[1] == [1, 2, 3]
    finally:
        writing.stop()
    nothing_is_lost(cluster, writing)
    assert len(leader_epochs(cluster)) == 1, cluster.log()


@pytest.mark.parametrize("fault", ["cut", "silent"])
def test_a_leader_that_loses_zookeeper_is_deposed_and_acknowledges_nothing_more(cluster, fault):
    admin = create(cluster, "t")
    writing = Writing(cluster, "t")
    try:
        grown(writing)
        leader, _ = described(admin, "t")
        if fault == "cut":
            cluster.cables[leader].cut()
        else:
            cluster.cables[leader].hold(requests=True, answers=True)
        until(lambda: asked_again(admin)[0] not in (leader, -1))
        grown(writing)
        cluster.cables[leader].mend()
        until(lambda: asked_again(admin)[1] == [1, 2, 3])
        assert cluster.brokers[leader].process.poll() is None, "it is the same process that came back"
    finally:
        writing.stop()
    nothing_is_lost(cluster, writing)


def test_brokers_that_lose_zookeeper_altogether_go_on_when_it_is_back(cluster, zookeeper):
    admin = create(cluster, "t")
    writing = Writing(cluster, "t")
    try:
        grown(writing)
        for number in zookeeper.ports:
            zookeeper.kill(number)
        until(lambda: time.monotonic() > writing.times[-1] + 2)  # leases have run out: no broker answers as leader
        zookeeper.wait_until_whole()
        grown(writing)
        until(lambda: described(admin, "t")[1] == [1, 2, 3])
    finally:
        writing.stop()
    nothing_is_lost(cluster, writing)


def test_what_hinders_a_start_is_said(tmp_path, zookeeper):
    hosts = zookeeper.hosts
    for options, said in (
        (("--join", f"zookeeper://{hosts}/test/x", "--set", "zookeeper.digest=nobody"), "USER:PASSWORD"),
        (("--join", f"zookeeper://{hosts}/test//x"), "not a path in ZooKeeper"),
        (
            ("--join", f"zookeeper://{hosts}/test/x", "--set", "broker.session.timeout.ms=60000"),
            "maxSessionTimeout",
        ),
    ):
        with pytest.raises(RuntimeError, match=said):
            OttlaProcess(tmp_path / "broker", *options).start()


def test_a_cluster_that_anybody_may_read_is_warned_of(tmp_path, zookeeper):
    join = f"zookeeper://{zookeeper.hosts}/test/open-{time.monotonic_ns()}"
    with OttlaProcess(tmp_path / "broker", "--join", join) as broker:
        assert "zookeeper.digest" in broker.log()


def test_cluster_up_meets_in_zookeeper_serves_and_stops_together(tmp_path, zookeeper):
    zookeeper.wait_until_whole()
    chroot = f"/test/up-{time.monotonic_ns()}"
    where = ("--zookeeper", zookeeper.hosts + chroot, "--set", "zookeeper.digest=ottla:secret")
    with Up(tmp_path / "c", *where) as up:
        servers = up.wait_for_all()
        brokers = up.brokers()
        assert sorted(brokers) == [1, 2, 3]
        reports = []
        producer = Producer({"bootstrap.servers": servers, "acks": "all"})
        producer.produce("t", b"x", on_delivery=lambda error, message: reports.append((error, message.offset())))
        assert producer.flush(30) == 0
        assert reports == [(None, 0)]
        admin = AdminClient({"bootstrap.servers": servers})
        until(lambda: described(admin, "t")[1] == [1, 2, 3])
        code, output = up.end()
        assert code == 0, output
        assert "cluster ready: " + servers in output
        assert "killed" not in output
        assert up.brokers() == {}
        assert not any(alive(broker["pid"]) for broker in brokers.values())
    for number in brokers:
        assert (tmp_path / "c" / f"broker-{number}" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "c" / "store").exists(), "nothing of the metadata lies here"
    client = KazooClient(zookeeper.hosts, auth_data=[("digest", "ottla:secret")])
    client.start()
    try:
        assert client.exists(f"{chroot}/head") is not None
    finally:
        client.stop()
        client.close()
