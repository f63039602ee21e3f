"""Mirrors between two brokers of the test process, and one that is killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterator

import pytest
from tests.mirror.sites import mirroring, properties

from ottla.client import Admin, Cluster, CommittedOffset, ConsumedRecord, Producer, TopicPartition
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.model import LATEST
from ottla.jobs.states import JobState
from ottla.mirror.batches import MirrorBatch
from ottla.mirror.formats import Checkpoint, OffsetSync
from ottla.mirror.lane import Lane
from ottla.mirror.measures import STOPPED
from ottla.testing import TestBroker


@pytest.fixture(scope="module")
def sites() -> Iterator[tuple[TestBroker, TestBroker]]:
    with TestBroker() as us, TestBroker() as eu:
        yield us, eu


def contents(records: list[ConsumedRecord]) -> list[tuple[object, ...]]:
    return sorted((each.partition, each.timestamp, each.key, each.value, each.headers) for each in records)


def wait_for_copy(target: TestBroker, topic: str, count: int) -> list[ConsumedRecord]:
    return target.records(topic, at_least=count, timeout=60)


def test_topics_records_groups_and_configurations_are_at_the_target_as_they_are_at_the_source(
    sites: tuple[TestBroker, TestBroker],
) -> None:
    us, eu = sites
    dice = random.Random(11)
    write_transactions(us, dice)
    source = us.records("orders", isolation_level="read_committed")
    with Cluster(us.bootstrap_servers) as cluster:
        ends = {each: at.offset for each, at in cluster.list_offsets(cluster.partitions("orders"), LATEST).items()}
        asked = {
            f"group-{group}": {
                each: CommittedOffset(dice.randrange(first(source, each), end + 1)) for each, end in ends.items()
            }
            for group in range(40)
        }
        for group, offsets in asked.items():
            cluster.commit_offsets(group, offsets)
        with mirroring(properties(us, eu, us__eu_topics="orders")) as running:
            mirror = wait_for_copy(eu, "us.orders", len(source))
            assert contents(mirror) == contents(source)
            truth = {each: exact(source, mirror, each) for each in ends}
            with Cluster(eu.bootstrap_servers) as there:

                def groups_are_exact() -> bool:
                    for group, wanted in asked.items():
                        found = there.committed_offsets(group)
                        for each, offset in wanted.items():
                            mirrored = TopicPartition("us.orders", each.partition)
                            assert mirrored in found, group
                            assert found[mirrored].offset == truth[each][offset.offset], (group, each)
                    return True

                eu.wait_for(groups_are_exact, timeout=60)
            with Admin(us.bootstrap_servers) as admin:
                topic = Resource(ResourceType.TOPIC, "orders")
                admin.alter_configs({topic: [("retention.ms", ConfigOperation.SET, "172800000")]})
                admin.create_partitions({"orders": 4})
            with Admin(eu.bootstrap_servers) as admin:
                topic = Resource(ResourceType.TOPIC, "us.orders")

                def in_step() -> bool:
                    [config] = admin.describe_configs([topic], keys=["retention.ms"])[topic]
                    return config.value == "172800000" and len(admin.list_topics()["us.orders"].partitions) == 4

                eu.wait_for(in_step)
            assert running.flows[0].status.state is JobState.RUNNING
    the_syncs_and_checkpoints_are_true(us, eu, source, mirror)


def the_syncs_and_checkpoints_are_true(
    us: TestBroker, eu: TestBroker, source: list[ConsumedRecord], mirror: list[ConsumedRecord]
) -> None:
    places = {(each.partition, each.offset): each.value for each in source}
    mirrored = {(each.partition, each.offset): each.value for each in mirror}
    syncs = [OffsetSync.read(each.key or b"", each.value or b"") for each in us.records("mm2-offset-syncs.eu.internal")]
    assert {each.partition for each in syncs} == {0, 1, 2}
    assert all(places[each.partition, each.upstream] == mirrored[each.partition, each.downstream] for each in syncs)
    written = [Checkpoint.read(each.key or b"", each.value or b"") for each in eu.records("us.checkpoints.internal")]
    assert {each.group for each in written} == {f"group-{group}" for group in range(40)}
    assert {each.topic for each in written} == {"us.orders"}


def write_transactions(us: TestBroker, dice: random.Random) -> None:
    """Forty transactions of some records in three partitions; every fourth is aborted."""
    with Admin(us.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=3, configs={"retention.ms": "86400000"})
    with Producer(us.bootstrap_servers, transactional_id="orders", compression="lz4") as producer:
        producer.init_transactions()
        for number in range(40):
            producer.begin_transaction()
            for at in range(dice.randrange(1, 40)):
                producer.produce("orders", f"{number}-{at}", key=f"{at}", headers=[("n", b"1")], partition=number % 3)
            if number % 4 == 3:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def exact(source: list[ConsumedRecord], mirror: list[ConsumedRecord], partition: TopicPartition) -> dict[int, int]:
    """Each offset of a partition, and where its mirror has the first record that is not before it."""
    upstream = [each.offset for each in source if each.partition == partition.partition]
    downstream = [each.offset for each in mirror if each.partition == partition.partition]
    downstream.append(downstream[-1] + 1)
    return {offset: downstream[bisect_left(upstream, offset)] for offset in range(upstream[-1] + 3)}


def first(records: list[ConsumedRecord], partition: TopicPartition) -> int:
    return min(each.offset for each in records if each.partition == partition.partition)


def test_a_mirror_that_is_killed_and_one_that_runs_beside_it_double_nothing_and_lose_nothing(
    sites: tuple[TestBroker, TestBroker],
) -> None:
    us, eu = sites
    ends = ["--from", f"us={us.bootstrap_servers}", "--to", f"eu={eu.bootstrap_servers}"]
    what = ["--topics", "clicks", "--set", "emit.heartbeats.enabled=false"]
    command = [sys.executable, "-m", "ottla", "mirror", "start", *ends, *what]
    with Admin(us.bootstrap_servers) as admin, Producer(us.bootstrap_servers, linger_ms=0) as producer:
        admin.create_topic("clicks", partitions=2)
        for attempt in range(1, 4):
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
                for number in range(3_000):
                    producer.produce("clicks", f"{attempt}-{number}", partition=number % 2)
                    if number % 50 == 0:
                        producer.flush()
                eu.wait_for(lambda count=attempt: count_of(eu, "us.clicks") > 3_000 * count - 2_500)
                process.send_signal(signal.SIGKILL)
    given = properties(us, eu, us__eu_topics="clicks")
    with mirroring(given), mirroring(given):
        wait_for_copy(eu, "us.clicks", 9_000)
    assert contents(eu.records("us.clicks")) == contents(us.records("clicks"))


def count_of(broker: TestBroker, topic: str) -> int:
    with Cluster(broker.bootstrap_servers) as cluster:
        return sum(each.offset for each in cluster.list_offsets(cluster.partitions(topic), LATEST).values())


def test_a_topic_with_the_same_name_on_both_sides_is_mirrored_one_way_alone(
    sites: tuple[TestBroker, TestBroker],
) -> None:
    us, eu = sites
    with Producer(us.bootstrap_servers) as producer:
        producer.produce("shared", "from us").result()
    names = {"replication_policy_class": "IdentityReplicationPolicy"}
    there = properties(us, eu, us__eu_topics="shared", **names)
    back = {**properties(us, eu, eu__us_enabled="true", eu__us_topics="shared", **names), "us->eu.enabled": "false"}
    with mirroring(there):
        wait_for_copy(eu, "shared", 1)
        with mirroring(back) as returning:
            us.wait_for(lambda: returning.flows[0].status.state is JobState.RUNNING)
            assert not [each for each in returning.samples() if each.metric is STOPPED]  # no partition is copied
    assert [each.value for each in us.records("shared")] == [b"from us"]
    assert [each.value for each in eu.records("shared")] == [b"from us"]


def test_a_cluster_under_two_names_is_not_mirrored_to_itself(sites: tuple[TestBroker, TestBroker]) -> None:
    us, _ = sites
    with mirroring(properties(us, us)) as running:
        us.wait_for(lambda: running.flows[0].status.state is JobState.FAILED)
        assert "both aliases are the cluster" in running.flows[0].status.text()


def test_a_flow_ends_by_a_fault_of_its_own_in_place_of_waiting_for_ever(
    sites: tuple[TestBroker, TestBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    us, eu = sites

    def landed(lane: Lane, out: MirrorBatch, base_offset: int) -> None:
        raise AssertionError(f"{lane.source} at {base_offset} is not understood")

    monkeypatch.setattr(Lane, "landed", landed)
    with Producer(us.bootstrap_servers) as producer:
        producer.produce("puzzling", "one", partition=0).result()
    with mirroring(properties(us, eu, us__eu_topics="puzzling")) as running:
        us.wait_for(lambda: running.flows[0].status.state is JobState.FAILED)
        assert "puzzling-0 at 0 is not understood" in running.flows[0].status.text()


def test_a_gap_and_a_topic_made_anew_stop_one_partition_and_are_passed_where_that_is_wanted(
    sites: tuple[TestBroker, TestBroker],
) -> None:
    us, eu = sites
    given = properties(us, eu, us__eu_topics="logs,other")
    logs = TopicPartition("logs", 0)
    with Admin(us.bootstrap_servers) as admin, Producer(us.bootstrap_servers) as producer:
        for number in range(10):
            producer.produce("logs", f"{number}", partition=0).result()
        with mirroring(given):
            wait_for_copy(eu, "us.logs", 10)
        for number in range(10, 20):
            producer.produce("logs", f"{number}", partition=0).result()
        admin.delete_records({logs: 15})
        producer.produce("other", "goes on").result()
        with mirroring(given) as running:
            wait_for_copy(eu, "us.other", 1)
            stopped = {each.labels[2]: each.value for each in running.samples() if each.metric is STOPPED}
            assert stopped == {"us.logs": 1, "us.other": 0}
        with mirroring(given | {"on.gap": "continue"}):
            wait_for_copy(eu, "us.logs", 15)
        admin.delete_topics(["logs"])
        admin.create_topic("logs", partitions=1)
        with Producer(us.bootstrap_servers) as another:
            another.produce("logs", "anew", partition=0).result()
        with mirroring(given | {"on.reset": "continue"}):
            wait_for_copy(eu, "us.logs", 16)
    values = [each.value for each in eu.records("us.logs")]
    assert values == [f"{number}".encode() for number in (*range(10), *range(15, 20))] + [b"anew"]


def test_the_activity_of_two_sites_comes_together_in_one_topic_and_a_site_that_was_away_catches_up(
    sites: tuple[TestBroker, TestBroker],
) -> None:
    us, eu = sites
    with TestBroker() as everywhere:
        given = {
            "clusters": "us, eu, all",
            "us.bootstrap.servers": us.bootstrap_servers,
            "eu.bootstrap.servers": eu.bootstrap_servers,
            "all.bootstrap.servers": everywhere.bootstrap_servers,
            "us->all.enabled": "true",
            "topics": "activity",
            "replication.policy.class": "IdentityReplicationPolicy",
            "emit.heartbeats.enabled": "false",
            "refresh.topics.interval.seconds": "1",
        }
        for site, broker in (("us", us), ("eu", eu)):
            with Producer(broker.bootstrap_servers, linger_ms=0) as producer:
                for number in range(600):
                    producer.produce("activity", f"{site}-{number}", partition=0)
                    if number % 7 == 0:
                        producer.flush()
        with mirroring(given):  # eu is away
            wait_for_copy(everywhere, "activity", 600)
            with Producer(us.bootstrap_servers) as producer:
                producer.produce("activity", "us-600", partition=0)
            wait_for_copy(everywhere, "activity", 601)
        with mirroring(given | {"eu->all.enabled": "true"}):
            with Producer(us.bootstrap_servers) as producer:
                producer.produce("activity", "us-601", partition=0)
            together = wait_for_copy(everywhere, "activity", 1_202)
    for site, count in (("us", 602), ("eu", 600)):
        mine = [each.value for each in together if (each.value or b"").startswith(site.encode())]
        assert mine == [f"{site}-{number}".encode() for number in range(count)]


def test_a_circle_of_three_clusters_is_closed_by_none_of_them(sites: tuple[TestBroker, TestBroker]) -> None:
    us, eu = sites
    with TestBroker() as asia:
        places = {"us": us, "eu": eu, "asia": asia}
        given = {
            "clusters": "us, eu, asia",
            "topics": "circle",
            "replication.policy.class": "IdentityReplicationPolicy",
            "emit.heartbeats.enabled": "false",
            **{f"{name}.bootstrap.servers": broker.bootstrap_servers for name, broker in places.items()},
        }
        with Producer(us.bootstrap_servers) as producer:
            producer.produce("circle", "once", partition=0).result()
        with mirroring(given | {"us->eu.enabled": "true"}):
            wait_for_copy(eu, "circle", 1)
        with mirroring(given | {"eu->asia.enabled": "true"}):
            wait_for_copy(asia, "circle", 1)
        with mirroring(given | {"asia->us.enabled": "true"}) as closing:
            us.wait_for(lambda: closing.flows[0].status.state is JobState.RUNNING)
            assert not [each for each in closing.samples() if each.metric is STOPPED]  # no partition is copied
    assert [each.value for each in us.records("circle")] == [b"once"]
