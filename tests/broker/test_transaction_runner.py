"""A transaction shard over a real log on a disk in memory: its answers and markers, and when they leave."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from partition_desk import TOPIC_ID, PartitionDesk

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.shard_runner import ShardRunner, TransactionEnd
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.groups.shard import GroupShard
from ottla.groups.values import GroupSettings
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.shards import TransactionalWriter
from ottla.kernel.story import Slot
from ottla.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import Markers, TransactionSettings

P0 = TopicPartition("t", 0)
COMMIT_TIMEOUT_MS = 5_000


class Place(PartitionDesk):
    """A broker around one partition of an internal topic."""

    def __init__(self, topic: str = TRANSACTION_TOPIC) -> None:
        super().__init__()
        self.topic = topic
        self.ids = itertools.count(1)
        self.sent: list[Markers] = []
        self.partition = self.a_partition(topic)
        self.epoch = 0
        self.runner: Any = None
        self.lead()

    def lead(self) -> None:
        """Lead in a new epoch, with a new shard."""
        if self.runner is not None:
            self.runner.end()
        self.epoch += 1
        self.lead_alone(self.partition, self.epoch)
        shard: Any = (
            TransactionShard(TransactionSettings(), lambda: next(self.ids))
            if self.topic == TRANSACTION_TOPIC
            else GroupShard(GroupSettings(), lambda: "suffix")
        )
        self.runner = ShardRunner(
            self.partition,
            shard,
            self,  # type: ignore[arg-type]
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            on_deadline=lambda _: None,
            answers_from_ms=lambda: 0,
            on_effect=lambda _, effect: self.sent.append(effect),
        )
        self.sync()
        self.clock.run_for(0)

    # transactions

    def init(self) -> tuple[int, int]:
        slot = self.runner.ask(lambda shard, ticket, now: shard.init_producer_id("tx", None, 60_000, ticket, now))
        self.sync()
        return slot.result()[1:]

    def add(self, producer: tuple[int, int]) -> Slot[Any]:
        return self.runner.ask(
            lambda shard, ticket, now: shard.add_partitions(
                "tx", *producer, frozenset({P0}), version=2, ticket=ticket, now=now
            )
        )

    def end(self, producer: tuple[int, int], *, commit: bool = True) -> Slot[Any]:
        return self.runner.ask(
            lambda shard, ticket, now: shard.end("tx", *producer, committed=commit, version=2, ticket=ticket, now=now)
        )

    # groups

    def commit_offset(self, offset: int, guard: object | None) -> Slot[Any]:
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[place])]
        request = TxnOffsetCommitRequest(group_id="g", topics=topics)
        return self.runner.ask(
            lambda shard, ticket, now: shard.commit_in_transaction(
                request, {"t": TOPIC_ID}, TransactionalWriter(7, 0, guard), ticket, now
            )
        )

    def offsets(self) -> Slot[Any]:
        asked = OffsetFetchRequestGroup(group_id="g", topics=None)
        return self.runner.ask(lambda shard, ticket, _: shard.fetch_offsets(asked, require_stable=False, ticket=ticket))


def open_transaction(place: Place) -> tuple[int, int]:
    producer = place.init()
    place.add(producer)
    place.sync()
    return producer


def test_a_shard_is_read_without_waiting_only_where_it_serves_and_all_is_committed():
    place = Place()
    producer = place.init()
    assert place.runner.settled() is place.runner.shard
    added = place.add(producer)
    assert place.runner.settled() is None, "the partitions are added, and not committed yet"
    place.sync()
    assert added.result() == ErrorCode.NONE and place.runner.settled() is place.runner.shard
    place.lease = False
    assert place.runner.settled() is None
    place.lease = True
    place.runner.end()
    assert place.runner.settled() is None


def test_d2_markers_leave_once_the_prepare_entry_is_committed_and_so_does_the_answer():
    place = Place()
    producer = open_transaction(place)
    answer = place.end(producer)
    assert place.sent == [] and not answer.full
    place.sync()
    assert answer.result().error == ErrorCode.NONE
    assert [each.partitions for each in place.sent] == [(P0,)]


def test_markers_are_sent_though_nobody_waits_for_the_answer_any_more():
    place = Place()
    answer = place.end(open_transaction(place))
    place.clock.run_for(COMMIT_TIMEOUT_MS + 1)
    assert answer.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE and place.sent == []
    place.sync()
    assert len(place.sent) == 1


def test_markers_are_sent_though_the_lease_has_run_out_and_the_answer_is_not_given():
    place = Place()
    answer = place.end(open_transaction(place))
    place.lease = False
    place.sync()
    assert answer.result() == ErrorCode.NOT_COORDINATOR
    assert len(place.sent) == 1, "that it ends so is committed, whoever coordinates"


def test_a_shard_whose_leadership_has_ended_sends_nothing_and_its_successor_sends_it():
    place = Place()
    place.end(open_transaction(place))
    place.runner.end()
    place.sync()
    assert place.sent == []
    place.lead()
    assert len(place.sent) == 1


def test_what_was_committed_and_not_answered_is_known_to_the_next_shard():
    place = Place()
    producer = open_transaction(place)
    place.end(producer)
    place.lead()
    assert place.runner.shard.transactions["tx"].producer_epoch == producer[1] + 1


@pytest.mark.parametrize(("committed", "offset"), [(True, 5), (False, None)])
def test_the_end_of_a_transaction_is_told_once_its_offsets_stand_and_are_committed(committed: bool, offset: int | None):
    place = Place(OFFSETS_TOPIC)
    guard = place.runner.guard(7, 0, bumps=True)
    taken = place.commit_offset(5, guard)
    place.sync()
    assert taken.result().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert place.runner.guard(7, 0, bumps=True) is None
    ended = place.runner.end_transaction(TransactionEnd(7, 1, committed, 3, bumps=True))
    read = place.offsets()
    assert not ended.full and not read.full
    place.sync()
    assert ended.result() == ErrorCode.NONE
    found = [each.committed_offset for topic in read.result().topics for each in topic.partitions]
    assert found == ([] if offset is None else [offset])
    place.lead()
    again = place.offsets().result()
    assert [each.committed_offset for topic in again.topics for each in topic.partitions] == found


def test_offsets_without_a_guard_or_with_that_of_an_ended_transaction_are_refused():
    place = Place(OFFSETS_TOPIC)
    assert place.commit_offset(5, None).result() == ErrorCode.INVALID_TXN_STATE
    guard = place.runner.guard(7, 0, bumps=False)
    place.runner.end_transaction(TransactionEnd(7, 0, False, 3, bumps=False))
    place.sync()
    assert place.commit_offset(5, guard).result() == ErrorCode.INVALID_TXN_STATE


def test_a_stale_marker_is_refused_and_changes_nothing():
    place = Place(OFFSETS_TOPIC)
    place.commit_offset(5, place.runner.guard(7, 0, bumps=True))
    place.sync()
    stale = place.runner.end_transaction(TransactionEnd(7, 0, True, 3, bumps=True))
    assert stale.result() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert place.offsets().result().topics == []


def test_a_shard_that_loads_takes_no_marker():
    place = Place(OFFSETS_TOPIC)
    place.commit_offset(5, place.runner.guard(7, 0, bumps=True))
    place.runner.end()
    assert place.runner.end_transaction(TransactionEnd(7, 1, True, 3, bumps=True)).result() == (
        ErrorCode.NOT_COORDINATOR
    )
    assert place.runner.guard(7, 1, bumps=True) == ErrorCode.NOT_COORDINATOR
