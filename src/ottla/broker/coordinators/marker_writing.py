"""Writes the markers of transactions into partitions that this broker leads.

Called by marker_sender.py and the handler of WriteTxnMarkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from ottla.broker.coordinators.shard_runner import TransactionEnd
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.kernel.story import Slot
from ottla.records.control import EndOfTransaction, Marker, MarkerBatch
from ottla.storage.values import Appended, Origin

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition

COMMIT_TIMEOUT_MS = 30_000
_NO_COORDINATOR = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class WantedMarker(NamedTuple):
    """A marker and its partition."""

    end: TransactionEnd
    partition: TopicPartition


class MarkerWriter:
    """Writes markers for the coordinator on this broker and for those on others."""

    def __init__(
        self,
        around: Environment,
        partition_of: Callable[[str, bytes, int], Partition | ErrorCode],
        groups: GroupCoordinator,
    ) -> None:
        """`partition_of` finds the replica here, or tells why there is none."""
        self._around = around
        self._partition_of = partition_of
        self._groups = groups

    async def write(self, wanted: list[WantedMarker]) -> list[ErrorCode]:
        """Append all markers, then wait until they are committed; return NONE or an error for each."""
        wall_ms = self._around.clock.wall_ms()
        markers = {end: _marker(end, wall_ms) for end in dict.fromkeys(each.end for each in wanted)}
        begun = [self._write(each, markers[each.end], wall_ms) for each in wanted]
        outcomes = [await each if isinstance(each, Slot) else each for each in begun]
        return [ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _NO_COORDINATOR else error for error in outcomes]

    def _write(self, wanted: WantedMarker, marker: MarkerBatch, wall_ms: int) -> Slot[ErrorCode] | ErrorCode:
        """Append one marker. In an offsets partition the shard does it, so that its offsets change with the marker."""
        topic, index = wanted.partition
        if not topic:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self._partition_of(topic, NO_TOPIC_ID, index)
        if isinstance(partition, ErrorCode):
            return partition
        if topic == OFFSETS_TOPIC:
            runner = self._groups.runner_at(index)
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if runner is None else runner.end_transaction(wanted.end)
        if partition.leader is None or not self._around.may_lead():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not partition.leader.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        appended = partition.append(marker, Origin.COORDINATOR, wall_ms, bumps=wanted.end.bumps)
        if not isinstance(appended, Appended):
            return appended
        return partition.committed(appended.next_offset, COMMIT_TIMEOUT_MS)


def _marker(end: TransactionEnd, wall_ms: int) -> MarkerBatch:
    """The same for all partitions of the transaction."""
    return MarkerBatch(
        EndOfTransaction(Marker.COMMIT if end.committed else Marker.ABORT, end.coordinator_epoch),
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        timestamp=wall_ms,
    )
