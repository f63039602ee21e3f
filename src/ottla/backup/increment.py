"""Decides what of a partition a backup copies, given the backup before. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.backup.manifest import BackupFile, PartitionCopy

SMALL_BYTES: Final = 8 * 1024 * 1024
"""A last file below this size is written anew with what follows it, so that small files do not add up."""
_GROWTH: Final = 2
_LEAST_GROWN: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartitionNow:
    """A partition as the cluster has it."""

    earliest: int
    end: int
    """The last stable offset."""
    is_same_topic: bool
    """True if the topic has the id that it had at the backup before."""
    holds_last_batch: bool
    """True unless the last batch that was copied is another one now."""
    is_compacted: bool
    tombstones_gone: bool
    """True if tombstones written since the backup before may have been removed already."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Copy from `start`, behind the files that are kept."""

    start: int
    kept: tuple[BackupFile, ...] = ()
    joined: BackupFile | None = None
    """A small file, the last one, whose content goes before what is copied."""
    reason: str = ""
    """The reason to copy the whole partition again; empty where it is not."""

    @property
    def is_whole(self) -> bool:
        return not self.kept and self.joined is None


def planned(before: PartitionCopy | None, now: PartitionNow) -> PartitionPlan:
    """Copy what is new; copy all where the copy before is not the beginning of what is there."""
    if before is None:
        return PartitionPlan(now.earliest)
    if reason := _why_whole(before, now):
        return PartitionPlan(now.earliest, reason=reason)
    kept = tuple(file for file in before.files if file.end > now.earliest)
    start = max(before.end, now.earliest)
    if now.end > start and kept and kept[-1].bytes < SMALL_BYTES:
        return PartitionPlan(start, kept[:-1], kept[-1])
    return PartitionPlan(start, kept)


def _why_whole(before: PartitionCopy, now: PartitionNow) -> str:
    if not now.is_same_topic:
        return "the topic was made anew"
    if now.end < before.end:
        return f"the log was cut back from offset {before.end} to {now.end}"
    if not now.holds_last_batch:
        return "other records stand where the last ones were copied from"
    if now.is_compacted and now.tombstones_gone:
        return "the backup before is older than delete.retention.ms, so deletions may be missed"
    if now.is_compacted and before.bytes > max(_LEAST_GROWN, _GROWTH * before.whole_bytes):
        return "compaction has made the topic smaller than its copies"
    return ""
