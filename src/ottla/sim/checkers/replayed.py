"""Compares each coordinator's state with its log, when a world has ended.

The broker's own code replays the log into a new shard, as another broker would: once the log as it is, and once what
the broker's own compaction leaves of it. Both must hold what the live shard holds, except what is in no log: sessions
and other deadlines, requests that wait, member ids that were given out and not used, partitions that have confirmed
their marker, and the members of a classic group in the middle of a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.replay import ReplayTarget, replay_batch
from ottla.broker.coordinators.shard_runner import RunnerPhase, ShardRunner
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.groups.shard import GroupShard
from ottla.records.batch import Batch, iterate_batches
from ottla.sim.checkers.coordinator_facts import Facts, ahead_of_log, group_facts, transaction_facts
from ottla.sim.checkers.group_log import WatchedGroups
from ottla.sim.checkers.history import Anomaly
from ottla.sim.peek import batches
from ottla.storage.disk.memory import MemoryDisk
from ottla.storage.maintenance import cleaning
from ottla.storage.maintenance.compaction import CompactionPlan, LastOfProducer, last_of_producers
from ottla.storage.segment.aborted import AbortedEntry
from ottla.storage.segment.names import ABORTED_INDEX, CLEANED, LOG
from ottla.storage.segment.segment import Segment
from ottla.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from ottla.sim.disk import SimDisk
    from ottla.sim.machine import Machine
    from ottla.storage.log import Log

_DIRECTORY = "/log"
_MOST_NAMED = 5
_MOST_ABORTS = 3


class CoordinatorLog(NamedTuple):
    """The log of one shard, with all that compaction reads."""

    batches: list[bytes]
    stable: int
    """The last stable offset: compaction leaves all records from here on as they are."""
    aborted: list[AbortedEntry]
    last_of_producers: dict[int, LastOfProducer]
    delete_retention_ms: int


def check_coordinators(machines: Iterable[Machine]) -> Iterator[Anomaly]:
    """Judge every shard that serves."""
    for machine in machines:
        if machine.serving is None:
            continue
        node = machine.serving.node
        for partition in node.replicas.all():
            runner: ShardRunner[GroupShard] | ShardRunner[TransactionShard] | None = None
            if partition.topic == OFFSETS_TOPIC:
                runner = node.groups.runner_at(partition.index)
            elif partition.topic == TRANSACTION_TOPIC:
                runner = node.transactions.runner_at(partition.index)
            if runner is not None and runner.phase is RunnerPhase.SERVING:
                for kind, what in check_shard(runner.shard, log_of(machine.disk, partition.log)):
                    yield Anomaly(kind, f"{machine.host}, {partition.topic}-{partition.index}: {what}")


def log_of(disk: SimDisk, log: Log) -> CoordinatorLog:
    """The log as the processes of a machine see it."""
    return CoordinatorLog(
        [body for _, _, body in batches(disk, log.directory, log.log_start_offset, durable=False)],
        log.last_stable_offset,
        [entry for segment in log.segments for entry in segment.aborted.entries],
        last_of_producers(log),
        log.config.delete_retention_ms,
    )


def check_shard(live: GroupShard | TransactionShard, log: CoordinatorLog) -> Iterator[Anomaly]:
    """Compare a live shard with its log, and the log with what compaction leaves of it.

    An aborted record may hide the last value of its key until another record follows. So the log is also compacted as
    it was right after each of its last aborts.
    """
    if not all(Batch(body).crc_holds() for body in log.batches):
        yield Anomaly("replay-differs", "a batch in the log is damaged")
        return
    if isinstance(live, GroupShard):
        replayed = WatchedGroups(live)
        _replay(replayed, log.batches)
        yield from replayed.ended()
        ahead = ahead_of_log(live, replayed)
        yield from _differences("replay-differs", group_facts(live, ahead), group_facts(replayed, ahead))
        facts = group_facts(replayed)
    else:
        facts = _replayed_facts(live, log.batches)
        yield from _differences("replay-differs", transaction_facts(live), facts)
    yield from _check_compaction(live, log, facts)
    for abort in log.aborted[-_MOST_ABORTS:]:
        earlier = _up_to(log, abort)
        for kind, what in _check_compaction(live, earlier, _replayed_facts(live, earlier.batches)):
            yield Anomaly(kind, f"up to offset {abort.last_offset}, {what}")


def _up_to(log: CoordinatorLog, abort: AbortedEntry) -> CoordinatorLog:
    """The log as it was when the marker of this transaction was its last record."""
    return log._replace(
        batches=[body for body in log.batches if Batch(body).base_offset <= abort.last_offset],
        stable=abort.last_stable_offset,
        aborted=[entry for entry in log.aborted if entry.last_offset <= abort.last_offset],
    )


def _check_compaction(live: GroupShard | TransactionShard, log: CoordinatorLog, facts: Facts) -> Iterator[Anomaly]:
    try:
        for some in _compacted(log):
            yield from _differences("compacted-differs", facts, _replayed_facts(live, some))
    except cleaning.Damaged as fault:
        yield Anomaly("compacted-differs", str(fault))


def _replayed_facts(live: GroupShard | TransactionShard, bodies: Iterable[bytes]) -> Facts:
    """Facts of a shard of the same kind that is read from these batches."""
    if isinstance(live, GroupShard):
        groups = GroupShard(live.settings, lambda: "", topics=live.consumers.topics)
        _replay(groups, bodies)
        return group_facts(groups)
    transactions = TransactionShard(live.settings, lambda: None)
    _replay(transactions, bodies)
    return transaction_facts(transactions)


def _replay(shard: ReplayTarget, bodies: Iterable[bytes]) -> None:
    for body in bodies:
        for _ in replay_batch(shard, Batch(body), "a log"):
            pass


def _differences(kind: str, one: Facts, other: Facts) -> Iterator[Anomaly]:
    """One anomaly for each group or transactional id that differs, with the first few of its fields."""
    for name in sorted(one.keys() | other.keys()):
        differing = _differing(one.get(name, {}), other.get(name, {}))
        if differing:
            yield Anomaly(kind, f"{name}: {'; '.join(differing[:_MOST_NAMED])}")


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    fields = sorted(one.keys() | other.keys())
    return [f"{each}: {one.get(each)} and {other.get(each)}" for each in fields if one.get(each) != other.get(each)]


# Compaction


def _compacted(log: CoordinatorLog) -> Iterator[list[bytes]]:
    """The batches after a compaction up to the last stable offset, and after another when all horizons have passed.

    The segment that is still written is compacted as well, which a broker does only once the next one has begun.
    """
    below = [body for body in log.batches if Batch(body).next_offset <= log.stable]
    behind = log.batches[len(below) :]
    if not below:
        return
    base, end = Batch(below[0]).base_offset, Batch(below[-1]).next_offset
    disk = MemoryDisk()
    disk.make_directory(_DIRECTORY)
    segment = Segment(disk, _DIRECTORY, base, created_ms=0)
    segment.create_file().write_at(0, below)
    segment.aborted.begin_empty()
    for entry in log.aborted:
        if entry.last_offset < end:
            segment.aborted.add(entry)
    segment.aborted.write_out()
    for now_ms in (0, log.delete_retention_ms + 1):
        cleaning.run(disk, _plan(log, base, end, now_ms))
        for suffix in (LOG, ABORTED_INDEX):
            disk.remove(segment.path(suffix))
            if disk.exists(segment.path(suffix) + CLEANED):
                disk.rename(segment.path(suffix) + CLEANED, segment.path(suffix))
        yield [*(bytes(batch.view) for batch in iterate_batches(disk.read(segment.path(LOG)))), *behind]


def _plan(log: CoordinatorLog, base: int, end: int, now_ms: int) -> CompactionPlan:
    """All in one group, and all of it dirty."""
    return CompactionPlan(
        directory=_DIRECTORY,
        groups=[[base]],
        ends=[end],
        dirty_start=base,
        dirty_end=end,
        now_ms=now_ms,
        delete_retention_ms=log.delete_retention_ms,
        segment_bytes=1 << 30,
        index_interval_bytes=4096,
        last_of_producers=log.last_of_producers,
        must=True,
        dirty_ratio=1.0,
        aborted_behind=[entry for entry in log.aborted if entry.first_offset < end <= entry.last_offset],
    )
