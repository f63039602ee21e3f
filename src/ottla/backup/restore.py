"""Restores a backup into an empty cluster: topics, records, offsets of groups, rights; the topics' own configurations
come last, so that neither retention nor compaction takes what is being restored.

Records are sent as a mirror sends them, under a producer id that only this restore has. So a restore that was killed
goes on: what stands in the cluster is compared, and nothing is written twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.backup.groups import GroupOffsets, take_commits, translated
from ottla.backup.manifest import GROUPS_TOPIC, LEFT_OUT, Backup, BackupRefused, PartitionCopy
from ottla.backup.pieces import PartitionFiles
from ottla.backup.rights import put_rights, require_acls, set_configs, topic_configs
from ottla.client.admin.admin import NewTopic, Resource, ResourceType
from ottla.client.aio.admin import Admin
from ottla.client.aio.cluster import Cluster
from ottla.client.model import LATEST, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.mirror.lane import Lane, LaneState, LaneStopped
from ottla.mirror.policy import NameFilter
from ottla.mirror.sending import LaneSending, own_batches
from ottla.mirror.starting import producer_id
from ottla.records.reader import read_records
from ottla.stores import Store

_AT_A_TIME: Final = 4
"""Partitions whose files are open."""
_LANE_BYTES: Final = 4 * 1024 * 1024
IN_TRANSIT: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "max.message.bytes": "104857600",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "9223372036854775807",
}
"""Configurations of a topic while it is restored: all that was stored once is taken, and stays."""


@dataclass(frozen=True, slots=True)
class WantedRestore:
    """The topics to restore, and how."""

    topics: NameFilter
    replication: int | None = None
    with_acls: bool = True


@dataclass(slots=True)
class RestoreReport:
    """The numbers of what was restored, and sentences about what was not."""

    topics: int = 0
    records: int = 0
    bytes: int = 0
    groups: int = 0
    went_on: bool = False
    """True if an earlier run had restored a part."""
    notes: list[str] = field(default_factory=list)


async def restore_backup(
    cluster: Cluster, store: Store, backup: Backup, wanted: WantedRestore, *, tell: Callable[[int], None]
) -> RestoreReport:
    """Restore into a cluster that is empty, or that an earlier run of this restore has begun to fill."""
    admin = Admin(cluster=cluster)
    restoring = _Restoring(cluster, admin, store, backup, wanted, tell)
    if wanted.with_acls:
        await require_acls(admin, backup)
    await restoring.make_topics()
    await restoring.send_records()
    await restoring.commit_groups()
    await restoring.finish_topics()
    await put_rights(admin, backup, with_acls=wanted.with_acls)
    return restoring.told()


class _Restoring:
    def __init__(
        self, cluster: Cluster, admin: Admin, store: Store, backup: Backup, wanted: WantedRestore,
        tell: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._cluster, self._admin, self._store, self._backup = cluster, admin, store, backup
        self._wanted, self._tell = wanted, tell
        self._topics = {name: topic for name, topic in backup.topics.items()
                        if name != GROUPS_TOPIC and wanted.topics.takes(name)}  # fmt: skip
        self._sending = LaneSending(cluster)
        self._producer_id = producer_id(backup.cluster_id, f"ottla-restore-{backup.id}")
        self._report = RestoreReport(topics=len(self._topics))

    async def make_topics(self) -> None:
        """Make the topics that are missing; refuse a cluster that has others."""
        present = {name: view for name, view in (await self._cluster.topics()).items()
                   if name != GROUPS_TOPIC and name not in LEFT_OUT}  # fmt: skip
        if strange := sorted(present.keys() - self._topics.keys()):
            raise BackupRefused(
                f"the cluster is not empty: it has {_listed(strange)}. Restore into a new cluster, or delete what is "
                "there"
            )
        for name, view in sorted(present.items()):
            self._require_partitions(name, view)
            await set_configs(self._admin, Resource(ResourceType.TOPIC, name), IN_TRANSIT)
        await self._require_brokers()
        missing = [
            NewTopic(name, len(topic.partitions), self._wanted.replication or topic.replication, IN_TRANSIT)
            for name, topic in self._topics.items()
            if name not in present
        ]
        made = await self._admin.create_topics(missing) if missing else {}
        for name, outcome in made.items():
            if isinstance(outcome, ApiError):
                raise BackupRefused(f"topic {name} cannot be made: {outcome.message}")

    def _require_partitions(self, name: str, view: TopicView) -> None:
        wanted = len(self._topics[name].partitions)
        if len(view.partitions) != wanted:
            raise BackupRefused(
                f"the cluster is not empty: its topic {name} has {len(view.partitions)} partitions, in the backup it "
                f"has {wanted}. Restore into a new cluster, or delete the topic"
            )

    async def _require_brokers(self) -> None:
        brokers = len(await self._cluster.brokers())
        most = self._wanted.replication or max((topic.replication for topic in self._topics.values()), default=1)
        if most > brokers:
            raise BackupRefused(
                f"topics of the backup have up to {most} replicas, and the cluster has {brokers} "
                f"broker{'s' if brokers > 1 else ''}: start more, or restore with --replication-factor {brokers}"
            )

    async def send_records(self) -> None:
        """Send all records; each partition ends where its lane has all of it in the cluster's log."""
        waiting = [
            (partition, copy) for partition, copy in self._backup.partitions() if partition.topic in self._topics
        ]
        lanes = await self._lanes(waiting)
        self._sending.lanes.update({lane.source: lane for lane in lanes.values()})
        sender = asyncio.ensure_future(self._sending.send())
        feeder = asyncio.ensure_future(self._feed({each: self._files(each, copy) for each, copy in waiting}))
        try:
            done, _ = await asyncio.wait((sender, feeder), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sender.cancel()
            feeder.cancel()
            await asyncio.wait((sender, feeder))
        done.pop().result()

    def _files(self, partition: TopicPartition, copy: PartitionCopy) -> PartitionFiles:
        return PartitionFiles(self._store, partition, copy, self._backup.torn)

    async def _lanes(self, wanted: list[tuple[TopicPartition, PartitionCopy]]) -> dict[TopicPartition, Lane]:
        """A lane for each partition, told what of it is in the cluster already."""
        ids = {name: (await self._cluster.topic_id(name)).hex() for name in self._topics}
        partitions = [partition for partition, _ in wanted]
        ends = await self._cluster.list_offsets(partitions, LATEST) if partitions else {}
        lanes = {}
        for partition, copy in wanted:
            place = LaneState(copy.start, 0, target_id=ids[partition.topic])
            lane = Lane(partition, partition, self._producer_id, place)
            end = ends[partition].offset
            found = await own_batches(self._cluster, lane, end) if end else []
            if sum(batch.count for batch in found) != end:
                raise BackupRefused(
                    f"the cluster is not empty: {partition} has records that this restore has not written. Restore "
                    "into a new cluster, or delete the topic"
                )
            self._report.went_on |= bool(found)
            lane.recovered(found)
            lanes[partition] = lane
        return lanes

    async def _feed(self, files: Mapping[TopicPartition, PartitionFiles]) -> None:
        """Give lanes pieces while they have room, those of some partitions at a time."""
        waiting, active = list(files.values()), list[PartitionFiles]()
        while waiting or active:
            self._sending.room.clear()
            while waiting and len(active) < _AT_A_TIME:
                active.append(waiting.pop(0))
            fed = [await self._feed_one(each) for each in active]
            for each in active:
                if self._is_done(each):
                    each.close()
            active = [each for each in active if not self._is_done(each)]
            if active and not any(fed):
                await self._sending.room.wait()

    async def _feed_one(self, files: PartitionFiles) -> bool:
        """Give a lane its next piece; False where it has no room, or has all."""
        lane = self._sending.lanes[files.partition]
        if files.partition in self._sending.adrift:
            raise BackupRefused(f"topic {files.partition.topic} was made anew meanwhile: restore again")
        if lane.stopped is not None:
            raise BackupRefused(f"{files.partition} cannot be restored: {lane.stopped}")
        if lane.recovers or lane.position >= files.copy.end or lane.queued_bytes >= _LANE_BYTES:
            return False
        position = lane.position
        piece = await asyncio.to_thread(files.piece, position)
        if lane.recovers or lane.position != position:
            return True
        try:
            lane.take(piece)
        except LaneStopped as fault:
            raise BackupRefused(str(fault)) from None
        self._tell(len(piece.records))
        self._sending.wake.set()
        return True

    def _is_done(self, files: PartitionFiles) -> bool:
        lane = self._sending.lanes[files.partition]
        return lane.is_idle and not lane.recovers and lane.position >= files.copy.end

    async def commit_groups(self) -> None:
        """Commit the offsets of groups, each at the very record."""
        groups = await asyncio.to_thread(self._group_offsets)
        maps = {partition: lane.place.map for partition, lane in self._sending.lanes.items()}
        wanted = translated(groups, maps)
        for group, offsets in wanted.items():
            try:
                await self._cluster.commit_offsets(group, offsets)
            except ApiError as fault:
                if fault.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                    raise
                raise BackupRefused(f"group {group} has members: stop its consumers, and restore again") from None
        self._report.groups = len(wanted)

    def _group_offsets(self) -> GroupOffsets:
        groups: GroupOffsets = {}
        for partition, copy in self._backup.partitions():
            if partition.topic == GROUPS_TOPIC:
                for batch in self._files(partition, copy).all_batches():
                    take_commits(read_records(batch), groups)
        return groups

    async def finish_topics(self) -> None:
        """Give topics the configurations that they had; those that the cluster does not know are told."""
        known = await topic_configs(self._admin, list(self._topics))
        for name, topic in self._topics.items():
            own = {each: value for each, value in topic.configs.items() if each in known[name].inherited}
            if strange := sorted(topic.configs.keys() - own.keys()):
                self._report.notes.append(f"topic {name}: the cluster does not know {_listed(strange)}, left out")
            delete = sorted(known[name].own.keys() - own.keys())
            await set_configs(self._admin, Resource(ResourceType.TOPIC, name), own, delete)

    def told(self) -> RestoreReport:
        """The report."""
        report, backup = self._report, self._backup
        for partition, lane in self._sending.lanes.items():
            report.records += lane.place.copied
            report.bytes += backup.topics[partition.topic].partitions[partition.partition].bytes
        if backup.torn:
            report.notes.append(
                f"{len(backup.torn)} transactions are left out whole: they were just being committed at the time"
            )
        if backup.users:
            names = _listed([f"{name} ({', '.join(sorted(each))})" for name, each in backup.users])
            report.notes.append(f"give these users passwords, `ottla user add` does it: {names}")
        return report


def _listed(names: list[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
