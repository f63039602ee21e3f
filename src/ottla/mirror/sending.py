"""Sends lanes to the leaders of their targets, side by side. Where their pieces come from is the caller's.

Decides nothing about a partition: `lane.py` does. A Produce carries a batch of each partition that has one ready; some
are under way at a time to every leader, so that the target syncs while the next ones travel.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import Final

from ottla.client.aio.cluster import Cluster
from ottla.client.core import transfer
from ottla.client.core.effects import Ask
from ottla.client.errors import ClientError, may_retry
from ottla.client.model import EARLIEST, LATEST, Broker, Produced
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.produce import ProduceRequest, ProduceResponse
from ottla.mirror.batches import Landed, MirrorBatch, landed
from ottla.mirror.lane import Lane
from ottla.records.batch import iterate_batches

LOOK_S: Final = 0.25
"""The time between two looks for leaders that are not known."""
REQUEST_BYTES: Final = 4 * 1024 * 1024
_REQUESTS: Final = 5
"""Produce requests under way to one leader."""
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


class LaneSending:
    """Lanes on their way to one cluster, while `send` is under way."""

    def __init__(self, target: Cluster, *, produce_timeout_ms: int = 30_000) -> None:
        self.lanes: dict[TopicPartition, Lane] = {}
        """By partition of the source."""
        self.ages_ms: dict[TopicPartition, int] = {}
        """The age of the newest record of the batch that landed last."""
        self.wake, self.room = asyncio.Event(), asyncio.Event()
        """Set where a lane has something to send, and where one has room for more."""
        self._target = target
        self._timeout_ms = produce_timeout_ms
        self._under_way: dict[Broker, int] = {}
        self.adrift: set[TopicPartition] = set()
        """Partitions whose place is not at the source, or whose target is another topic."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        """The error of this code that ended a request: its lanes do not know what became of their batches."""
        self._looked_s: dict[Cluster, float] = {}

    def stop(self, partition: TopicPartition, reason: str) -> None:
        """Copy nothing more of a partition, and say why."""
        lane = self.lanes[partition]
        if lane.stopped is None:
            log.error("%s is not copied on: %s", partition, reason)
        lane.stop(reason)
        self.room.set()

    async def drain(self, timeout_s: float) -> None:
        """Wait, at most so long, for the answers of what is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    async def send(self) -> None:
        """Send what the lanes have, until cancelled. Raises what no answer of the target explains."""
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self.wake.wait()
            except TimeoutError:
                pass
            self.wake.clear()
            if self._fault is not None:
                raise self._fault
            await self.recover([lane for lane in self.lanes.values() if self._may_recover(lane)])
            await self.find_leaders(self._target, {lane.target: lane for lane in self.lanes.values()})
            self._send_ready()

    def _may_recover(self, lane: Lane) -> bool:
        return lane.recovers and lane.stopped is None and not lane.in_flight and self._is_free(lane)

    def _send_ready(self) -> None:
        by_leader: dict[Broker, list[Lane]] = {}
        for lane in self.lanes.values():
            leader = self._target.plan.metadata.leader(*lane.target)
            if leader is None or lane.recovers or lane.stopped is not None or lane.source in self.adrift:
                continue
            if self._is_at_target(lane):
                by_leader.setdefault(leader, []).append(lane)
            else:
                self.adrift.add(lane.source)
                self.room.set()
        for leader, lanes in by_leader.items():
            while self._under_way.get(leader, 0) < _REQUESTS and (parts := _request(lanes)):
                self._under_way[leader] = self._under_way.get(leader, 0) + 1
                task = asyncio.create_task(self._produce(leader, parts))
                self._tasks.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._fault = fault
            self.wake.set()

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
            self.wake.set()
            self.room.set()

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

    async def recover(self, lanes: Collection[Lane]) -> None:
        """Read what of each lane landed behind its place, and have it read on from there."""
        ends = await self._target.list_offsets([lane.target for lane in lanes], LATEST) if lanes else {}
        for lane in lanes:
            found = await own_batches(self._target, lane, ends[lane.target].offset)
            if found:
                log.info("%s: %d batches of an earlier run stand behind the place kept last", lane.target, len(found))
            lane.recovered(found)
            self._goes_on(lane)
        if lanes:
            self.room.set()

    def _is_free(self, lane: Lane) -> bool:
        """True if nobody else is at work on a lane."""
        return lane.source not in self.adrift

    def _goes_on(self, lane: Lane) -> None:
        """A lane's position was moved: what comes next is read from there."""

    async def find_leaders(self, cluster: Cluster, partitions: Collection[TopicPartition]) -> None:
        """Ask for metadata where a leader is not known, from time to time. Errors mean that it is asked again."""
        metadata = cluster.plan.metadata
        unknown = [each for each in partitions if not metadata.is_led(*each)]
        now_s = asyncio.get_running_loop().time()
        if unknown and now_s - self._looked_s.get(cluster, 0.0) >= LOOK_S:
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
