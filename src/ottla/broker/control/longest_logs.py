"""Finds the live replica with the longest log, before an election of a leader that may lack records.

Called by handlers/elect_leaders.py for an administrator, and by unclean_elections.py if the topic allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.story import Slot
from ottla.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment
    from ottla.metadata.partition_state import PartitionState
    from ottla.storage.log import Log

ANY_REPLICA = -2
"""The replica id with which ListOffsets is answered by replicas that do not lead; Kafka's own tools use it too."""
VERSION = 7
_PURPOSE = "elections"
_ANSWER_IN_MS = 2000
_LATEST = -1


class LogEnd(NamedTuple):
    """The epoch of a log's last record, and the offset after it: of two, the greater is the longer log."""

    epoch: int
    offset: int


Ends = dict[TopicPartition, LogEnd]


def log_end(held: Log) -> LogEnd | ErrorCode:
    """The last epoch and the end of the sound part of a replica here."""
    if held.refusing:
        return ErrorCode.KAFKA_STORAGE_ERROR
    end = held.end_offset if held.damaged_at is None else min(held.end_offset, held.damaged_at)
    return LogEnd(held.epochs.epoch_at(end - 1), end)


def in_order(replicas: Iterable[BrokerId], ends: Mapping[BrokerId, LogEnd]) -> tuple[BrokerId, ...]:
    """Replicas by length of log, longest first; of equal ones the preferred replica first, unknown ones last."""
    unknown = LogEnd(-2, -1)
    return tuple(sorted(replicas, key=lambda one: ends.get(one, unknown), reverse=True))


class LongestLogs:
    """Asks for the ends of logs, here and at the other brokers."""

    def __init__(self, around: Environment, peers: Peers, log_of: Callable[[TopicPartition], Log | None]) -> None:
        """`log_of` finds the log of a replica of this broker."""
        self._around = around
        self._peers = peers
        self._log_of = log_of

    async def of(
        self, wanted: Sequence[tuple[TopicPartition, PartitionState]]
    ) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """For each partition its live replicas, the longest log first. All are asked at once, with a short timeout."""
        metadata, here = self._around.metadata, self._around.broker
        asked: dict[BrokerId, list[TopicPartition]] = {}
        candidates: dict[TopicPartition, list[BrokerId]] = {}
        for place, state in wanted:
            living = [one for one in state.replicas if metadata.is_active(one) and one not in state.offline]
            candidates[place] = living
            for broker in living:
                asked.setdefault(broker, []).append(place)
        answers = {broker: self._ask(broker, places) for broker, places in asked.items() if broker != here}
        found: dict[BrokerId, Ends] = {here: self._here(asked.get(here, []))}
        for broker, slot in answers.items():
            try:
                found[broker] = _ends(await slot)
            except OSError:
                found[broker] = {}  # unreachable or too late: its replicas come last
        return {
            place: in_order(living, {one: found[one][place] for one in living if place in found[one]})
            for place, living in candidates.items()
        }

    def _ask(self, broker: BrokerId, places: Iterable[TopicPartition]) -> Slot[ListOffsetsResponse]:
        topics: dict[str, ListOffsetsTopic] = {}
        for topic, index in places:
            asked = topics.setdefault(topic, ListOffsetsTopic(name=topic))
            asked.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=_LATEST))
        request = ListOffsetsRequest(replica_id=ANY_REPLICA, topics=list(topics.values()))
        return self._peers.call(broker, _PURPOSE, request, VERSION, _ANSWER_IN_MS)

    def _here(self, places: Iterable[TopicPartition]) -> Ends:
        found: Ends = {}
        for place in places:
            held = self._log_of(place)
            end = None if held is None else log_end(held)
            if isinstance(end, LogEnd):
                found[place] = end
        return found


def _ends(response: ListOffsetsResponse) -> Ends:
    return {
        TopicPartition(topic.name, one.partition_index): LogEnd(one.leader_epoch, one.offset)
        for topic in response.topics
        for one in topic.partitions
        if not one.error_code
    }
