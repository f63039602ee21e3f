"""Consumer groups at the target: checkpoints in MirrorMaker 2's topic, and committed offsets where they are asked for.

An offset is translated by the exact map of its partition. It is never ahead of what the group has read, and behind it
only by what is not copied yet.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from ottla.client.admin.groups import list_groups
from ottla.client.aio.cluster import Cluster
from ottla.client.consume.offsets import commit_offsets, committed_offsets
from ottla.client.model import CommittedOffset
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.mirror.formats import Checkpoint
from ottla.mirror.lane import Lane
from ottla.mirror.options import FlowSettings
from ottla.mirror.putting import put

OWN_GROUPS = "ottla-mirror-"
"""Groups under which mirrors commit at their sources how far they are, so that tools show their lag."""
_WITHOUT_MEMBERS = ("Empty", "Dead")
Round = tuple[bool, float, Callable[[], Awaitable[None]]]
"""Work that is done again and again: whether, after how many seconds, and what."""
log = logging.getLogger("ottla.mirror")
Offsets = Mapping[TopicPartition, CommittedOffset]


def checkpoints(group: str, committed: Offsets, lanes: Mapping[TopicPartition, Lane]) -> list[Checkpoint]:
    """The offsets of a group translated; partitions that are not mirrored, or not up to there, are left out."""
    found: list[Checkpoint] = []
    for partition, offset in sorted(committed.items()):
        lane = lanes.get(partition)
        downstream = None if lane is None else lane.place.map.translate(offset.offset)
        if lane is not None and downstream is not None:
            found.append(Checkpoint(group, *lane.target, offset.offset, downstream, offset.metadata))
    return found


def advances(translated: Iterable[Checkpoint], present: Offsets) -> dict[TopicPartition, CommittedOffset]:
    """The offsets to commit at the target: those that bring the group forward, never back."""
    wanted: dict[TopicPartition, CommittedOffset] = {}
    for each in translated:
        partition = TopicPartition(each.topic, each.partition)
        before = present.get(partition)
        if before is None or before.offset < each.downstream:
            wanted[partition] = CommittedOffset(each.downstream, each.metadata)
    return wanted


class Groups:
    """Translates the groups of a source, again and again."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, lanes: Mapping[TopicPartition, Lane]
    ) -> None:
        self._flow, self._source, self._target, self._lanes = flow, source, target, lanes
        self._told: dict[bytes, bytes] = {}
        self._busy: set[str] = set()
        self.with_members = 0
        """Groups that were passed over at the last look, since they have members at the target."""

    def rounds(self) -> list[Round]:
        """Both works of groups, as the options want them."""
        options = self._flow.options
        return [
            (options["emit.checkpoints.enabled"], options["emit.checkpoints.interval.seconds"], self.emit),
            (options["sync.group.offsets.enabled"], options["sync.group.offsets.interval.seconds"], self.sync),
        ]

    async def emit(self) -> None:
        """Write the checkpoints that are new."""
        records = [
            (each.key(), each.value())
            for translated in (await self._translated()).values()
            for each in translated
            if self._told.get(each.key()) != each.value()
        ]
        topic = self._flow.policy.checkpoints_topic(self._flow.source.alias)
        await put(self._target, topic, 0, records)
        self._told.update(records)

    async def sync(self) -> None:
        """Commit translated offsets for groups that have no members at the target."""
        translated = await self._translated()
        states = {each.group_id: each.group_state for each in await self._target.run(list_groups(self._target.plan))}
        busy = {group for group in translated if states.get(group, "Dead") not in _WITHOUT_MEMBERS}
        for group in sorted(busy - self._busy):
            log.info("%s: group %s has members at the target; its offsets there are its own", self._flow.name, group)
        self._busy, self.with_members = busy, len(busy)
        for group in sorted(translated.keys() - busy):
            await self._commit(group, translated[group])

    async def _commit(self, group: str, translated: Collection[Checkpoint]) -> None:
        plan = self._target.plan
        wanted = [TopicPartition(each.topic, each.partition) for each in translated]
        present = await self._target.run(committed_offsets(plan, group, wanted))
        if not (forward := advances(translated, present)):
            return
        for partition, fault in (await self._target.run(commit_offsets(plan, group, forward))).items():
            if fault is not None and fault.code is not ErrorCode.UNKNOWN_MEMBER_ID:  # members came meanwhile
                log.warning("%s: group %s of %s is not in step: %s", self._flow.name, group, partition, fault.message)

    async def _translated(self) -> dict[str, list[Checkpoint]]:
        """The checkpoints of each group of the source that the flow mirrors."""
        found: dict[str, list[Checkpoint]] = {}
        for group in await self._source.run(list_groups(self._source.plan)):
            name = group.group_id
            if group.protocol_type not in ("", "consumer") or name.startswith(OWN_GROUPS):
                continue
            if not self._flow.groups.takes(name):
                continue
            try:
                committed = await self._source.committed_offsets(name)
            except ApiError as fault:
                log.warning("%s: offsets of group %s: %s", self._flow.name, name, fault.message)
                continue
            if translated := checkpoints(name, committed, self._lanes):
                found[name] = translated
        return found
