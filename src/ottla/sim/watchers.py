"""Two clients of one group in the simulated workload.

One commits, each time at the present coordinator; the other reads the committed offset at the coordinator that it found
once, until that refuses.

A coordinator that does not know that it was deposed must not answer the second client (rule A12).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ottla.kernel.ids import BrokerId
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.sim.checkers.history import CommitAsked, CommitDone, CommitSeen, LogKey
from ottla.sim.setting import KnownTopic, Setting, lasting_topics

if TYPE_CHECKING:
    from ottla.sim.peer import Peer, Peers

_GROUP = "watched"
_BY_NAME = 9
_NO_GENERATION = -1
_AGAIN_US = 20_000
_COMMIT_EVERY_US = (50_000, 400_000)
"""Seldom: a write that a deposed coordinator has begun keeps it from answering, lease or no lease."""
_TIMEOUT_MS = 400
"""Short: a request to a broker that stands still is sent again while it does."""


class _Client:
    def __init__(self, name: str, workload: Setting) -> None:
        self.workload = workload
        self.random = Random(f"{name}-{workload.plan.seed}")
        self.peer = workload.peer(name, _TIMEOUT_MS)

    def topic(self) -> KnownTopic | None:
        return next(iter(lasting_topics(self.workload)), None)


class Committer(_Client):
    """Commits 1, 2, 3 and so on; the outcome of an unanswered commit is left open."""

    def __init__(self, workload: Setting) -> None:
        super().__init__("committer", workload)

    async def run(self) -> None:
        number = 0
        while not self.workload.ending:
            coordinator, topic = await find_coordinator(self.peer, _GROUP), self.topic()
            if coordinator is not None and topic is not None:
                number += 1
                await self._commit(coordinator, topic, number)
            await self.peer.sleep_us(self.random.randint(*_COMMIT_EVERY_US))
        self.peer.close()

    async def _commit(self, coordinator: Peer, topic: KnownTopic, number: int) -> None:
        log = LogKey(topic.topic_id.hex(), 0)
        self.workload.saw(CommitAsked(self.workload.loop.now_us, _GROUP, log, number))
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        response = await coordinator.ask(
            OffsetCommitRequest(
                group_id=_GROUP,
                generation_id_or_member_epoch=_NO_GENERATION,
                member_id="",
                topics=[OffsetCommitRequestTopic(name=topic.plan.name, partitions=[place])],
            ),
            most=_BY_NAME,
        )
        if response is not None and response.topics[0].partitions[0].error_code == 0:
            self.workload.saw(CommitDone(self.workload.loop.now_us, _GROUP, log, number))


class Watcher(_Client):
    """Reads the commit again and again, from the same broker whether it answers or not."""

    def __init__(self, workload: Setting) -> None:
        super().__init__("watcher", workload)

    async def run(self) -> None:
        coordinator: Peer | None = None
        while not self.workload.ending:
            topic = self.topic()
            if coordinator is None:
                coordinator = await find_coordinator(self.peer, _GROUP)
            if coordinator is not None and topic is not None and not await self._look(coordinator, topic):
                coordinator = None
            await self.peer.sleep_us(_AGAIN_US + self.random.randint(*self.workload.plan.pause_us))
        self.peer.close()

    async def _look(self, coordinator: Peer, topic: KnownTopic) -> bool:
        """Read once; True if the watcher stays with this coordinator."""
        asked_us = self.workload.loop.now_us
        group = OffsetFetchRequestGroup(group_id=_GROUP, topics=None)
        response = await coordinator.ask(OffsetFetchRequest(groups=[group]), most=_BY_NAME)
        if response is None:
            return coordinator.reachable
        if response.groups[0].error_code:
            return False
        found = {
            (each.name, part.partition_index): part.committed_offset
            for each in response.groups[0].topics
            for part in each.partitions
        }
        log, offset = LogKey(topic.topic_id.hex(), 0), found.get((topic.plan.name, 0), -1)
        self.workload.saw(CommitSeen(asked_us, self.workload.loop.now_us, _GROUP, log, offset))
        return True


async def find_coordinator(peers: Peers, group: str) -> Peer | None:
    response = await peers.ask(FindCoordinatorRequest(coordinator_keys=[group]))
    if response is None or response.coordinators[0].error_code:
        return None
    return peers.by_broker.get(BrokerId(response.coordinators[0].node_id))
