"""Elects leaders of topics that allow unclean elections, if no replica that is known to be complete is alive.

The caretaker does it: it asks the live replicas how long their logs are, and the longest leads. The decision at a
broker's death (`cluster/partitions.py`) leaves such a partition without a leader, unless one replica is left.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.cluster.commands import ElectLeader
from ottla.cluster.partitions import waits_for_longest
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.story import run_story

if TYPE_CHECKING:
    from ottla.broker.control.longest_logs import LongestLogs
    from ottla.broker.environment import Environment
    from ottla.metadata.partition_state import PartitionState

log = logging.getLogger("ottla.replicas")
EVERY_MS = 500
MOST_AT_ONCE = 1000


class UncleanElections:
    """Runs at most one round of requests at a time."""

    def __init__(self, around: Environment, longest_logs: LongestLogs) -> None:
        self._around = around
        self._longest_logs = longest_logs
        self._asking = False
        self._looked_version = -1

    def look(self) -> None:
        """Look for such partitions, if the metadata has changed since the last look found none."""
        around = self._around
        metadata = around.metadata
        if self._asking or metadata.version == self._looked_version:
            return
        if not around.may_lead() or around.follow.rank() != 0:
            return
        found = [
            (TopicPartition(topic.name, partition.partition), partition)
            for topic in metadata.visible_topics()
            for partition in topic.partitions
            if waits_for_longest(partition, metadata, topic)
        ][:MOST_AT_ONCE]
        if not found:
            self._looked_version = metadata.version
            return
        self._asking = True
        run_story(self._elect(found)).when_full(self._ended)

    def _ended(self) -> None:
        self._asking = False

    async def _elect(self, found: list[tuple[TopicPartition, PartitionState]]) -> None:
        order = await self._longest_logs.of(found)
        asked = []
        for place, partition in found:
            command = ElectLeader(
                *place, unclean=True, if_allowed=True, longest=order[place], asked_at=partition.partition_epoch
            )
            asked.append((place, self._around.follow.submit(command)))
        for place, slot in asked:
            outcome = await slot
            state = self._around.metadata.topic(place.topic)
            if not isinstance(outcome, ApiError) and outcome.entries and state is not None:
                leader = state.partitions[place.partition].leader
                log.warning("%s-%d is led by broker %d, which may lack committed records: no complete replica lives, "
                            "and of those that do its log is the longest", *place, leader)  # fmt: skip
