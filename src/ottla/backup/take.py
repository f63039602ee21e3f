"""Takes a backup: the cut, then what is new below it, then the manifest; then older backups go, if that was asked for.

A run that is killed has put no manifest. The backups before stand, since no file of theirs is ever changed; what the
run has written is removed by the next one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from ottla.backup.copying import CopiedPartition, FileWriter, copy_partition, holds_batch, scan_tail
from ottla.backup.cut import TransactionScan, torn
from ottla.backup.increment import PartitionNow, PartitionPlan, planned
from ottla.backup.manifest import GROUPS_TOPIC, LEFT_OUT, Backup, BackupRefused, PartitionCopy, TopicCopy, kept_and_gone
from ottla.backup.rights import TopicConfigs, rights_of, topic_configs
from ottla.backup.store_files import backup_ids, begin_run, publish, read_backup, remove_backups, sweep
from ottla.backup.together import side_by_side
from ottla.client.aio.admin import Admin
from ottla.client.aio.cluster import Cluster
from ottla.client.model import EARLIEST, LATEST, IsolationLevel, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.mirror.policy import NameFilter
from ottla.stores import Store

_DAY_MS: Final = 86_400_000
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(slots=True)
class BackupReport:
    """A finished backup, and what was done for it."""

    backup: Backup
    new_bytes: int = 0
    whole: dict[TopicPartition, str] = field(default_factory=dict)
    """Partitions that were copied as a whole though a backup before has them, with the reason."""
    removed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The ends of all partitions, and the transactions behind them."""

    earliest: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    tails: Mapping[TopicPartition, TransactionScan]


async def take_backup(
    cluster: Cluster, store: Store, topics: NameFilter, *, now_ms: int, keep: int | None, tell: Callable[[int], None]
) -> BackupReport:
    """Take one backup of the topics that the filter takes; of all backups keep the newest `keep`."""
    hold = await asyncio.to_thread(store.hold, f"ottla backup, process {os.getpid()} on {os.uname().nodename}")
    try:
        report = await _Taking(cluster, store, topics, now_ms, tell).run()
        await asyncio.to_thread(hold.check)
        await asyncio.to_thread(publish, store, report.backup)
        kept = await asyncio.to_thread(backup_ids, store)
        if keep is not None:
            kept, report.removed = kept_and_gone(kept, keep)
            await asyncio.to_thread(remove_backups, store, report.removed)
        await asyncio.to_thread(_sweep, store, kept)
        return report
    finally:
        await asyncio.to_thread(hold.release)


def _sweep(store: Store, kept: list[str]) -> None:
    sweep(store, [read_backup(store, each) for each in kept])


class _Taking:
    def __init__(
        self, cluster: Cluster, store: Store, topics: NameFilter, now_ms: int, tell: Callable[[int], None]
    ) -> None:
        self._cluster, self._store, self._admin = cluster, store, Admin(cluster=cluster)
        self._filter, self._now_ms, self._tell = topics, now_ms, tell
        moment = datetime.fromtimestamp(now_ms / 1000, UTC)
        self._id = f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03}Z"
        self._whole: dict[TopicPartition, str] = {}
        self._notes: list[str] = []

    async def run(self) -> BackupReport:
        cluster_id = (await self._admin.describe_cluster()).cluster_id
        before = await asyncio.to_thread(self._before, cluster_id)
        await asyncio.to_thread(begin_run, self._store, self._id)
        views = self._chosen(await self._cluster.topics())
        configs = await topic_configs(self._admin, list(views))
        rights, notes = await rights_of(self._admin)
        cut = await self._cut([TopicPartition(name, each) for name in views for each in views[name].partitions])
        copied = await self._copy_all(views, configs, cut, before)
        left_out, doubtful = torn(
            [(each.scan, cut.tails[place]) for place, each in copied.items()], before.torn if before else ()
        )
        if doubtful:
            self._notes.append(
                f"one transaction of each of {len(doubtful)} producers that write by the protocol before KIP-890 may "
                "be in the backup by half: its partitions ended while the backup began. Take another one"
            )
        lost = [sentence for each in copied.values() for sentence in each.lost]
        backup = Backup(
            self._id, self._now_ms, cluster_id, self._topics(views, configs, copied), left_out,
            notes=(*notes, *self._notes, *lost), **rights,
        )  # fmt: skip
        return BackupReport(backup, sum(each.new_bytes for each in copied.values()), self._whole)

    def _before(self, cluster_id: str) -> Backup | None:
        """The newest backup; refuses a place that holds those of another cluster."""
        ids = backup_ids(self._store)
        if not ids:
            return None
        before = read_backup(self._store, ids[-1])
        if before.cluster_id != cluster_id:
            raise BackupRefused(
                f"{self._store.url} holds backups of the cluster {before.cluster_id}, and this one is {cluster_id}: "
                "give every cluster a place of its own"
            )
        if before.id >= self._id:
            raise BackupRefused(
                f"{self._store.url} has a backup {before.id}, later than now ({self._id}): set the clock right"
            )
        return before

    def _chosen(self, views: Mapping[str, TopicView]) -> dict[str, TopicView]:
        chosen = {}
        for name, view in sorted(views.items()):
            if name in LEFT_OUT or not (name == GROUPS_TOPIC or self._filter.takes(name)):
                continue
            if view.error:
                raise ApiError(view.error, f"topic {name}: {view.error.message}")
            chosen[name] = view
        return chosen

    async def _cut(self, partitions: list[TopicPartition]) -> _Cut:
        """Ask for all ends, those of groups first: what a group has read is then in the backup. Then look behind."""
        committed = IsolationLevel.READ_COMMITTED
        groups = [each for each in partitions if each.topic == GROUPS_TOPIC]
        others = [each for each in partitions if each.topic != GROUPS_TOPIC]
        earliest = await self._offsets(partitions, EARLIEST)
        ends = await self._offsets(groups, LATEST, committed) | await self._offsets(others, LATEST, committed)
        behind = await self._offsets(partitions, LATEST)
        tails = await side_by_side(partitions, lambda each: scan_tail(self._cluster, each, ends[each], behind[each]))
        return _Cut(earliest, ends, tails)

    async def _offsets(
        self, partitions: Collection[TopicPartition], spec: int, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        found = await self._cluster.list_offsets(partitions, spec, level) if partitions else {}
        return {each: at.offset for each, at in found.items()}

    async def _copy_all(
        self, views: Mapping[str, TopicView], configs: Mapping[str, TopicConfigs], cut: _Cut, before: Backup | None
    ) -> dict[TopicPartition, CopiedPartition]:
        producers = frozenset(producer for tail in cut.tails.values() for producer, _ in tail.found)

        async def copy(partition: TopicPartition) -> CopiedPartition | None:
            view = views[partition.topic]
            try:
                return await self._copy(partition, view, configs[partition.topic], cut, before, producers)
            except ApiError as fault:
                if fault.code not in _GONE:
                    raise
                self._notes.append(f"topic {partition.topic} was deleted meanwhile: it is not in the backup")
                return None

        found = await side_by_side(cut.ends, copy)
        gone = {each.topic for each, copied in found.items() if copied is None}
        self._notes = sorted(set(self._notes))
        return {each: copied for each, copied in found.items() if copied is not None and each.topic not in gone}

    async def _copy(
        self, partition: TopicPartition, view: TopicView, configs: TopicConfigs, cut: _Cut,
        before: Backup | None, producers: Collection[int],
    ) -> CopiedPartition:  # fmt: skip
        earliest, end = cut.earliest[partition], max(cut.ends[partition], cut.earliest[partition])
        topic = before.topics.get(partition.topic) if before else None
        had = topic.partitions.get(partition.partition) if topic else None
        plan = PartitionPlan(earliest)
        if before is not None and topic is not None and had is not None:
            compacted = "compact" in configs.inherited.get("cleanup.policy", "")
            holds = compacted or had.last_batch is None or had.last_batch[0] < earliest or had.end > end
            if not holds and had.last_batch is not None:
                holds = await holds_batch(self._cluster, partition, *had.last_batch)
            gone_ms = int(configs.inherited.get("delete.retention.ms", _DAY_MS))
            plan = planned(
                had,
                PartitionNow(
                    earliest, end, is_same_topic=topic.id == view.topic_id.hex(), holds_last_batch=holds,
                    is_compacted=compacted, tombstones_gone=self._now_ms - before.taken_ms > gone_ms,
                ),
            )  # fmt: skip
            if plan.reason:
                self._whole[partition] = plan.reason
        writer = FileWriter(self._store, partition, self._id)
        return await copy_partition(
            self._cluster, writer, self._store, partition, plan, had, earliest=earliest, end=end, producers=producers,
            tell=self._tell,
        )  # fmt: skip

    def _topics(
        self,
        views: Mapping[str, TopicView],
        configs: Mapping[str, TopicConfigs],
        copied: Mapping[TopicPartition, CopiedPartition],
    ) -> dict[str, TopicCopy]:
        by_topic: dict[str, dict[int, PartitionCopy]] = {}
        for partition, each in copied.items():
            by_topic.setdefault(partition.topic, {})[partition.partition] = each.copy
        return {
            name: TopicCopy(
                views[name].topic_id.hex(),
                max(len(each.replicas) for each in views[name].partitions.values()),
                configs[name].own,
                partitions,
            )
            for name, partitions in by_topic.items()
        }
