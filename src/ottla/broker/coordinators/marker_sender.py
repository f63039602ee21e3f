"""Tells the leaders of partitions how transactions have ended, until each has written its marker.

transaction_coordinator.py passes on the markers that leave its shards. Each broker gets one request at a time; markers
of all shards that come up meanwhile go with the next. Shards are told of each partition that has its marker.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.marker_writing import COMMIT_TIMEOUT_MS, MarkerWriter, WantedMarker
from ottla.broker.coordinators.shard_runner import ShardRunner, TransactionEnd
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId, TopicPartition
from ottla.kernel.shards import Moment
from ottla.kernel.story import run_story
from ottla.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import EPOCH_BUMPS, Markers

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment

Runner = ShardRunner[TransactionShard]
PURPOSE = "markers"
RETRY_MS = 50
_ANSWER_TIMEOUT_MS = COMMIT_TIMEOUT_MS + 5_000
_MOST_AT_ONCE = 2_000
_VERSION = 2
_WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
_GIVEN_UP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Errors after which a marker is dropped: a newer coordinator or a newer producer epoch has acted."""

log = logging.getLogger("ottla.transactions")


class _Queued:
    """One marker of one partition."""

    __slots__ = ("markers", "partition", "runner", "topic_id")

    def __init__(self, runner: Runner, markers: Markers, partition: TopicPartition, topic_id: bytes | None) -> None:
        self.runner = runner
        self.markers = markers
        self.partition = partition
        self.topic_id = topic_id
        """The topic's id at the time: a later topic of the same name has none of the records."""

    def wanted(self) -> WantedMarker:
        markers = self.markers
        end = TransactionEnd(
            markers.producer_id,
            markers.producer_epoch,
            markers.committed,
            self.runner.epoch,
            bumps=markers.version >= EPOCH_BUMPS,
        )
        return WantedMarker(end, self.partition)


class MarkerSender:
    """Markers that are not written yet, by the leader of their partition."""

    def __init__(self, around: Environment, peers: Peers, writer: MarkerWriter) -> None:
        self._around = around
        self._peers = peers
        self._writer = writer
        self._queues: dict[BrokerId, deque[_Queued]] = {}
        self._busy: set[BrokerId] = set()
        self._soon: set[BrokerId] = set()
        self._when_written: Callable[[Runner, str], None] = lambda _, __: None

    def when_written(self, listener: Callable[[Runner, str], None]) -> None:
        """Call `listener` with the transactional id whenever the shard has noted a written marker."""
        self._when_written = listener

    def send(self, runner: Runner, markers: Markers) -> None:
        """Send markers to all partitions of a transaction. Called once its decision is committed (rule D2)."""
        metadata = self._around.metadata
        for partition in markers.partitions:
            topic = metadata.topic(partition.topic)
            topic_id = None if topic is None else topic.topic_id
            self._route(_Queued(runner, markers, partition, topic_id))

    def forget(self, runner: Runner) -> None:
        """Drop the markers of a shard whose leadership is over: its successor sends them again."""
        for broker, queue in self._queues.items():
            self._queues[broker] = deque(each for each in queue if each.runner is not runner)

    @property
    def waiting(self) -> int:
        """The number of queued markers, without those in a request under way."""
        return sum(len(queue) for queue in self._queues.values())

    def _route(self, queued: _Queued) -> None:
        """Queue a marker for the leader; a deleted partition needs none, and one without a leader waits."""
        topic = self._around.metadata.topic(queued.partition.topic)
        index = queued.partition.partition
        if topic is None or topic.topic_id != queued.topic_id or index >= len(topic.partitions):
            self._written(queued)
            return
        leader = topic.partitions[index].leader
        if leader == NO_LEADER:
            self._again(queued)
            return
        self._queues.setdefault(leader, deque()).append(queued)
        if leader not in self._soon:
            self._soon.add(leader)
            self._around.clock.call_soon(lambda: self._flush(leader))

    def _again(self, queued: _Queued) -> None:
        self._around.deadlines.after(RETRY_MS, lambda: self._route_if_current(queued))

    def _route_if_current(self, queued: _Queued) -> None:
        if not queued.runner.gone:
            self._route(queued)

    def _flush(self, broker: BrokerId) -> None:
        self._soon.discard(broker)
        queue = self._queues.get(broker)
        if not queue or broker in self._busy:
            return
        self._busy.add(broker)
        batch = [queue.popleft() for _ in range(min(len(queue), _MOST_AT_ONCE))]
        slot = run_story(self._deliver(broker, batch))
        slot.when_full(lambda: self._delivered(broker, slot.error))

    def _delivered(self, broker: BrokerId, error: BaseException | None) -> None:
        self._busy.discard(broker)
        if isinstance(error, Exception):
            self._around.broken(error)
            return
        self._flush(broker)

    async def _deliver(self, broker: BrokerId, batch: list[_Queued]) -> None:
        """Deliver a batch: by one request to another broker, or directly on this one."""
        if broker == self._around.broker:
            outcomes = await self._writer.write([each.wanted() for each in batch])
        else:
            try:
                answer: WriteTxnMarkersResponse = await self._peers.call(
                    broker, PURPOSE, _request(batch), _VERSION, _ANSWER_TIMEOUT_MS
                )
            except OSError as error:
                log.info("markers for broker %d are sent again: %s", broker, error)
                outcomes = [ErrorCode.NETWORK_EXCEPTION] * len(batch)
            else:
                outcomes = _outcomes(batch, answer)
        for queued, outcome in zip(batch, outcomes, strict=True):
            self._take(queued, outcome)

    def _take(self, queued: _Queued, outcome: ErrorCode) -> None:
        if queued.runner.gone:
            return
        if outcome in _WRITTEN:
            self._written(queued)
        elif outcome in _GIVEN_UP:
            log.warning(
                "%s refuses the marker of %s (producer id %d, epoch %d): error %d; given up",
                queued.partition,
                queued.markers.transactional_id,
                queued.markers.producer_id,
                queued.markers.producer_epoch,
                outcome,
            )
        else:
            self._again(queued)

    def _written(self, queued: _Queued) -> None:
        markers, clock = queued.markers, self._around.clock
        queued.runner.tell(
            lambda shard: shard.marked(
                markers.transactional_id,
                markers.producer_id,
                markers.producer_epoch,
                queued.partition,
                Moment(clock.mono_ms(), clock.wall_ms()),
            )
        )
        self._when_written(queued.runner, markers.transactional_id)


def _request(batch: list[_Queued]) -> WriteTxnMarkersRequest:
    """A request with one marker for each transaction, and all its partitions that the broker leads."""
    found: dict[tuple[int, int, bool, int], tuple[WritableTxnMarker, dict[str, WritableTxnMarkerTopic]]] = {}
    for queued in batch:
        markers = queued.markers
        key = (markers.producer_id, markers.producer_epoch, markers.committed, queued.runner.epoch)
        if key not in found:
            marker = WritableTxnMarker(
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                transaction_result=markers.committed,
                coordinator_epoch=queued.runner.epoch,
                transaction_version=markers.version,
            )
            found[key] = (marker, {})
        marker, topics = found[key]
        topic = topics.get(queued.partition.topic)
        if topic is None:
            topic = topics[queued.partition.topic] = WritableTxnMarkerTopic(name=queued.partition.topic)
            marker.topics.append(topic)
        topic.partition_indexes.append(queued.partition.partition)
    return WriteTxnMarkersRequest(markers=[marker for marker, _ in found.values()])


def _outcomes(batch: list[_Queued], answer: WriteTxnMarkersResponse) -> list[ErrorCode]:
    """Outcomes in the order of the batch; markers that the answer leaves out are sent again."""
    codes = {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    return [
        ErrorCode(codes.get((each.markers.producer_id, *each.partition), int(ErrorCode.NETWORK_EXCEPTION)))
        for each in batch
    ]
