"""Questions of a plan to the cluster: which partitions there are, where they begin and end.

Called by batch.py, stream.py and lake/rounds/loader.py; the answers go into plan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from time import sleep
from typing import TypeVar

from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import ClientError, refused
from ottla.client.model import EARLIEST, LATEST, IsolationLevel, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.rows.plan import Limit, Offsets, SourceOffset, questions, resolved
from ottla.rows.selection import Selection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FetchRetries:
    """`fetchOffset.numRetries` and `fetchOffset.retryIntervalMs`."""

    attempts: int = 3
    interval_ms: int = 10


class Survey:
    """Asks for one selection of partitions, at one isolation level."""

    def __init__(self, cluster: Cluster, selection: Selection, *, read_committed: bool, retries: FetchRetries) -> None:
        self.cluster = cluster
        self.selection = selection
        self.isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        self.retries = retries

    def assigned(self, *, missing_is_fine: bool = False) -> dict[TopicPartition, TopicId]:
        """The partitions chosen and the ids of their topics, asked for afresh."""
        return self._again(lambda: self._assigned(missing_is_fine=missing_is_fine))

    def limit(
        self, limit: Limit, assigned: Mapping[TopicPartition, TopicId], *, option: str, starting: bool
    ) -> Offsets:
        """The offsets that a limit means for the assigned partitions."""
        asked = questions(limit, assigned, option=option)
        answers = self._again(lambda: self._offsets(asked))
        offsets = resolved(limit, assigned, {each: offset for each, (offset, _) in answers.items()}, starting=starting)
        late = [partition for partition, offset in offsets.items() if offset < 0]
        return {**offsets, **self.edges(late, LATEST)}

    def edges(self, partitions: Collection[TopicPartition], edge: int) -> Offsets:
        """The earliest or latest offset of partitions."""
        answers = self._again(lambda: self._offsets(dict.fromkeys(partitions, edge)))
        return {partition: offset for partition, (offset, _) in answers.items()}

    def at_times(self, times: Offsets) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset at or after a time of each partition, -1 where there is none, and its leader epoch."""
        return self._again(lambda: self._offsets(times))

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self.edges(partitions, EARLIEST)

    def latest(self, assigned: Mapping[TopicPartition, TopicId], known: Offsets) -> tuple[Offsets, Offsets]:
        """The latest offsets and their leader epochs; asked again while one is below the offset known before.

        With read_committed a known offset may lie behind an open transaction: a reader was not bound to it before. The
        latest is then the known offset, as long as the log reaches that far.
        """
        for attempt in range(self.retries.attempts + 1):
            answers = self._again(lambda: self._offsets(dict.fromkeys(assigned, LATEST)))
            if all(offset >= known.get(partition, 0) for partition, (offset, _) in answers.items()):
                break
            if attempt < self.retries.attempts:
                self.cluster.refresh(sorted({topic for topic, _ in assigned}))
                sleep(self.retries.interval_ms / 1000)
        offsets = {partition: offset for partition, (offset, _) in answers.items()}
        if self.isolation is IsolationLevel.READ_COMMITTED:
            offsets |= self._behind_open_transactions(offsets, known)
        return offsets, {partition: epoch for partition, (_, epoch) in answers.items()}

    def truncated(self, start: SourceOffset, epochs: Offsets) -> dict[TopicPartition, int]:
        """Partitions whose log lacks records that were read in an earlier epoch, with the offset where it diverged.

        Only partitions that changed leaders since `start` are asked about (KIP-320).
        """
        found = {}
        for partition, offset in sorted(start.offsets.items()):
            epoch = start.epochs.get(partition, -1)
            if epoch < 0 or epochs.get(partition, -1) <= epoch:
                continue
            end = self._again(partial(self._end_of_epoch, partition, epoch))
            if 0 <= end < offset:
                found[partition] = end
        return found

    def _behind_open_transactions(self, stable: Offsets, known: Offsets) -> Offsets:
        """The known offsets that are beyond the last stable one, and not beyond the end of the log."""
        beyond = {each: known[each] for each, offset in stable.items() if known.get(each, 0) > offset}
        if not beyond:
            return {}
        ends = self._again(lambda: self.cluster.list_offsets(list(beyond), LATEST))
        return {each: offset for each, offset in beyond.items() if ends[each].offset >= offset}

    def _assigned(self, *, missing_is_fine: bool) -> dict[TopicPartition, TopicId]:
        selection, cluster = self.selection, self.cluster
        names = sorted({each.topic for each in selection.partitions} or selection.topics)
        if selection.pattern:
            views = cluster.topics()
            names = sorted(name for name, view in views.items() if selection.chosen(name, internal=view.is_internal))
        else:
            cluster.refresh(names)
            views = dict(cluster.plan.metadata.topics)
        assigned: dict[TopicPartition, TopicId] = {}
        for name in names:
            view = views.get(name)
            if view is None or not view.partitions:
                if not missing_is_fine and not selection.pattern:
                    view = cluster.topic(name)
                else:
                    continue
            assigned.update(self._of_topic(view))
        wanted = selection.partitions
        gone = [each for each in wanted if each not in assigned]
        if gone and not missing_is_fine:
            raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"assigned partition {gone[0]}")
        return {each: assigned[each] for each in wanted if each in assigned} if wanted else assigned

    def _of_topic(self, view: TopicView) -> dict[TopicPartition, TopicId]:
        return {TopicPartition(view.name, index): TopicId(view.topic_id) for index in view.partitions}

    def _offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        if not asked:
            return {}
        found = self.cluster.list_offsets(list(asked), asked, self.isolation)
        return {partition: (answer.offset, answer.leader_epoch) for partition, answer in found.items()}

    def _end_of_epoch(self, partition: TopicPartition, epoch: int) -> int:
        """The offset at which an epoch ends by the leader's log; -1 where the leader does not know."""
        part = OffsetForLeaderPartition(partition=partition.partition, current_leader_epoch=-1, leader_epoch=epoch)
        topic = OffsetForLeaderTopic(topic=partition.topic, partitions=[part])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        answer = self.cluster.request_to_leader(partition.topic, partition.partition, request)
        result = answer.topics[0].partitions[0]
        if result.error_code:
            self.cluster.refresh([partition.topic])
            raise refused(result.error_code, f"the end of leader epoch {epoch} of {partition}")
        return int(result.end_offset)

    def _again(self, ask: Callable[[], T]) -> T:
        """Ask as often as `fetchOffset.numRetries` says, but only once if no broker has ever answered."""
        for _ in range(self.retries.attempts):
            try:
                return ask()
            except (ApiError, ClientError) as fault:
                may_retry = fault.retriable if isinstance(fault, ClientError) else fault.code.retriable
                if not may_retry or not self.cluster.plan.metadata.brokers:
                    raise
                sleep(self.retries.interval_ms / 1000)
        return ask()
