"""The work of a consumer while records go on being handed out: find offsets and leaders, and commit.

One story for each purpose at a time. So a broker that does not answer holds back its own purposes alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable
from functools import partial

from ottla.client.consume.fetching import Fetcher
from ottla.client.consume.positions import choose_offsets, find_committed
from ottla.client.consume.received import PartitionReading
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.deadline import BrokersAway
from ottla.client.core.effects import Begin, ClientStory, Drop, Finish, First
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError, may_retry
from ottla.client.model import Broker
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

log = logging.getLogger("ottla.client")

GROUP, COMMIT = "group", "commit"
_METADATA, _COMMITTED, _UNKNOWN_LEADER = "metadata", "committed offsets", "offsets from an unknown leader"
_ATTEMPTS_MS = 1_000
"""The time for the attempts of one story, before `poll` hears how it went."""


class StoriesBeside:
    """The stories beside `poll`, by purpose, and what of them fails."""

    def __init__(self, plan: ClusterPlan, settings: ConsumerSettings, fetcher: Fetcher) -> None:
        self.plan = plan
        self.settings = settings
        self.fetcher = fetcher
        self._under_way: dict[Hashable, object] = {}
        self._failing: set[Hashable] = set()
        """Purposes that are tried again while brokers are away, or refuse for a time: a warning told of the first."""

    @property
    def has_handles(self) -> bool:
        """True if `take_first` has something to wait for."""
        return bool(self._under_way or self.fetcher.handles)

    async def go_on(self, *, of_group: bool, commit: Callable[[], ClientStory[None]] | None) -> None:
        """Begin what is due, `commit` too if it is given, and take in what has ended."""
        if commit is not None:
            await self._begin(COMMIT, commit)
        while True:
            await self._begin_due(of_group=of_group)
            if not self._under_way or not await self.take_first(0):
                return

    async def take_first(self, timeout_ms: float) -> bool:
        """Wait for the first fetch or story to end, at most so long, and take it in; True if there was one.

        Raises errors that no other attempt would cure.
        """
        purposes = list(self._under_way)
        handles = [*self._under_way.values(), *self.fetcher.handles]
        first = await First(handles, timeout_ms)
        if first is None:
            return False
        purpose = next((each for each in purposes if self._under_way[each] is first), None)
        if purpose is None:
            await self.fetcher.receive(first)
            return True
        del self._under_way[purpose]
        try:
            await Finish(first)
        except (ApiError, ClientError) as fault:
            self.bear(purpose, fault)
        else:
            self.works(purpose)
        return True

    async def drop(self, *purposes: Hashable) -> None:
        """Give up the stories of these purposes, by default all."""
        for purpose in purposes or list(self._under_way):
            self._failing.discard(purpose)
            handle = self._under_way.pop(purpose, None)
            if handle is not None:
                await Drop(handle)

    def bear(self, purpose: Hashable, fault: ApiError | ClientError) -> None:
        """Tell of an outage, once; raise an error of another kind again."""
        unknown = isinstance(fault, ApiError) and fault.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if unknown or not (may_retry(fault) or isinstance(fault, BrokersAway)):
            raise fault
        if not self._failing:
            log.warning("%s; it is tried again with each poll", fault)
        self._failing.add(purpose)

    def works(self, purpose: Hashable) -> None:
        """Note that what may have failed before did not fail."""
        self._failing.discard(purpose)

    async def _begin(self, purpose: Hashable, story: Callable[[], ClientStory[None]]) -> None:
        if purpose not in self._under_way:
            self._under_way[purpose] = await Begin(story())

    async def _begin_due(self, *, of_group: bool) -> None:
        plan, settings, readings = self.plan, self.settings, self.fetcher.readings
        doubted = plan.metadata.missing({partition.topic for partition in readings})
        if doubted and plan.now_ms() - plan.metadata.updated_ms > plan.settings.retry_backoff_ms:
            await self._begin(_METADATA, lambda: self._refresh(doubted))
        fresh = {partition: reading for partition, reading in readings.items() if reading.is_fresh}
        if fresh:
            await self._begin(_COMMITTED, lambda: find_committed(plan, settings, fresh, timeout_ms=_ATTEMPTS_MS))
        for leader, lost in self._without_offset().items():
            choosing = partial(choose_offsets, plan, settings, lost, of_group=of_group, timeout_ms=_ATTEMPTS_MS)
            await self._begin(leader, choosing)

    def _without_offset(self) -> dict[Broker | str, dict[TopicPartition, PartitionReading]]:
        """Partitions for which no offset is committed, or whose offset is gone, by their leaders.

        Those that have no leader now are left out; of others, metadata may not know the leader.
        """
        found: dict[Broker | str, dict[TopicPartition, PartitionReading]] = {}
        metadata = self.plan.metadata
        for partition, reading in self.fetcher.readings.items():
            if reading.position is None and not reading.is_fresh and not metadata.is_leaderless(*partition):
                found.setdefault(metadata.leader(*partition) or _UNKNOWN_LEADER, {})[partition] = reading
        return found

    async def _refresh(self, topics: Collection[str]) -> None:
        await self.plan.refresh(topics, patience_ms=_ATTEMPTS_MS)
