"""A client of the simulated workload that asks for the latest offsets of one log after the other.

It prefers leaders that have just begun: such a leader may not know yet what is committed, and must say so (KIP-207).
"""

from __future__ import annotations

from random import Random

from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.sim.checkers.history import LatestSeen
from ottla.sim.setting import KnownTopic, Setting, lasting_topics

_LATEST = -1
_STAYS = 30
"""The number of questions about one log before the client turns to another."""
_EVERY_US = (2_000, 30_000)
_AGAIN_US = 4_000
_TIMEOUT_MS = 800


class LatestAsker:
    """One such client."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.setting = setting
        self.random = Random(f"{name}-{setting.plan.seed}")
        self.peer = setting.peer(name, _TIMEOUT_MS)

    async def run(self) -> None:
        while not self.setting.ending:
            topics = lasting_topics(self.setting)
            if not topics:
                await self.peer.sleep_us(_EVERY_US[1])
                continue
            topic = self.random.choice(topics)
            partition = self.random.randrange(topic.plan.partitions)
            for _ in range(_STAYS):
                if not self.setting.ending:
                    told = await self._ask(topic, partition)
                    await self.peer.sleep_us(self.random.randint(*_EVERY_US) if told else _AGAIN_US)
        self.peer.close()

    async def _ask(self, topic: KnownTopic, partition: int) -> bool:
        """Ask once; True if the leader answered with an offset."""
        peer = await self.peer.leader(topic.plan.name, partition)
        if peer is None:
            return False
        asked_us = self.setting.loop.now_us
        asked = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
        topics = [ListOffsetsTopic(name=topic.plan.name, partitions=[asked])]
        response = await peer.ask(ListOffsetsRequest(replica_id=-1, topics=topics))
        found = None if response is None else response.topics[0].partitions[0]
        if found is None or found.error_code:
            self.peer.forget(topic.plan.name, partition)
            return False
        now_us, log = self.setting.loop.now_us, topic.log(partition)
        self.setting.saw(LatestSeen(asked_us, now_us, log, found.leader_epoch, found.offset))
        return True
