"""Requests that wait for a commit are answered: at their deadline, in their epoch, when the topic's settings change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from partition_desk import ME, TOPIC_ID, PartitionDesk

from ottla.broker.handlers import produce as produce_handler
from ottla.broker.replicas.partition import ALL_IN_SYNC, ANY_EPOCH, Partition
from ottla.broker.requests.fetch_sessions import Session, Wakeups
from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, EndOffset, LeaderEpoch
from ottla.kernel.story import Slot, run_story
from ottla.messages.produce import ProduceResponse
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.schema.codec import decoder
from ottla.storage.values import Appended
from ottla.wire.hot import Produce

TIMEOUT_MS = 1000


class Place(PartitionDesk):
    """A broker with partitions of one topic."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__()
        self.partitions = [self.a_partition("t", index) for index in range(partitions)]
        for partition in self.partitions:
            self.lead_alone(partition, 1)

    def batch(self) -> memoryview:
        return memoryview(build_batch([Record(0, self.clock.wall_ms(), b"k", b"v", ())]))

    def append(self, partition: Partition) -> Slot[ErrorCode]:
        appended = partition.produce(self.batch(), acks=ALL_IN_SYNC, wall_ms=self.clock.wall_ms())
        assert isinstance(appended, Appended)
        waits = partition.committed(appended.next_offset, TIMEOUT_MS)
        assert isinstance(waits, Slot)
        return waits

    def produce(self) -> Slot[Any]:
        """Produce to all partitions in one request."""
        node = SimpleNamespace(clock=self.clock, partition=lambda name, topic_id, index: self.partitions[index],
                               endpoints=SimpleNamespace(leader_hint=lambda *_: None), rights=None,
                               quotas=SimpleNamespace(on_produce=False))  # fmt: skip
        call = SimpleNamespace(node=node, client_id="c", api_version=7, correlation_id=1, connection=None)
        records = [(partition.index, self.batch()) for partition in self.partitions]
        request = Produce(None, ALL_IN_SYNC, TIMEOUT_MS, [("t", TOPIC_ID, records)])
        return run_story(produce_handler.handle(call, request))  # type: ignore[arg-type]


def errors(slot: Slot[Any]) -> list[int]:
    response, _ = decoder(ProduceResponse, 7)(memoryview(slot.result()[0]), 8)
    return [each.error_code for each in response.responses[0].partition_responses]


def test_the_partitions_of_a_produce_share_one_deadline():
    place = Place(partitions=5)
    answer = place.produce()
    place.clock.run_for(TIMEOUT_MS + 1)
    assert answer.full
    assert errors(answer) == [ErrorCode.REQUEST_TIMED_OUT] * 5


def test_a_produce_is_not_answered_by_the_commits_of_a_later_epoch():
    place = Place(partitions=2)
    answer = place.produce()
    place.partitions[1].resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    place.lead_alone(place.partitions[1], 2)
    place.sync()
    assert errors(answer) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_commit_is_not_told_once_the_lease_has_ended():
    """Rule A12: another broker may lead by now, and acknowledge other records at these offsets."""
    place = Place()
    (partition,) = place.partitions
    waits = place.append(partition)
    place.lease = False
    place.sync()
    assert waits.result() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.committed(1, TIMEOUT_MS) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_answers_in_its_own_epoch_alone():
    place = Place()
    partition = place.partitions[0]
    place.lead_alone(partition, 5)
    assert [partition.epoch_error(epoch) for epoch in (ANY_EPOCH, 4, 5, 6)] == [
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ]


def test_neither_a_follower_nor_a_leader_without_its_lease_answers_in_any_epoch():
    place = Place()
    partition = place.partitions[0]
    place.lease = False
    assert {partition.epoch_error(epoch) for epoch in (ANY_EPOCH, 0, 1, 2)} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    place.lease = True
    partition.follow(BrokerId(2), LeaderEpoch(2))
    assert {partition.epoch_error(epoch) for epoch in (ANY_EPOCH, 1, 2, 3)} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_who_waits_is_answered_when_write_caching_is_turned_on():
    place = Place()
    (partition,) = place.partitions
    waits = place.append(partition)
    partition.set_config(TopicConfig(write_caching=True))
    assert waits.full
    assert waits.result() == ErrorCode.NONE


def test_write_caching_turned_off_puts_on_disk_what_was_promised_without():
    place = Place()
    (partition,) = place.partitions
    partition.set_config(TopicConfig(write_caching=True))
    partition.produce(place.batch(), acks=ALL_IN_SYNC, wall_ms=place.clock.wall_ms())
    place.submitted.clear()
    partition.set_config(TopicConfig())
    assert place.submitted
    place.sync()
    assert partition.log.synced_offset == 1
    waits = place.append(partition)
    place.sync()
    assert waits.full


def test_a_leader_that_says_less_than_our_start_does_not_take_our_high_watermark_below_it():
    place = Place(partitions=2)
    partition, other = place.partitions
    for each in (partition, other):
        for _ in range(3):
            place.append(each)
    place.sync()
    partition.follow(BrokerId(2), LeaderEpoch(2))
    follower_knew = partition.follower.high_watermark  # type: ignore[union-attr]
    other.log.delete_records_before(3)
    partition.log.start_as(other.log)
    partition.follower.high_watermark = type(follower_knew)(0)  # type: ignore[union-attr]
    partition.leader_said(1)
    assert (partition.log.log_start_offset, partition.log.high_watermark) == (3, 3)


def a_follower_of_what_was_committed_up_to_3(*, unclean_epoch: int) -> Partition:
    """Its machine has come down to 1, as for a cut that the disk has not carried out yet."""
    place = Place()
    (partition,) = place.partitions
    for _ in range(3):
        place.append(partition)
    place.sync()
    partition.follow(BrokerId(2), LeaderEpoch(2), LeaderEpoch(unclean_epoch))
    assert partition.follower is not None
    partition.follower.high_watermark = EndOffset(1)
    return partition


def test_a_follower_never_takes_back_what_its_leader_must_have():
    partition = a_follower_of_what_was_committed_up_to_3(unclean_epoch=-1)
    partition.leader_said(2)
    assert partition.log.high_watermark == 3


def test_a_follower_takes_back_what_an_unclean_leader_lacks():
    partition = a_follower_of_what_was_committed_up_to_3(unclean_epoch=2)
    partition.leader_said(2)
    assert (partition.log.high_watermark, partition.log.end_offset) == (2, 3)


# --- when a sync may begin a little later ---


def acks_1(place: Place) -> Partition:
    (partition,) = place.partitions
    place.sync()
    assert isinstance(partition.produce(place.batch(), acks=1, wall_ms=place.clock.wall_ms()), Appended)
    return partition


def test_the_sync_of_a_record_for_which_nobody_waits_may_begin_later():
    place = Place()
    partition = acks_1(place)
    assert (list(place.submitted), list(place.later)) == ([], [id(partition.log)])
    assert partition.log.high_watermark == 0
    place.sync()
    assert partition.log.high_watermark == 1


class Reads:
    def mark(self) -> None:
        """Do nothing: what it would read is of no matter here."""


@pytest.mark.parametrize("who", ["a reader", "a coordinator", "a produce", "another replica"])
def test_a_sync_begins_at_once_where_somebody_waits_for_it(who: str):
    place = Place()
    (partition,) = place.partitions
    if who == "a reader":
        partition.readers.add(Reads(), follows=False)
    elif who == "a coordinator":
        partition.readers.when_committed(lambda _: None)
    elif who == "a produce":
        partition.waits.add(EndOffset(5), 10_000)
    else:
        replicas = ME, BrokerId(2)
        partition.lead(LeaderEpoch(2), replicas=replicas, in_sync=frozenset(replicas), registered={})
    acks_1(place)
    assert (list(place.submitted), list(place.later)) == ([id(partition.log)], [])


@pytest.mark.parametrize("who", ["settled", "committed", "a fetch"])
def test_whoever_begins_to_wait_has_the_sync_begun(who: str):
    place = Place()
    partition = acks_1(place)
    if who == "settled":
        assert partition.settled(1, TIMEOUT_MS) is not None
    elif who == "committed":
        assert isinstance(partition.committed(1, TIMEOUT_MS), Slot)
    else:
        session = Session(1, "User:c", Wakeups(place.clock), by_id=False)
        session.watch(session.add("t", TOPIC_ID, (0, 0, 0, 0, 0, 0)), partition)  # type: ignore[arg-type]
    assert list(place.submitted) == [id(partition.log)]


def test_a_sync_that_is_under_way_is_not_begun_again():
    place = Place()
    partition = acks_1(place)
    partition.hurry()
    place.submitted.clear()  # it has begun, and its end will be told
    assert partition.settled(1, TIMEOUT_MS) is not None
    assert not place.submitted


def test_a_cached_log_is_not_synced_for_those_who_wait():
    place = Place()
    (partition,) = place.partitions
    partition.set_config(TopicConfig(write_caching=True))
    acks_1(place)
    partition.hurry()
    assert not place.submitted
    assert not place.later
