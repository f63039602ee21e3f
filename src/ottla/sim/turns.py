"""An operator who replaces a leader that the other brokers do not reach, and puts it back before they reach it again.

Records that either of the two leaders has appended meanwhile are on its own disk alone. When the others follow the
first one again, they cut off the records of the second one, and go on in an older epoch than they had. Drawn apart from
all other faults.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ottla.kernel.ids import BrokerId
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.sim.administrator import Administrator
from ottla.sim.setting import KnownTopic, Setting, lasting_topics

_EVERY_US = (300_000, 1_500_000)
_LEADS_US = (30_000, 250_000)
"""The time for which each of the two leads and takes writes."""


class _Led(NamedTuple):
    """A partition with a leader and other replicas in sync."""

    topic: KnownTopic
    partition: int
    leader: BrokerId
    others: list[int]
    replicas: list[int]


class TurningOperator:
    """One such operator; `apart` cuts a broker off from the other brokers, and returns a function that ends that."""

    def __init__(
        self, workload: Setting, administrator: Administrator, apart: Callable[[BrokerId], Callable[[], None]]
    ) -> None:
        self._workload = workload
        self._administrator = administrator
        self._apart = apart
        self._random = Random(f"turns-{workload.plan.seed}")
        self._peer = workload.peer("operator")

    async def run(self) -> None:
        while not self._workload.ending:
            await self._peer.sleep_us(self._random.randint(*_EVERY_US))
            found = None if self._workload.ending else await self._some_partition()
            if found is not None and not self._workload.ending:
                await self._turn(found)

    async def _turn(self, found: _Led) -> None:
        join = self._apart(found.leader)
        try:
            for leader in (self._random.choice(found.others), found.leader):
                await self._peer.sleep_us(self._random.randint(*_LEADS_US))
                if self._workload.ending:
                    return
                await self._administrator.prefer(found.topic.plan.name, found.partition, leader, found.replicas)
        finally:
            join()

    async def _some_partition(self) -> _Led | None:
        topics = lasting_topics(self._workload)
        if not topics:
            return None
        topic = self._random.choice(topics)
        index = self._random.randrange(topic.plan.partitions)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic.plan.name)], allow_auto_topic_creation=False)
        response = await self._peer.ask(asked)
        found = [] if response is None else response.topics[0].partitions
        now = next((each for each in found if each.partition_index == index), None)
        if now is None or now.leader_id not in now.isr_nodes:
            return None
        others = [broker for broker in now.isr_nodes if broker != now.leader_id]
        return _Led(topic, index, BrokerId(now.leader_id), others, now.replica_nodes) if others else None
