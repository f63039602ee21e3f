"""Copies partitions: fetches from many leaders of the source, side by side, for lanes that `sending.py` sends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ottla.client.aio.cluster import Cluster
from ottla.client.consume.fetching import Fetcher
from ottla.client.consume.received import PartitionReading
from ottla.client.consume.settings import FetchSettings
from ottla.client.core.effects import First
from ottla.client.model import Fetched, IsolationLevel
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.mirror.lane import Lane, LaneStopped
from ottla.mirror.sending import LOOK_S, LaneSending
from ottla.records.faults import CorruptRecords

LANE_BYTES: Final = 2 * 1024 * 1024
"""The most bytes of one partition that wait for the target, but for one piece."""
ALL_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of all partitions that wait."""
log = logging.getLogger("ottla.mirror")


class _Fetcher(Fetcher):
    """Stops one partition for what another consumer would raise for all."""

    def __init__(self, source: Cluster, settings: FetchSettings, stop: Callable[[TopicPartition, str], None]) -> None:
        super().__init__(source.plan, settings)
        self._stop = stop

    def refuse(self, faults: list[tuple[TopicPartition, ApiError]]) -> None:
        for partition, fault in faults:
            self._stop(partition, fault.message)


class LaneCopying(LaneSending):
    """The lanes between two clusters, copied while `run` is under way."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        *,
        on_lost: Callable[[Lane, int | None], Awaitable[None]],
        fetch: FetchSettings | None = None,
        produce_timeout_ms: int = 30_000,
    ) -> None:
        """`on_lost` decides where a lane's position or its target is no longer there: it moves the place, or stops it.

        It is told where the source was cut back to, if the leader has said so.
        """
        super().__init__(target, produce_timeout_ms=produce_timeout_ms)
        self._source = source
        self._on_lost = on_lost
        settings = fetch or FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED, check_crcs=False)
        self._fetcher = _Fetcher(source, settings, self.stop)

    def stop(self, partition: TopicPartition, reason: str) -> None:
        """Copy nothing more of a partition, and say why."""
        super().stop(partition, reason)
        self._fetcher.pause([partition])

    def _is_free(self, lane: Lane) -> bool:
        """False while `begin` or `on_lost` is at work on the lane."""
        return lane.source in self._fetcher.readings and super()._is_free(lane)

    def _goes_on(self, lane: Lane) -> None:
        if (reading := self._fetcher.readings.get(lane.source)) is not None:
            reading.seek(lane.position)

    async def begin(self, lanes: Iterable[Lane]) -> None:
        """Add lanes: read what of each landed behind its place, and read the source from there."""
        new = {lane.source: lane for lane in lanes}
        self.lanes.update(new)
        await self.recover(list(new.values()))
        self._fetcher.assign(set(self.lanes))
        for partition, lane in new.items():
            self._fetcher.readings[partition].seek(lane.position)
        self.room.set()

    async def run(self) -> None:
        """Copy until cancelled, or until an error that another attempt would not cure."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fetch())
            group.create_task(self.send())

    # From the source.

    async def _fetch(self) -> None:
        while True:
            self.room.clear()
            await self.find_leaders(self._source, self.lanes)
            await self._source.run(self._fetch_some())
            self._hand_over()
            await self._find_lost()
            if not self._fetcher.handles:
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self.room.wait()
                except TimeoutError:
                    continue

    async def _fetch_some(self) -> None:
        await self._fetcher.start()
        first = await First(self._fetcher.handles, LOOK_S * 1000) if self._fetcher.handles else None
        if first is not None:
            await self._fetcher.receive(first)

    def _hand_over(self) -> None:
        """Give received pieces to lanes that have room."""
        room = ALL_BYTES - sum(lane.queued_bytes for lane in self.lanes.values())
        for partition, reading in self._fetcher.readings.items():
            lane = self.lanes[partition]
            if lane.stopped is not None or lane.recovers or partition in self.adrift:
                continue
            if reading.position is None or _is_elsewhere(reading, lane):
                self.adrift.add(partition)
            elif reading.waiting and lane.queued_bytes < LANE_BYTES and room > 0:
                piece = reading.waiting.popleft()
                reading.position = piece.next_offset
                room -= len(piece.records)
                self._take(lane, piece)
                self.wake.set()

    def _take(self, lane: Lane, piece: Fetched) -> None:
        try:
            lane.take(piece)
        except (LaneStopped, CorruptRecords) as fault:
            self.stop(lane.source, str(fault))
        except ApiError as fault:
            self.stop(lane.source, fault.message)

    async def _find_lost(self) -> None:
        """Have it decided what becomes of lanes whose place is gone, once nothing of them is under way."""
        for partition in sorted(self.adrift):
            lane = self.lanes[partition]
            if lane.is_idle or (lane.in_flight == 0 and not self._is_at_target(lane)):
                reading = self._fetcher.readings[partition]
                was_cut = reading.position is not None and reading.fetch_offset < lane.position
                await self._on_lost(lane, reading.fetch_offset if was_cut else None)
                if lane.stopped is None:
                    lane.recover()
                self.adrift.discard(partition)
                self.wake.set()

    def lag(self, partition: TopicPartition) -> int | None:
        """The records of the source, committed when it was last heard of, that are not copied; None: not known."""
        reading = self._fetcher.readings.get(partition)
        if reading is None or reading.last_stable_offset < 0:
            return None
        return max(0, reading.last_stable_offset - self.lanes[partition].place.upstream)

    def log_start(self, partition: TopicPartition) -> int:
        """The first offset of the source when it was last heard of; -1 where it is not known."""
        reading = self._fetcher.readings.get(partition)
        return -1 if reading is None else reading.log_start_offset


def _is_elsewhere(reading: PartitionReading, lane: Lane) -> bool:
    """True if the source's log was cut back, or its topic made anew."""
    first = reading.waiting[0].offset if reading.waiting else reading.fetch_offset
    other = any(reading.topic_id) and lane.place.source_id and reading.topic_id.hex() != lane.place.source_id
    return first < lane.position or bool(other)
