"""A cluster under a sender of batches, in virtual time."""

from __future__ import annotations

from typing import Any

from tests.client.stories import VirtualTime, topic_led_by

from ottla.client.core.plan import ClusterPlan
from ottla.client.model import Broker, ClientSettings, Produced
from ottla.client.produce.accumulator import Accumulator, OutgoingBatch
from ottla.client.produce.producing import Sender, StoryEnded
from ottla.client.produce.settings import ProducerSettings
from ottla.kernel.ids import TopicPartition
from ottla.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.messages.init_producer_id import InitProducerIdResponse
from ottla.messages.metadata import MetadataResponse
from ottla.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))
ONE = Broker(1, "b", 1)


class World(VirtualTime):
    """A cluster under a sender: every record goes to offset 0, unless `fault` has an error for its leader."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.asked: list[tuple[str, int]] = []
        """The requests, and the ports that they went to."""
        self.metadata: MetadataResponse | Exception = topic_led_by(1, 1)
        self.fault: dict[int, Exception] = {}
        plan = ClusterPlan("boot:9", ClientSettings(), lambda: self.time)
        self.accumulator = Accumulator(ProducerSettings(**{"enable_idempotence": False, **settings}))
        self.sender = Sender(plan, self.accumulator)

    def add(self, partition: TopicPartition) -> OutgoingBatch:
        """A batch of one record."""
        value = b"x" * self.accumulator.settings.batch_size
        return self.accumulator.append(partition, 5, None, value, [], now_ms=self.time).batch

    def know(self) -> None:
        """Let the sender know the leaders."""
        self.run(self.sender.find_partitions("t"))
        self.asked.clear()

    def send(self) -> dict[OutgoingBatch, Produced | Exception]:
        """Send what may leave until nothing more may; the outcomes of all attempts, which are settled."""
        outcomes: dict[OutgoingBatch, Produced | Exception] = {}
        while stories := self.sender.begin(flush=True):
            ended: list[StoryEnded] = [self.run(story) for story in stories]
            for each in ended:
                outcomes.update(each.outcomes)
            self.sender.settle(ended)
        return outcomes

    def attempt(self, ask: Any) -> Any:
        name, port = ask.request.__name__.removesuffix("Request"), ask.destination.port
        self.asked.append((name, port))
        if port in self.fault:
            return self.fault[port]
        if name == "Metadata":
            return self.metadata
        if name == "FindCoordinator":
            return FindCoordinatorResponse(coordinators=[Coordinator(key="id", node_id=3, host="b", port=3)])
        if name == "InitProducerId":
            return InitProducerIdResponse(producer_id=7, producer_epoch=0)
        if name == "AddPartitionsToTxn":
            return AddPartitionsToTxnResponse()
        (topic,) = ask.build(9).topic_data
        parts = [PartitionProduceResponse(index=each.index, base_offset=0) for each in topic.partition_data]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts)])
