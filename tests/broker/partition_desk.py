"""One broker around partitions with real logs on a disk in memory, without a node; a test says when logs are synced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hand_syncer import HandSyncer

from ottla.broker.replicas.partition import Partition
from ottla.broker.waiting import Deadlines
from ottla.config.topic import TopicConfig
from ottla.kernel.ids import BrokerEpoch, BrokerId, LeaderEpoch
from ottla.metrics.metric import Traffic
from ottla.sim.loop import SimLoop
from ottla.storage.disk.memory import MemoryDisk
from ottla.storage.log import Log

ME = BrokerId(1)
TOPIC_ID = bytes(range(16))


class PartitionDesk(HandSyncer):
    """The environment of the partitions, with a clock and a lease to set; `sync` syncs the submitted logs."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = ME
        self.clock = SimLoop(1)
        self.deadlines = Deadlines(self.clock)
        self.time: Any = SimpleNamespace(aged=lambda retention_ms: self.clock.wall_ms())
        self.syncer = self
        self.disk = MemoryDisk()
        self.lease = True

    def a_partition(self, topic: str, index: int = 0) -> Partition:
        """A new partition with an empty log."""
        log = Log.create(
            self.disk,
            f"/data/{topic}-{index}",
            topic=topic,
            partition=index,
            topic_id=TOPIC_ID,
            config=TopicConfig(),
            wall_ms=self.clock.wall_ms(),
            producer_expiration_ms=86_400_000,
            on_synced=lambda _: None,
        )
        partition = Partition(topic, index, TOPIC_ID, log, TopicConfig(), Traffic(), self, self.suspect)  # type: ignore[arg-type]
        log.listen(on_synced=partition.on_synced)
        return partition

    def lead_alone(self, partition: Partition, epoch: int) -> None:
        """Have a partition led here in an epoch, with no other replica."""
        partition.lead(
            LeaderEpoch(epoch), replicas=(ME,), in_sync=frozenset({ME}), registered={ME: BrokerEpoch(1)}
        )  # fmt: skip

    def disk_failed(self, error: OSError) -> None:
        raise error

    def may_lead(self) -> bool:
        return self.lease

    def suspect(self, partition: Partition, offset: int) -> None:
        raise AssertionError(f"{partition.topic}-{partition.index} is suspected at {offset}, and is sound")
