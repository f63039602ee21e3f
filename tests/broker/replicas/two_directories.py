"""A broker with two log directories, and what tests ask of it."""

from __future__ import annotations

import errno

import plain_requests
from sim_broker import SimBroker
from sim_cluster import SimCluster

from ottla.broker.measures import gather
from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from ottla.messages.produce import ProduceRequest

MORE = ("/b", "/c")
BOTH = ("/data", "/b")


def create(
    place: SimBroker | SimCluster, name: str = "t", partitions: int = 2, replicas: int = 1, **configs: str
) -> None:
    """Make a topic, of two partitions as a rule: one for each directory."""
    if isinstance(place, SimBroker):
        place.create_topic(name, partitions, **configs)
    else:
        place.create_topic(name, partitions, replicas, **configs)


def a_produce(index: int, name: str = "t", acks: int = -1) -> ProduceRequest:
    return plain_requests.a_produce(b"value", topic=name, partition=index, acks=acks, timeout_ms=2000)


def produce(broker: SimBroker, index: int, acks: int = -1) -> int:
    response = broker.ask(a_produce(index, acks=acks), most=9)
    return int(response.responses[0].partition_responses[0].error_code)


def place_of(broker: SimBroker, index: int, name: str = "t") -> str:
    directory, _, _ = broker.here.node.replicas.by_name[name, index].log.directory.rpartition("/")
    return directory


def described(broker: SimBroker, **topics: list[int]) -> dict[str, DescribeLogDirsResult]:
    asked = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    response = broker.ask(DescribeLogDirsRequest(topics=asked or None))
    return {result.log_dir: result for result in response.results}


def held(result: DescribeLogDirsResult) -> list[tuple[str, int]]:
    return [(topic.name, one.partition_index) for topic in result.topics for one in topic.partitions]


def metric(broker: SimBroker, name: str) -> float:
    return sum(float(sample.value) for sample in gather(broker.here.node) if sample.metric.name == name)


def two_directories() -> SimBroker:
    """A broker with two directories, and a topic with a partition of one record in each."""
    broker = SimBroker(more_directories=("/b",))
    create(broker)
    assert (place_of(broker, 0), place_of(broker, 1)) == BOTH
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    return broker


def break_second(broker: SimBroker) -> None:
    """Make the next sync in /b fail."""
    broker.machine.disk.fail("sync", errno.EIO, where="/b/")
    assert produce(broker, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    broker.loop.run_for(200)


def start_in_vain(broker: SimBroker) -> None:
    """Start, and raise the reason why that failed."""
    started = broker.machine.start().started
    assert broker.loop.run_until(lambda: started.full, within_ms=5000)
    started.result()


def leader_of(cluster: SimCluster, index: int) -> int:
    topic = cluster.node(1).metadata.topic("t")
    assert topic is not None
    return int(topic.partitions[index].leader)


def produce_to_leader(cluster: SimCluster, index: int) -> None:
    """Produce one record to a partition of a cluster."""
    answer = cluster.ask(leader_of(cluster, index), a_produce(index), most=9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
