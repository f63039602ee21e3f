"""The part of a log to compact, and when: the plan. The work is `cleaning.py`, in a child process of its own.

`plan_compaction` looks at a log and decides; `install` puts the child's result in the place of the old segments, in
steps of which every prefix can be finished after a crash (`recovery.finish_swaps`).
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from ottla.config.topic import TopicConfig
from ottla.kernel.trusted_time import TimeFor
from ottla.storage.producers.aborted_note import put_note
from ottla.storage.recovery import complete_swap
from ottla.storage.segment.aborted import AbortedEntry
from ottla.storage.segment.names import CLEANED, LOG, SUFFIXES, SWAP
from ottla.storage.segment.segment import Segment

if TYPE_CHECKING:
    from ottla.storage.log import Log

MAX_KEYS = 2_000_000
"""Keys remembered in one pass; where there are more, the pass ends early and the next goes on."""


class SegmentFacts(NamedTuple):
    """The facts about a sealed segment that the plan needs."""

    base_offset: int
    next_offset: int
    size: int
    newest_ms: int
    """The segment's largest timestamp; without one, the time of its last write."""
    first_ms: int
    index_bytes: int


class LastOfProducer(NamedTuple):
    """A producer's last batch: it stays, emptied if need be, so that the producer's state follows from the log."""

    last_offset: int
    """-1 where only a marker is known."""
    epoch: int


class CompactionPlan(NamedTuple):
    """The work of the child."""

    directory: str
    groups: list[list[int]]
    """Bases of the segments that become one, each group in the place of its first."""
    ends: list[int]
    """The end of each group: the base offset of the segment behind it."""
    dirty_start: int
    dirty_end: int
    """Keys are gathered from these offsets; records behind are kept as they are."""
    now_ms: int
    """The time by which tombstones have an age: not later than is proven (rule B9)."""
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    last_of_producers: dict[int, LastOfProducer]
    must: bool
    """True if max.compaction.lag.ms has passed for the log's oldest uncompacted record."""
    dirty_ratio: float
    aborted_behind: list[AbortedEntry]
    """Transactions with records in these segments, and the marker that aborts them in a later one."""
    max_keys: int = MAX_KEYS
    wall_ms: int | None = None
    """The wall clock, from which delete.retention.ms of tombstones begins; None: as `now_ms`."""

    def encoded(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decoded(cls, body: bytes) -> CompactionPlan:
        fields = json.loads(body)
        fields["last_of_producers"] = {
            int(producer_id): LastOfProducer(*last) for producer_id, last in fields["last_of_producers"].items()
        }
        fields["aborted_behind"] = [AbortedEntry(*entry) for entry in fields["aborted_behind"]]
        return cls(**fields)


class CompactionResult(NamedTuple):
    """The child's result: `.cleaned` files, whole and synced, for the first `groups` groups."""

    groups: int
    cleaned_to: int
    """The next pass begins to gather keys here."""
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int

    def encoded(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decoded(cls, body: bytes) -> CompactionResult:
        return cls(**json.loads(body))


class CleanableRange(NamedTuple):
    """The dirty part of a log."""

    dirty_start: int
    dirty_end: int
    clean_bytes: int
    dirty_bytes: int
    must: bool
    """True if max.compaction.lag.ms has passed for its oldest uncompacted record."""

    @property
    def dirty_ratio(self) -> float:
        whole = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / whole if whole else 0.0


def cleanable_range(
    segments: list[SegmentFacts], config: TopicConfig, *, cleaned_to: int | None, limit_offset: int, now_ms: int
) -> CleanableRange:
    """The sealed segments below `limit_offset` that are old enough, and the offset from which on they are dirty."""
    start = segments[0].base_offset if segments else 0
    if cleaned_to is not None and segments and start <= cleaned_to <= segments[-1].next_offset:
        start = cleaned_to
    clean = dirty = 0
    end = start
    must = False
    for segment in segments:
        if segment.next_offset > limit_offset:
            break
        if config.min_compaction_lag_ms > 0 and segment.newest_ms > now_ms - config.min_compaction_lag_ms:
            break
        if segment.next_offset <= start:
            clean += segment.size
            continue
        dirty += segment.size
        end = segment.next_offset
        must = must or (0 <= segment.first_ms < now_ms - config.max_compaction_lag_ms)
    return CleanableRange(start, max(start, end), clean, dirty, must and dirty > 0)


def group_segments(segments: list[SegmentFacts], *, segment_bytes: int, index_bytes: int) -> list[list[SegmentFacts]]:
    """Groups of neighbours that fit into one segment, so that compaction does not leave ever smaller ones."""
    groups: list[list[SegmentFacts]] = []
    size = indexed = 0
    for segment in segments:
        size, indexed = size + segment.size, indexed + segment.index_bytes
        far = groups and segment.next_offset - groups[-1][0].base_offset > 2**31 - 1
        if not groups or size > segment_bytes or indexed > index_bytes or far:
            groups.append([])
            size, indexed = segment.size, segment.index_bytes
        groups[-1].append(segment)
    return groups


def plan_compaction(
    log: Log, *, cleaned_to: int | None, now_ms: int, time_for: TimeFor | None = None
) -> CompactionPlan | None:
    """The plan for now; None where nothing is to be compacted. The caller runs one plan of a log at a time.

    `now_ms`: the wall clock. `time_for`: the trusted time, where it may be another.
    """
    config = log.config
    if not config.compacted or log.refusing or log.damaged_at is not None or log.damage:
        return None
    sealed = [_facts(segment) for segment in log.segments[:-1]]
    limit = min(log.last_stable_offset, log.recovery_point)
    aged = time_for or (lambda retention_ms: now_ms)
    lagged_ms = aged(config.min_compaction_lag_ms)
    found = cleanable_range(sealed, config, cleaned_to=cleaned_to, limit_offset=limit, now_ms=lagged_ms)
    if not found.dirty_bytes or not (found.must or found.dirty_ratio > config.min_cleanable_dirty_ratio):
        return None
    inside = [segment for segment in sealed if segment.next_offset <= found.dirty_end]
    groups = group_segments(inside, segment_bytes=log.segment_bytes, index_bytes=config.segment_index_bytes)
    return CompactionPlan(
        directory=log.directory,
        groups=[[segment.base_offset for segment in group] for group in groups],
        ends=[group[-1].next_offset for group in groups],
        dirty_start=found.dirty_start,
        dirty_end=found.dirty_end,
        now_ms=aged(config.delete_retention_ms),
        wall_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=log.segment_bytes,
        index_interval_bytes=config.index_interval_bytes,
        last_of_producers=last_of_producers(log),
        must=found.must,
        dirty_ratio=found.dirty_ratio,
        aborted_behind=_aborted_behind(log.segments[len(inside) :], found.dirty_end),
    )


def last_of_producers(log: Log) -> dict[int, LastOfProducer]:
    """The last batches of all producers that the log knows."""
    return {
        producer_id: LastOfProducer(state.marks[-1].last_offset if state.marks else -1, state.epoch)
        for producer_id, state in log.producers.items()
    }


def _aborted_behind(segments: list[Segment], end: int) -> list[AbortedEntry]:
    """The aborted transactions below `end`. All are known: `end` is stable, and each marker is committed."""
    return [entry for segment in segments for entry in segment.aborted.entries if entry.first_offset < end]


def _facts(segment: Segment) -> SegmentFacts:
    newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()
    return SegmentFacts(
        segment.base_offset,
        segment.next_offset,
        segment.size,
        newest,
        segment.read_first_timestamp(),
        segment.index.count * 8,
    )


def install(log: Log, plan: CompactionPlan, result: CompactionResult) -> bool:
    """Swap the cleaned segments in; False, with nothing done, if the log changed meanwhile (truncated, expired).

    The same if damage was found meanwhile, as that is noted by its place in the old files. Readers that hold slices of
    the old files go on with them.
    """
    wanted = [base for group in plan.groups[: result.groups] for base in group]
    sealed = [segment.base_offset for segment in log.segments[:-1]]
    unchanged = log.bases[: len(wanted)] == wanted == sealed[: len(wanted)]
    if not unchanged or log.refusing or log.damage or log.bases[len(wanted)] != plan.ends[result.groups - 1]:
        discard(log, plan)
        return False
    try:
        for group, end in zip(plan.groups[: result.groups], plan.ends, strict=False):
            swap_in(log, group, end, CLEANED)
    except OSError:
        log.stop_writing()
        raise
    return True


def swap_in(log: Log, group: list[int], end: int, temporary: str) -> None:
    """Replace a group of sealed segments, which ends at `end`, by the synced files of this last suffix."""
    base = group[0]
    new = Segment(log.disk, log.directory, base, created_ms=log.active.created_ms, last_suffix=temporary)
    for suffix in SUFFIXES[1:]:
        if log.disk.exists(new.path(suffix)):
            log.disk.rename(new.path(suffix), new.path(suffix).removesuffix(temporary) + SWAP)
    log.disk.sync_directory(log.directory)
    log.disk.rename(new.path(LOG), new.path(LOG).removesuffix(temporary) + SWAP)
    log.disk.sync_directory(log.directory)  # from here on a crash goes forward
    complete_swap(log.disk, log.directory, base)
    swapped = log.chain.made(base, log.active.created_ms)
    swapped.open_sealed(end)
    for segment in log.chain.replace(log.bases.index(base), len(group), swapped):
        segment.close()
    put_note(log.chain.folder, log.segments[:-1], log.active.base_offset)


def discard(log: Log, plan: CompactionPlan) -> None:
    """Remove the files that a child left."""
    for name in log.disk.list(plan.directory):
        if name.endswith(CLEANED):
            log.disk.remove(posixpath.join(plan.directory, name))
