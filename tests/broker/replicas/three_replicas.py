"""A partition with closed segments, on three brokers in virtual time or on one, for tests that damage its files."""

from __future__ import annotations

from sim_broker import SimBroker
from sim_cluster import SimCluster

from ottla.broker.replicas.partition import Partition
from ottla.kernel.errors import ErrorCode
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.metadata.partition_state import PartitionState
from ottla.records.batch import iterate_batches
from ottla.records.builder import BatchBuilder
from ottla.records.reader import read_run
from ottla.storage.log import Log
from ottla.storage.segment.names import LOG
from ottla.storage.segment.segment import Segment
from ottla.storage.values import LogRead

SMALL = {"internal_segment_bytes": "700"}
"""Options of the topic."""
BATCHES = 40
"""Batches of one record that the partition has at first: they fill several segments."""


def a_produce(number: int) -> ProduceRequest:
    """A request with one record, whose value names `number`."""
    builder = BatchBuilder()
    builder.add(1_700_000_000_000 + number, b"key-%d" % (number % 5), b"value-%04d" % number)
    data = [PartitionProduceData(index=0, records=builder.build())]
    return ProduceRequest(acks=-1, timeout_ms=3000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def a_fetch(topic_id: bytes, offset: int) -> FetchRequest:
    """A fetch outside of sessions that does not wait."""
    place = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, isolation_level=0, session_id=0, forgotten_topics_data=[], rack_id="",
        topics=[FetchTopic(topic_id=topic_id, partitions=[place])],
    )  # fmt: skip


def everything(count: int = BATCHES) -> list[bytes]:
    """The values of the first records."""
    return [b"value-%04d" % number for number in range(count)]


class ThreeReplicas:
    """Three brokers, one partition on all of them, with closed segments."""

    def __init__(self, *, scrub_hours: str = "168", **configs: str) -> None:
        self.cluster = SimCluster(min_insync_replicas="2", ottla_scrub_interval_hours=scrub_hours)
        self.cluster.create_topic(replicas=3, **SMALL | configs)
        self.cluster.until(lambda: all(("t", 0) in self.cluster.node(each).replicas.by_name for each in (1, 2, 3)))
        for number in range(BATCHES):
            self.produce(number)

    def state(self) -> PartitionState:
        topic = self.cluster.node(self.living()).metadata.topic("t")
        assert topic is not None
        return topic.partitions[0]

    def living(self) -> int:
        return next(number for number in (1, 2, 3) if self.cluster.machines[number].current is not None)

    @property
    def leader(self) -> int:
        return self.state().leader

    def followers(self) -> list[int]:
        return [number for number in (1, 2, 3) if number != self.leader]

    def log(self, number: int) -> Log:
        return self.cluster.node(number).replicas.by_name[("t", 0)].log

    def produce(self, number: int) -> None:
        answer = self.cluster.ask(self.leader, a_produce(number), most=9).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE
        assert answer.base_offset == number

    def read(self, number: int, offset: int) -> PartitionData:
        """Fetch from one broker as a consumer does."""
        answer = self.cluster.ask(number, a_fetch(self.state().topic_id, offset))
        return answer.responses[0].partitions[0]

    def values(self, number: int, offset: int = 0) -> list[bytes | None]:
        """All values of a log on that broker; checks each batch's CRC."""
        log, found = self.log(number), []
        while offset < log.end_offset:
            read = log.read(offset, 1 << 20, limit_offset=log.end_offset)
            assert isinstance(read, LogRead)
            body = read.data()
            batches = list(iterate_batches(body))
            assert all(batch.crc_holds() for batch in batches)
            found += [record.value for record in read_run(body)]
            offset = batches[-1].next_offset
        return found

    def rot(self, number: int, at: int = 0, position: int = 65) -> Segment:
        """Flip a bit of a closed segment, in the cache and on the disk."""
        segment = self.log(number).segments[at]
        assert segment is not self.log(number).active
        self.cluster.machines[number].disk.flip_bit(segment.path(LOG), position)
        return segment

    def scrub(self, number: int) -> None:
        self.cluster.node(number).scrubber.round()

    def repaired(self, number: int) -> int:
        """Segments that a broker has fetched again."""
        return self.cluster.node(number).repairs.repaired_segments


def alone(*, scrub_hours: str = "168", **configs: str) -> tuple[SimBroker, Partition]:
    """One broker with the only replica."""
    place = SimBroker(ottla_scrub_interval_hours=scrub_hours)
    place.create_topic(**SMALL | configs)
    for number in range(BATCHES):
        place.ask(a_produce(number), most=9)
    return place, place.here.node.replicas.by_name[("t", 0)]
