"""One flow, from a source to a target: topics, copies, groups and heartbeats as the work of a job.

It ends by an error, and is begun again after those that may pass. A partition that cannot be mirrored on stops alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ottla.client.aio.admin import Admin
from ottla.client.aio.cluster import Cluster
from ottla.client.consume.offsets import commit_offsets
from ottla.client.errors import ClientError
from ottla.client.model import EARLIEST, LATEST, CommittedOffset, TopicView
from ottla.jobs.running_async import AsyncJobRun
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.mirror.acls import MirroredAcls
from ottla.mirror.connect_offsets import ConnectOffsets
from ottla.mirror.copying import LaneCopying
from ottla.mirror.formats import Heartbeat, OffsetSync
from ottla.mirror.groups import OWN_GROUPS, Groups, Round
from ottla.mirror.lane import Lane, LaneState, LaneStopped
from ottla.mirror.measures import Measures
from ottla.mirror.notes import MirrorNotes
from ottla.mirror.offset_map import SyncRule
from ottla.mirror.options import FlowSettings
from ottla.mirror.policy import HEARTBEATS
from ottla.mirror.putting import put
from ottla.mirror.starting import Present, producer_id, settled
from ottla.mirror.topics import MirroredTopics, factor_of, make_internal

_TICK_S: Final = 1.0
"""The time between two notes of how far the copies are."""
_DRAIN_S: Final = 3.0
log = logging.getLogger("ottla.mirror")


class Flow:
    """The work of one flow. `run` is one attempt."""

    def __init__(
        self, settings: FlowSettings, measures: Measures, one_by_one: asyncio.Lock, *, with_groups: bool = True
    ) -> None:
        """`one_by_one` is held while topics are chosen: two flows that face each other look one after the other.

        `with_groups`: whether this process translates the groups, too.
        """
        self.settings, self.measures = settings, measures
        self.with_groups = with_groups
        self._one_by_one = one_by_one

    async def run(self, run: AsyncJobRun) -> None:
        """Mirror until `run.ending` is set; raises what another attempt may cure or not."""
        settings = self.settings
        async with (
            Cluster(settings.source.bootstrap, settings=settings.source.client) as source,
            Cluster(settings.target.bootstrap, settings=settings.target.client) as target,
        ):
            attempt = _Attempt(self, source, target)
            await attempt.begin()
            run.began()
            ending = asyncio.ensure_future(run.ending.wait())
            work = asyncio.ensure_future(attempt.work())
            try:
                await asyncio.wait((ending, work), return_when=asyncio.FIRST_COMPLETED)
            finally:
                ending.cancel()
                work.cancel()
                await asyncio.wait((work,))
                await attempt.end()
            if not work.cancelled() and (fault := work.exception()) is not None:
                raise fault

    async def choose(self, topics: MirroredTopics) -> dict[str, tuple[TopicView, TopicView]]:
        """The topics to mirror, made at the target where they are missing."""
        async with self._one_by_one:
            return await topics.refresh()


class _Attempt:
    def __init__(self, flow: Flow, source: Cluster, target: Cluster) -> None:
        self.flow, self.settings = flow, flow.settings
        self.source, self.target = source, target
        policy, self.options = self.settings.policy, self.settings.options
        self.notes = MirrorNotes(target, policy.map_topic(self.settings.source.alias))
        self.topics = MirroredTopics(self.settings, source, target, self.notes)
        self.acls = MirroredAcls(self.settings, source, target)
        self.copying = LaneCopying(source, target, on_lost=self._lost, fetch=self.settings.fetch)
        self.groups = Groups(self.settings, source, target, self.copying.lanes)
        self.connect_offsets = ConnectOffsets(self.settings, target)
        self.taken_over: dict[TopicPartition, int] = {}
        """The last offsets that MirrorMaker 2 has copied."""
        self.mirrored: dict[str, tuple[TopicView, TopicView]] = {}
        self._rules: dict[TopicPartition, SyncRule] = {}
        self._kept: dict[TopicPartition, tuple[int, int, int]] = {}
        self._tells_lag = True
        at_target = self.options["offset-syncs.topic.location"] == "target"
        self._syncs = target if at_target else source
        self._syncs_topic = policy.offset_syncs_topic(
            self.settings.source.alias if at_target else self.settings.target.alias
        )

    async def begin(self) -> None:
        """Meet both clusters, make the mirror's own topics, and begin all partitions."""
        await self.topics.meet()
        await self.notes.open()
        self.taken_over = await self.connect_offsets.read()
        options, topics = self.options, self.topics
        if options["emit.offset-syncs.enabled"]:
            factor = await factor_of(self.settings, self._syncs, "offset-syncs.topic.replication.factor")
            await make_internal(self._syncs, self._syncs_topic, factor)
        if self.flow.with_groups:
            await topics.ensure_checkpoints()
        await self.refresh()
        if options["sync.topic.acls.enabled"] and options["sync.topic.acls.interval.seconds"] >= 0:
            await self.acls.sync()
        self.flow.measures.began(self.settings, self.copying, self.groups)

    async def work(self) -> None:
        """Everything side by side, until cancelled or the first error."""
        options = self.options
        groups = self.groups
        rounds: list[Round] = [
            (True, _TICK_S, self.tick),
            (options["refresh.topics.enabled"], options["refresh.topics.interval.seconds"], self.refresh),
            (options["sync.topic.configs.enabled"], options["sync.topic.configs.interval.seconds"], self.sync_configs),
            (options["sync.topic.acls.enabled"], options["sync.topic.acls.interval.seconds"], self.acls.sync),
            *(groups.rounds() if self.flow.with_groups else ()),
        ]
        try:
            async with asyncio.TaskGroup() as together:
                together.create_task(self.copying.run())
                for enabled, seconds, do in rounds:
                    if enabled and seconds >= 0:
                        together.create_task(_again_and_again(do, max(seconds, _TICK_S)))
        except ExceptionGroup as faults:
            raise _first(faults) from None

    async def end(self) -> None:
        """Note what landed, where the clusters still answer."""
        await self.copying.drain(_DRAIN_S)
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self.tick()
        except (ApiError, ClientError, OSError) as fault:  # the next run finds what landed in the target's log
            log.info("%s: the last places were not kept: %s", self.settings.name, fault)

    async def refresh(self) -> None:
        """Mirror topics and partitions that are new; stop those that a loop was found for."""
        self.mirrored = await self.flow.choose(self.topics)
        new: list[tuple[TopicPartition, TopicPartition]] = []
        for name, (there, here) in self.mirrored.items():
            for index in there.partitions:
                partition = TopicPartition(name, index)
                if partition not in self.copying.lanes and index in here.partitions:
                    new.append((partition, TopicPartition(here.name, index)))
        for partition, lane in self.copying.lanes.items():
            if partition.topic not in self.mirrored and lane.stopped is None:
                self.copying.stop(partition, "it is at the source no more, or may not be mirrored: see above")
        if new:
            await self._begin_lanes(new)

    async def sync_configs(self) -> None:
        """Keep configurations in step."""
        await self.topics.sync_configs(self.mirrored)

    async def tick(self) -> None:
        """Keep places, and tell of offsets and of lag."""
        changed: dict[TopicPartition, LaneState] = {}
        for partition, lane in self.copying.lanes.items():
            lane.place.map.forget_below(self.copying.log_start(partition))
            state = (lane.place.upstream, lane.place.downstream, lane.place.copied)
            if self._kept.get(partition) != state:
                changed[partition] = lane.place
                self._kept[partition] = state
        syncs = self._due_syncs()
        if changed:
            await self.notes.keep(changed)
            await self.connect_offsets.keep({each: place.upstream for each, place in changed.items()})
        if syncs:
            await put(self._syncs, self._syncs_topic, 0, [(each.key(), each.value()) for each in syncs])
        if changed and self._tells_lag:
            await self._tell_lag(changed)

    def _due_syncs(self) -> list[OffsetSync]:
        """The newest pair of each partition that MirrorMaker 2 would tell of."""
        syncs: list[OffsetSync] = []
        for partition, lane in self.copying.lanes.items():
            rule = self._rules.setdefault(partition, SyncRule(self.options["offset.lag.max"]))
            pairs: list[tuple[int, int]] = []
            for copied in lane.take_copied():
                self.flow.measures.copied(self.settings, lane.target, copied)
                for run, downstream in copied.runs:
                    pairs += rule.copied(run.upstream, downstream, run.count)
            if pairs and self.options["emit.offset-syncs.enabled"]:
                syncs.append(OffsetSync(*partition, *pairs[-1]))
        return syncs

    async def _tell_lag(self, changed: dict[TopicPartition, LaneState]) -> None:
        """Commit at the source how far the mirror is, under a group of its own: every tool shows its lag."""
        group = f"{OWN_GROUPS}{self.settings.source.alias}-{self.settings.target.alias}"
        offsets = {partition: CommittedOffset(place.upstream) for partition, place in changed.items()}
        try:
            outcome = await self.source.run(commit_offsets(self.source.plan, group, offsets))
            fault = next((each for each in outcome.values() if each is not None), None)
        except ApiError as refusal:
            fault = refusal
        if fault is not None:
            self._tells_lag = False
            log.warning("%s: group %s is not kept at the source: %s", self.settings.name, group, fault.message)

    async def _begin_lanes(self, new: list[tuple[TopicPartition, TopicPartition]]) -> None:
        """Find where each begins, keep that, and copy."""
        own_id = producer_id(self.topics.source_cluster, self.settings.source.alias)
        never = [pair for pair in new if self.notes.place(pair[0]) is None]
        places = await self._first_places(never, own_id) if never else {}
        await self.notes.keep(places)
        lanes = []
        for source, target in new:
            place = places.get(source) or self.notes.place(source)
            assert place is not None
            lanes.append(Lane(source, target, own_id, place))
        sources = [lane.source for lane in lanes]
        earliest = await self.source.list_offsets(sources, EARLIEST)
        latest = await self.source.list_offsets(sources, LATEST)
        for lane in lanes:
            found = self._present(lane, earliest[lane.source].offset, latest[lane.source].offset)
            self._settle(lane, found)
        await self.copying.begin(lanes)
        for lane in lanes:
            if lane.stopped is not None:
                self.copying.stop(lane.source, lane.stopped)

    async def _first_places(
        self, pairs: list[tuple[TopicPartition, TopicPartition]], own_id: int
    ) -> dict[TopicPartition, LaneState]:
        """The places of partitions without a note: behind what MirrorMaker 2 copied, else as `start` says.

        The target's log is searched from its start where it knows the mirror's producer id, though nothing was noted.
        """
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        begin = await self.source.list_offsets(sources, EARLIEST if self.settings.start == "earliest" else LATEST)
        first = await self.target.list_offsets(targets, EARLIEST)
        end = await self.target.list_offsets(targets, LATEST)
        known = await Admin(cluster=self.target).describe_producers(targets)
        places: dict[TopicPartition, LaneState] = {}
        for source, target in pairs:
            producers = known.get(target)
            has_written = isinstance(producers, Iterable) and any(each.producer_id == own_id for each in producers)
            upstream = begin[source].offset
            if not has_written and source in self.taken_over:
                upstream = self.taken_over[source] + 1
                log.info(
                    "%s: %s goes on at offset %d, where MirrorMaker 2 stopped", self.settings.name, source, upstream
                )
            downstream = first[target].offset if has_written else end[target].offset
            there, here = self.mirrored[source.topic]
            places[source] = LaneState(upstream, downstream, 0, _id(there), _id(here))
        return places

    async def _lost(self, lane: Lane, cut_to: int | None) -> None:
        """The source, or the target's topic, is not what it was: go on elsewhere, or stop, as the options say."""
        for cluster, partition in ((self.source, lane.source), (self.target, lane.target)):
            await cluster.refresh([partition.topic])
        there = self.source.plan.metadata.topics.get(lane.source.topic)
        here = self.target.plan.metadata.topics.get(lane.target.topic)
        if there is None or there.error or here is None or here.error:
            return  # deleted, or without a leader for now: what comes back is looked at again
        self.mirrored[lane.source.topic] = there, here
        earliest = (await self.source.list_offsets([lane.source], EARLIEST))[lane.source].offset
        latest = (await self.source.list_offsets([lane.source], LATEST))[lane.source].offset
        self._settle(lane, self._present(lane, earliest, latest, cut_to))
        if lane.stopped is not None:
            reason, lane.stopped = lane.stopped, None
            self.copying.stop(lane.source, reason)

    def _present(self, lane: Lane, earliest: int, latest: int, cut_to: int | None = None) -> Present:
        there, here = self.mirrored[lane.source.topic]
        return Present(lane.source, lane.target, _id(there), _id(here), earliest, latest, cut_to)

    def _settle(self, lane: Lane, present: Present) -> None:
        try:
            place, moved = settled(
                lane.place, present, on_gap=self.options["on.gap"], on_reset=self.options["on.reset"]
            )
        except LaneStopped as fault:
            lane.stop(str(fault))
            return
        if moved:
            log.warning("%s: %s", self.settings.name, moved)
        if place.map is not lane.place.map:
            self.notes.map_was_replaced(lane.source)
        lane.place = place


class Heartbeats:
    """Writes the heartbeats of one pair of clusters."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings

    async def run(self, run: AsyncJobRun) -> None:
        """Beat until `run.ending` is set."""
        settings = self._settings
        async with Cluster(settings.target.bootstrap, settings=settings.target.client) as target:
            factor = await factor_of(settings, target, "heartbeats.topic.replication.factor")
            await make_internal(target, HEARTBEATS, factor)
            run.began()
            while not run.ending.is_set():
                beat = Heartbeat(settings.source.alias, settings.target.alias, int(time.time() * 1000))
                await put(target, HEARTBEATS, 0, [(beat.key(), beat.value())])
                try:
                    async with asyncio.timeout(max(settings.options["emit.heartbeats.interval.seconds"], _TICK_S)):
                        await run.ending.wait()
                except TimeoutError:
                    continue


async def _again_and_again(do: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await do()


def _first(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    first = faults.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _id(view: TopicView) -> str:
    return view.topic_id.hex() if view.has_id else ""
