"""The sender: batches to those leaders that there are, and the ends of batches that took too long."""

from __future__ import annotations

from typing import Any

from tests.client.stories import VirtualTime, topic_led_by

from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import BrokerUnreachable, ConnectionLost, MetadataMissing, RequestTimedOut
from ottla.client.model import ClientSettings, Produced
from ottla.client.produce.accumulator import Accumulator, OutgoingBatch, ProducerSettings
from ottla.client.produce.producing import Sender
from ottla.kernel.ids import TopicPartition
from ottla.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
)
from ottla.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class World(VirtualTime):
    """A cluster of one broker under a sender: every record goes to offset 0."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.metadata: MetadataResponse | Exception = topic_led_by(1, 1)
        plan = ClusterPlan("boot:1", ClientSettings(), lambda: self.time)
        self.accumulator = Accumulator(ProducerSettings(enable_idempotence=False, **settings))
        self.sender = Sender(plan, self.accumulator)

    def add(self, partition: TopicPartition) -> OutgoingBatch:
        """A batch of one record."""
        place = self.accumulator.append(partition, 5, None, b"x" * self.accumulator.settings.batch_size, [], now_ms=0)
        return place.batch

    def ready(self) -> list[OutgoingBatch]:
        return self.accumulator.ready(self.time, flush=True)

    def attempt(self, ask: Any) -> Any:
        request = ask.build(9)
        self.asked.append(type(request).__name__)
        if isinstance(request, MetadataRequest):
            return self.metadata
        (topic,) = request.topic_data
        parts = [PartitionProduceResponse(index=each.index, base_offset=0) for each in topic.partition_data]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts)])


def test_a_batch_does_not_wait_for_the_leader_of_another_partition() -> None:
    world = World()
    world.metadata = topic_led_by(1, -1)
    led, leaderless = world.add(P0), world.add(P1)
    outcomes = dict(world.run(world.sender.send(world.ready())))
    assert outcomes[led] == Produced(0)
    assert isinstance(outcomes[leaderless], MetadataMissing)
    assert world.time == 0


def test_batches_whose_leaders_cannot_be_found_are_tried_again_later() -> None:
    world = World()
    batch = world.add(P0)
    world.metadata = BrokerUnreachable("nobody is there")
    outcomes = world.run(world.sender.send(world.ready()))
    assert isinstance(dict(outcomes)[batch], BrokerUnreachable)
    assert world.time == 0, "so that a batch fails when its time is over, not a minute later"
    assert world.sender.settle(outcomes) == []
    world.time, world.metadata = 1_000, topic_led_by(1, 1)
    assert dict(world.run(world.sender.send(world.ready()))) == {batch: Produced(0)}


def test_all_batches_that_wait_fail_once_their_time_is_over() -> None:
    """Each one was tried by itself once, so that flush and close took hours when the brokers had gone for good."""
    world = World(delivery_timeout_ms=1_000)
    first, second, third = (world.add(P0) for _ in range(3))
    other = world.add(P1)
    world.time = 999
    (sent,) = world.accumulator.ready(world.time, flush=True)[:1]
    assert sent is first
    other.under_way = False
    world.time = 1_000
    assert world.sender.settle([(first, ConnectionLost("gone"))]) == [first, second, third, other]
    assert all(isinstance(batch.outcome, RequestTimedOut) for batch in (first, second, third, other))
    assert world.accumulator.unfinished == []


def test_records_are_taken_for_a_topic_of_which_some_partitions_have_no_leader() -> None:
    world = World()
    world.metadata = topic_led_by(1, -1)
    assert world.sender.known_partitions("t") is None
    assert world.run(world.sender.find_partitions("t")) == ([0], 2)
    assert world.sender.known_partitions("t") == ([0], 2)
    assert world.time == 0


def test_a_partition_that_was_added_is_found_where_it_is_asked_for() -> None:
    world = World()
    world.run(world.sender.find_partitions("t"))
    assert world.sender.known_partitions("t", 1) == ([0, 1], 2)
    assert world.sender.known_partitions("t", 2) is None
    assert world.run(world.sender.find_partitions("t", 2)) == ([0, 1], 2)
    world.metadata = topic_led_by(1, 1, 1)
    assert world.run(world.sender.find_partitions("t", 2)) == ([0, 1, 2], 3)


def test_a_producer_looks_for_added_partitions_as_it_sends() -> None:
    world = World()
    world.run(world.sender.find_partitions("t"))
    world.metadata = topic_led_by(1, 1, 1)
    world.add(P0)
    world.run(world.sender.send(world.ready()))
    assert world.sender.known_partitions("t") == ([0, 1], 2)
    world.time = ClientSettings().metadata_max_age_ms
    world.add(P1)
    world.run(world.sender.send(world.ready()))
    assert world.sender.known_partitions("t") == ([0, 1, 2], 3)
    world.time *= 2
    world.metadata = BrokerUnreachable("nobody is there")
    late = world.add(TopicPartition("t", 2))
    assert dict(world.run(world.sender.send(world.ready()))) == {late: Produced(0)}, "what is known will do meanwhile"
