"""Copies partitions: fetches from many leaders of the source, produces to many leaders of the target, side by side.

Decides nothing about a partition: `lane.py` does. A Produce carries a batch of each partition that has one ready; some
are under way at a time to every leader, so that the target syncs while the next ones travel.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from ottla.client.aio.cluster import Cluster
from ottla.client.consume.fetching import Fetcher
from ottla.client.consume.received import PartitionReading
from ottla.client.consume.settings import FetchSettings
from ottla.client.core import transfer
from ottla.client.core.effects import Ask, First
from ottla.client.errors import ClientError, may_retry
from ottla.client.model import EARLIEST, LATEST, Broker, Fetched, IsolationLevel, Produced
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.produce import ProduceRequest, ProduceResponse
from ottla.mirror.batches import Landed, MirrorBatch, landed
from ottla.mirror.lane import Lane, LaneStopped
from ottla.records.batch import iterate_batches
from ottla.records.faults import CorruptRecords

LANE_BYTES: Final = 2 * 1024 * 1024
"""The most bytes of one partition that wait for the target, but for one piece."""
ALL_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of all partitions that wait."""
REQUEST_BYTES: Final = 4 * 1024 * 1024
_REQUESTS: Final = 5
"""Produce requests under way to one leader."""
_LOOK_S: Final = 0.25
"""The time between two looks for leaders that are not known."""
_AGAIN_S: Final = 0.1
_CONFLICTS: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
Part = tuple[Lane, MirrorBatch]
log = logging.getLogger("ottla.mirror")


class _Fetcher(Fetcher):
    """Stops one partition for what another consumer would raise for all."""

    def __init__(self, source: Cluster, settings: FetchSettings, stop: Callable[[TopicPartition, str], None]) -> None:
        super().__init__(source.plan, settings)
        self._stop = stop

    def refuse(self, faults: list[tuple[TopicPartition, ApiError]]) -> None:
        for partition, fault in faults:
            self._stop(partition, fault.message)


class LaneCopying:
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
        self.lanes: dict[TopicPartition, Lane] = {}
        """By partition of the source."""
        self.ages_ms: dict[TopicPartition, int] = {}
        """The age of the newest record of the batch that landed last."""
        self._source, self._target = source, target
        self._on_lost = on_lost
        self._timeout_ms = produce_timeout_ms
        settings = fetch or FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED, check_crcs=False)
        self._fetcher = _Fetcher(source, settings, self.stop)
        self._wake, self._room = asyncio.Event(), asyncio.Event()
        self._under_way: dict[Broker, int] = {}
        self._adrift: set[TopicPartition] = set()
        """Partitions whose place is not at the source, or whose target is another topic."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked_s = {source: 0.0, target: 0.0}

    def stop(self, partition: TopicPartition, reason: str) -> None:
        """Copy nothing more of a partition, and say why."""
        lane = self.lanes[partition]
        if lane.stopped is None:
            log.error("%s is not mirrored on: %s", partition, reason)
        lane.stop(reason)
        self._fetcher.pause([partition])

    async def begin(self, lanes: Iterable[Lane]) -> None:
        """Add lanes: read what of each landed behind its place, and read the source from there."""
        new = {lane.source: lane for lane in lanes}
        self.lanes.update(new)
        await self._recover(list(new.values()))
        self._fetcher.assign(set(self.lanes))
        for partition, lane in new.items():
            self._fetcher.readings[partition].seek(lane.position)
        self._room.set()

    async def run(self) -> None:
        """Copy until cancelled, or until an error that another attempt would not cure."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fetch())
            group.create_task(self._send())

    async def drain(self, timeout_s: float) -> None:
        """Wait, at most so long, for the answers of what is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    # From the source.

    async def _fetch(self) -> None:
        while True:
            self._room.clear()
            await self._find_leaders(self._source, self.lanes)
            await self._source.run(self._fetch_some())
            self._hand_over()
            await self._find_lost()
            if not self._fetcher.handles:
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await self._room.wait()
                except TimeoutError:
                    continue

    async def _fetch_some(self) -> None:
        await self._fetcher.start()
        first = await First(self._fetcher.handles, _LOOK_S * 1000) if self._fetcher.handles else None
        if first is not None:
            await self._fetcher.receive(first)

    def _hand_over(self) -> None:
        """Give received pieces to lanes that have room."""
        room = ALL_BYTES - sum(lane.queued_bytes for lane in self.lanes.values())
        for partition, reading in self._fetcher.readings.items():
            lane = self.lanes[partition]
            if lane.stopped is not None or lane.recovers or partition in self._adrift:
                continue
            if reading.position is None or _is_elsewhere(reading, lane):
                self._adrift.add(partition)
            elif reading.waiting and lane.queued_bytes < LANE_BYTES and room > 0:
                piece = reading.waiting.popleft()
                reading.position = piece.next_offset
                room -= len(piece.records)
                self._take(lane, piece)
                self._wake.set()

    def _take(self, lane: Lane, piece: Fetched) -> None:
        try:
            lane.take(piece)
        except (LaneStopped, CorruptRecords) as fault:
            self.stop(lane.source, str(fault))
        except ApiError as fault:
            self.stop(lane.source, fault.message)

    async def _find_lost(self) -> None:
        """Have it decided what becomes of lanes whose place is gone, once nothing of them is under way."""
        for partition in sorted(self._adrift):
            lane = self.lanes[partition]
            if lane.is_idle or (lane.in_flight == 0 and not self._is_at_target(lane)):
                reading = self._fetcher.readings[partition]
                was_cut = reading.position is not None and reading.fetch_offset < lane.position
                await self._on_lost(lane, reading.fetch_offset if was_cut else None)
                if lane.stopped is None:
                    lane.recover()
                self._adrift.discard(partition)
                self._wake.set()

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

    # To the target.

    async def _send(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self._recover([lane for lane in self.lanes.values() if self._may_recover(lane)])
            await self._find_leaders(self._target, {lane.target: lane for lane in self.lanes.values()})
            self._send_ready()

    def _may_recover(self, lane: Lane) -> bool:
        """True for a lane that waits for it, unless `begin` or `on_lost` is at work on it."""
        others = lane.source not in self._fetcher.readings or lane.source in self._adrift
        return lane.recovers and lane.stopped is None and not lane.in_flight and not others

    def _send_ready(self) -> None:
        by_leader: dict[Broker, list[Lane]] = {}
        for lane in self.lanes.values():
            leader = self._target.plan.metadata.leader(*lane.target)
            if leader is None or lane.recovers or lane.stopped is not None or lane.source in self._adrift:
                continue
            if self._is_at_target(lane):
                by_leader.setdefault(leader, []).append(lane)
            else:
                self._adrift.add(lane.source)
        for leader, lanes in by_leader.items():
            while self._under_way.get(leader, 0) < _REQUESTS and (parts := _request(lanes)):
                self._under_way[leader] = self._under_way.get(leader, 0) + 1
                task = asyncio.create_task(self._produce(leader, parts))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _is_at_target(self, lane: Lane) -> bool:
        """False if the target's topic was made anew since the lane began."""
        found = self._target.plan.metadata.topic_id(lane.target.topic)
        return not any(found) or not lane.place.target_id or found.hex() == lane.place.target_id

    async def _produce(self, leader: Broker, parts: list[Part]) -> None:
        plan = self._target.plan
        batches = [(*lane.target, out.batch) for lane, out in parts]
        least, most = transfer.produce_versions(plan, [lane.target.topic for lane, _ in parts], None)
        ask: Ask[ProduceResponse] = Ask(
            leader.destination("produce"),
            ProduceRequest,
            ProduceResponse,
            transfer.produce_build(plan, batches, -1, self._timeout_ms),
            min_version=least,
            max_version=most,
            timeout_ms=self._timeout_ms + plan.settings.request_timeout_ms,
        )
        try:
            response = await self._target.driver.ask(ask)
        except ClientError as fault:
            for lane, out in parts:
                plan.metadata.doubt(lane.target.topic)
                self._failed(lane, out, fault)
            await asyncio.sleep(_AGAIN_S)
        else:
            if self._take_answers(parts, response):
                await asyncio.sleep(_AGAIN_S)
        finally:
            self._under_way[leader] -= 1
            self._wake.set()
            self._room.set()

    def _take_answers(self, parts: list[Part], response: ProduceResponse) -> bool:
        """Tell the lanes; True if one failed."""
        names = self._target.plan.metadata.names
        answers = {
            TopicPartition(topic.name or names.get(bytes(topic.topic_id), ""), part.index): part
            for topic in response.responses
            for part in topic.partition_responses
        }
        failed = False
        for lane, out in parts:
            part = answers.get(lane.target)
            if part is None:
                outcome: Produced | Exception = ClientError(f"the answer to a Produce left {lane.target} out")
            else:
                outcome = transfer.read_produced(self._target.plan, lane.target.topic, part, response)
            if isinstance(outcome, Produced):
                lane.landed(out, outcome.base_offset)
                self.ages_ms[lane.source] = int(time.time() * 1000) - out.timestamp_ms
            else:
                failed = True
                self._failed(lane, out, outcome)
        return failed

    def _failed(self, lane: Lane, out: MirrorBatch, fault: Exception) -> None:
        conflict = isinstance(fault, ApiError) and fault.code in _CONFLICTS
        behind = lane.is_failing
        lane.failed(out)
        if behind or lane.stopped is not None or lane.recovers:
            return
        if conflict:
            log.warning("%s: %s; does another mirror of the same clusters run? The target is read again", lane.target,
                        fault)  # fmt: skip
            lane.recover()
        elif not may_retry(fault):
            reason = fault.message if isinstance(fault, ApiError) else str(fault)
            too_large = isinstance(fault, ApiError) and fault.code is ErrorCode.MESSAGE_TOO_LARGE
            remedy = f". Raise max.message.bytes of {lane.target.topic} at the target, and start the mirror again"
            self.stop(lane.source, reason + remedy if too_large else reason)

    # Restarts.

    async def _recover(self, lanes: Collection[Lane]) -> None:
        """Read the mirror's own batches behind the place of each lane, and have the source read from the place."""
        ends = await self._target.list_offsets([lane.target for lane in lanes], LATEST) if lanes else {}
        for lane in lanes:
            found = await own_batches(self._target, lane, ends[lane.target].offset)
            if found:
                log.info("%s: %d batches of an earlier run stand behind the place kept last", lane.target, len(found))
            lane.recovered(found)
            if (reading := self._fetcher.readings.get(lane.source)) is not None:
                reading.seek(lane.position)
        if lanes:
            self._room.set()

    async def _find_leaders(self, cluster: Cluster, partitions: Collection[TopicPartition]) -> None:
        """Ask for metadata where a leader is not known, from time to time. Errors mean that it is asked again."""
        metadata = cluster.plan.metadata
        unknown = [each for each in partitions if not metadata.is_led(*each)]
        now_s = asyncio.get_running_loop().time()
        if unknown and now_s - self._looked_s[cluster] >= _LOOK_S:
            self._looked_s[cluster] = now_s
            await cluster.run(cluster.plan.leaders(unknown))


def _request(lanes: list[Lane]) -> list[Part]:
    """The parts of the next request to a leader: a batch of each lane that has one, up to a size."""
    parts: list[Part] = []
    size = 0
    for lane in lanes:
        if size >= REQUEST_BYTES:
            break
        out = lane.next_batch()
        if out is not None:
            parts.append((lane, out))
            size += len(out.batch)
    return parts


def _is_elsewhere(reading: PartitionReading, lane: Lane) -> bool:
    """True if the source's log was cut back, or its topic made anew."""
    first = reading.waiting[0].offset if reading.waiting else reading.fetch_offset
    other = any(reading.topic_id) and lane.place.source_id and reading.topic_id.hex() != lane.place.source_id
    return first < lane.position or bool(other)


async def own_batches(target: Cluster, lane: Lane, end: int) -> list[Landed]:
    """The batches in the target's log, from the lane's place to `end`, that this mirror has written."""
    found: list[Landed] = []
    position = lane.place.downstream
    while position < end:
        piece = await target.fetch(*lane.target, position, max_wait_ms=500)
        if piece.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            earliest = (await target.list_offsets([lane.target], EARLIEST))[lane.target].offset
            if earliest > position:
                position = earliest
                continue
        if piece.error:
            raise ApiError(piece.error, f"{lane.target} at offset {position} of the target: {piece.error.message}")
        for batch in iterate_batches(piece.records):
            is_own = batch.producer_id == lane.producer_id and not batch.is_control
            found += [landed(batch)] if is_own and batch.base_offset >= position else []
        position = piece.next_offset
    return found
