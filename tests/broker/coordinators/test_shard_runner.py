"""The shards of a broker over real logs on a disk in memory: answers wait for their commit, and timers are fair."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from partition_desk import ME, TOPIC_ID, PartitionDesk

from ottla.broker.coordinators import group_coordinator
from ottla.broker.coordinators.early_asks import PATIENCE_MS
from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from ottla.broker.coordinators.shard_runner import LOOK_AGAIN_MS
from ottla.broker.replicas.partition import Partition
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.groups.entries import encode_entry, offset_entry, partition_for
from ottla.groups.topics import NoTopics
from ottla.groups.values import Caller, ConsumerGroupSettings
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId, LeaderEpoch
from ottla.kernel.story import Slot, run_story
from ottla.messages.group_records import OffsetCommitValue
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.messages.list_groups import ListGroupsRequest
from ottla.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record
from ottla.storage.segment.walk import Extent
from ottla.storage.values import Origin

CALLER = Caller("c", "/h", 3)


def a_coordinator(place: Any, *, partitions: int) -> GroupCoordinator:
    """The coordinator of a place without topics of clients."""
    return GroupCoordinator(
        place,
        place,
        place.config,
        lambda: partitions,
        topics=NoTopics(),
        consumer_settings=lambda _: ConsumerGroupSettings(),
    )


class Place(PartitionDesk):
    """A broker around one partition of the offsets topic."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.failed: list[OSError] = []
        self.suspected: list[int] = []
        self._random = itertools.count(1)
        self.config = BrokerConfig(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1, **options)
        self.partition = self.a_partition(OFFSETS_TOPIC)
        self.groups = a_coordinator(self, partitions=1)
        self.epoch = 0

    def bytes(self, count: int) -> bytes:
        return next(self._random).to_bytes(count, "big")

    def disk_failed(self, error: OSError) -> None:
        self.failed.append(error)

    def suspect(self, partition: Partition, offset: int) -> None:
        self.suspected.append(offset)

    def lead(self, *, in_sync: frozenset[int] = frozenset({1})) -> None:
        """Lead in a new epoch, as the reconciliation with the metadata does."""
        self.epoch += 1
        self.partition.lead(
            LeaderEpoch(self.epoch),
            replicas=tuple(BrokerId(each) for each in sorted(in_sync)),
            in_sync=frozenset(BrokerId(each) for each in in_sync),
            registered={BrokerId(each): BrokerEpoch(1) for each in in_sync},
        )
        self.groups.lead(self.partition)

    def ready(self) -> Place:
        self.lead()
        self.sync()
        self.clock.run_for(0)
        assert not self.groups.loading
        return self

    def commit(self, offset: int, *, group: str = "g", partition: int = 0) -> Slot[Any]:
        return self.groups.ask(group, lambda shard, ticket, now: shard.commit_offsets(
            OffsetCommitRequest(group_id=group, topics=[
                OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=[
                    OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)])]),
            CALLER, ticket, now,
        ))  # fmt: skip

    def fetch(self, *, group: str = "g", stable: bool = False) -> Slot[Any]:
        asked = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        return self.groups.ask(
            group, lambda shard, ticket, _: shard.fetch_offsets(asked, require_stable=stable, ticket=ticket)
        )

    def fetched(self, **options: Any) -> int:
        return self.fetch(**options).result().topics[0].partitions[0].committed_offset  # type: ignore[no-any-return]

    def join(self, member_id: str = "", group: str = "g") -> Slot[Any]:
        request = JoinGroupRequest(
            group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=60_000, member_id=member_id,
            protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range")],
        )  # fmt: skip
        return self.groups.ask(group, lambda shard, ticket, now: shard.join_group(request, CALLER, ticket, now))

    def sync_group(self, member_id: str, generation: int) -> Slot[Any]:
        request = SyncGroupRequest(
            group_id="g", generation_id=generation, member_id=member_id,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"mine")],
        )  # fmt: skip
        return self.groups.ask("g", lambda shard, ticket, now: shard.sync_group(request, CALLER, ticket, now))

    def heartbeat(self, member_id: str, generation: int) -> Slot[Any]:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        return self.groups.ask("g", lambda shard, ticket, now: shard.heartbeat(request, ticket, now))

    def member(self) -> tuple[str, int]:
        """The only member of a stable group."""
        slot = self.join()
        self.clock.run_for(0)
        answer = slot.result()
        self.sync_group(answer.member_id, answer.generation_id)
        self.sync()
        return answer.member_id, answer.generation_id


# Holding answers back


def test_a_commit_is_answered_once_it_is_on_disk():
    place = Place().ready()
    slot = place.commit(5)
    assert not slot.full
    place.sync()
    assert slot.result().topics[0].partitions[0].error_code == ErrorCode.NONE


def test_a_read_does_not_show_what_a_power_cut_could_take_back():
    place = Place().ready()
    place.commit(5)
    read = place.fetch()
    assert not read.full
    place.sync()
    assert read.result().topics[0].partitions[0].committed_offset == 5


def test_a_read_waits_for_nothing_where_nothing_is_under_way():
    place = Place().ready()
    assert place.fetched() == -1


def test_every_reply_waits_for_all_that_was_written_before_it():
    place = Place().ready()
    member_id, generation = place.member()
    first = place.commit(5, group="other")
    beat = place.heartbeat(member_id, generation)
    described = place.groups.ask("g", lambda shard, ticket, _: shard.describe_group("g", CALLER, ticket))
    listed = run_story(place.groups.ask_all(lambda shard, ticket, _: shard.list_groups(ListGroupsRequest(), ticket)))
    assert not any(slot.full for slot in (first, beat, described, listed))
    place.sync()
    assert all(slot.full for slot in (first, beat, described, listed))


def test_an_assignment_leaves_once_it_is_committed():
    place = Place().ready()
    slot = place.join()
    place.clock.run_for(0)
    answer = slot.result()
    synced = place.sync_group(answer.member_id, answer.generation_id)
    assert not synced.full
    place.sync()
    assert synced.result().assignment == b"mine"


def test_what_is_not_committed_in_time_is_answered_so():
    place = Place(offsets_commit_timeout_ms=5_000).ready()
    slot = place.commit(5)
    place.clock.run_for(4_999)
    assert not slot.full
    place.clock.run_for(1)
    assert slot.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_each_answer_has_a_time_limit_of_its_own():
    place = Place().ready()
    first = place.commit(5)
    place.clock.run_for(3_000)
    second = place.commit(6)
    place.clock.run_for(2_000)
    assert first.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not second.full
    place.sync()
    assert second.result().topics[0].partitions[0].error_code == ErrorCode.NONE


def test_replies_leave_in_the_order_of_what_they_wait_for():
    place = Place().ready()
    left: list[int] = []
    for number in range(5):
        place.commit(number).when_full(lambda number=number: left.append(number))
    place.sync()
    assert left == [0, 1, 2, 3, 4]
    assert place.fetched() == 4


def test_who_asks_again_while_being_answered_is_served():
    place = Place().ready()
    asked: list[Slot[Any]] = []
    place.commit(5).when_full(lambda: asked.append(place.fetch()))
    place.commit(6)
    place.sync()
    assert asked[0].result().topics[0].partitions[0].committed_offset == 6


def test_with_too_few_replicas_in_sync_nothing_is_written():
    place = Place().ready()
    place.partition.set_config(TopicConfig(min_insync_replicas=2))
    place.epoch += 1
    place.partition.lead(
        LeaderEpoch(place.epoch),
        replicas=(ME, BrokerId(2)),
        in_sync=frozenset({ME}),
        registered={ME: BrokerEpoch(1)},
    )
    end = place.partition.log.end_offset
    assert place.commit(5).result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert place.partition.log.end_offset == end


def test_a_commit_larger_than_the_topic_takes_is_refused_whole():
    place = Place().ready()
    place.partition.set_config(TopicConfig(max_message_bytes=100))
    assert place.commit(5, group="g" * 200).result() == ErrorCode.UNKNOWN_SERVER_ERROR
    assert place.fetched(group="g" * 200) == -1


def test_no_answer_leaves_without_the_lease():
    place = Place().ready()
    slot = place.commit(5)
    place.lease = False
    place.sync()
    assert slot.result() == ErrorCode.NOT_COORDINATOR
    assert place.fetch().result() == ErrorCode.NOT_COORDINATOR


# Leadership


def test_without_the_partition_this_is_not_the_coordinator():
    place = Place()
    assert place.commit(5).result() == ErrorCode.NOT_COORDINATOR
    listed = run_story(place.groups.ask_all(lambda shard, ticket, _: shard.list_groups(ListGroupsRequest(), ticket)))
    assert listed.result() == []


def test_without_an_offsets_topic_nobody_is_the_coordinator():
    place = Place()
    place.groups = a_coordinator(place, partitions=0)
    assert place.groups.partition_for("g") is None
    assert place.commit(5).result() == ErrorCode.NOT_COORDINATOR


def test_requests_wait_for_a_shard_that_loads_and_are_answered_in_their_order():
    place = Place()
    place.lead()
    assert place.groups.loading
    committed, fetched = place.commit(5), place.fetch()
    assert not committed.full
    place.clock.run_for(0)
    place.sync()
    assert committed.result().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert fetched.result().topics[0].partitions[0].committed_offset == 5


def test_requests_that_waited_for_a_shard_give_the_loop_back_after_each_slice_and_keep_their_order():
    place = Place()
    place.lead()
    order: list[int] = []

    def ask(number: int) -> Slot[Any]:
        def decide(shard: Any, ticket: Slot[Any], _: Any) -> Any:
            place.clock.now_us += 1000
            order.append(number)
            return shard.list_groups(ListGroupsRequest(), ticket)

        return place.groups.ask("g", decide)

    slots = [ask(number) for number in range(30)]
    assert not any(slot.full for slot in slots)
    place.sync()
    turns: list[int] = []
    while len(order) < len(slots):
        if order and len(slots) == 30:
            slots.append(ask(30))
            assert not slots[-1].full, "it waits behind those that came before it"
        turn_began_us = place.clock.now_us
        assert place.clock.turn()
        turns.append(place.clock.now_us - turn_began_us)
    assert order == list(range(31))
    assert max(turns) <= 10_000
    assert all(slot.full for slot in slots)


def test_a_shard_that_loads_for_long_says_so():
    place = Place().ready()
    place.commit(5)
    place.groups.resign(0)
    place.lead()
    slot = place.fetch()
    place.clock.run_for(PATIENCE_MS - 1)
    assert not slot.full
    place.clock.run_for(1)
    assert slot.result() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert place.fetch().result() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    place.sync()
    assert place.fetched() == 5


def test_requests_that_wait_for_a_shard_are_sent_away_with_its_leadership():
    place = Place()
    place.lead()
    slot = place.commit(5)
    place.groups.resign(0)
    assert slot.result() == ErrorCode.NOT_COORDINATOR


def test_a_new_leadership_reads_everything_back():
    place = Place().ready()
    member_id, generation = place.member()
    place.commit(5, group="other")
    place.sync()
    place.lead()
    place.clock.run_for(0)
    assert place.fetched(group="other") == 5
    assert place.heartbeat(member_id, generation).result().error_code == ErrorCode.NONE


def test_it_loads_to_the_end_and_serves_when_that_is_committed():
    place = Place().ready()
    place.commit(5)
    place.groups.resign(0)
    place.lead()
    place.clock.run_for(100)
    assert place.groups.loading
    slot = place.fetch()
    assert not slot.full
    place.sync()
    assert not place.groups.loading
    assert slot.result().topics[0].partitions[0].committed_offset == 5


def test_with_leadership_all_who_wait_are_sent_away():
    place = Place().ready()
    member_id, _ = place.member()
    gathering = [place.join(member_id), place.join()]
    held = place.commit(5, group="other")
    place.partition.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    place.groups.resign(0)
    assert held.result() == ErrorCode.NOT_COORDINATOR
    assert gathering[0].full
    assert gathering[1].full
    assert place.commit(6).result() == ErrorCode.NOT_COORDINATOR


def test_after_resigning_nothing_of_the_old_shard_moves():
    place = Place().ready()
    place.member()
    end = place.partition.log.end_offset
    place.groups.close()
    place.clock.run_for(600_000)
    assert place.partition.log.end_offset == end
    assert place.partition.readers._listeners == []


def test_a_topic_deleted_while_the_shard_loads_is_forgotten_once_it_serves():
    place = Place().ready()
    place.commit(5)
    place.sync()
    place.lead()
    place.groups.topics_deleted({"t": TOPIC_ID})
    place.clock.run_for(0)
    place.sync()
    assert place.fetched() == -1


def test_a_topic_deleted_is_forgotten():
    place = Place().ready()
    place.commit(5)
    place.groups.topics_deleted({"t": TOPIC_ID})
    place.sync()
    assert place.fetched() == -1


# Loading


def append(place: Place, batch: bytes) -> None:
    whole = Batch(batch)
    guard = None
    if not whole.is_control:
        guard = place.partition.guard(whole.producer_id, whole.producer_epoch, -1, bumps=False)
    assert not isinstance(place.partition.append(whole, Origin.COORDINATOR, 0, guard=guard), ErrorCode)


def test_offsets_of_transactions_stand_as_their_markers_say():
    place = Place().ready()
    for producer, marker in ((7, Marker.COMMIT), (8, Marker.ABORT)):
        place.commit(producer, partition=producer)
        value = OffsetCommitValue(offset=100, topic_id=TOPIC_ID)
        key, body = encode_entry(offset_entry("g", "t", producer, value))
        written = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        append(place, build_batch([Record(0, 0, key, body)], **written))
        append(place, build_marker(marker, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=0))
    place.lead()
    place.sync()
    place.clock.run_for(0)
    held = place.groups.shards()[0].offsets.of("g")["t"]
    assert (held[7].offset, held[8].offset) == (100, 8)


def test_records_that_are_none_of_ours_do_not_stop_the_loading(caplog: pytest.LogCaptureFixture):
    place = Place().ready()
    records = [Record(0, 0, b"\0\x09other", b"\0\0"), Record(0, 0, b"\0\x01\0\x63bad", b""), Record(0, 0, None, b"x")]
    append(place, build_batch(records))
    place.commit(5)
    place.lead()
    place.sync()
    place.clock.run_for(0)
    assert place.fetched() == 5
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_loading_gives_the_loop_back_after_each_slice(monkeypatch: pytest.MonkeyPatch):
    """The clock moves while records are read, as outside of a simulation."""
    place = Place().ready()
    for offset in range(600):
        place.commit(offset, group=f"g{offset}")
    place.sync()
    place.lead()
    turns: list[int] = []
    shard = next(iter(place.groups._runners.values())).shard
    apply = type(shard).apply

    def slow(self, *arguments):
        place.clock.now_us += 100
        apply(self, *arguments)

    monkeypatch.setattr(type(shard), "apply", slow)
    began_us = place.clock.now_us
    while place.groups.loading:
        turn_began_us = place.clock.now_us
        assert place.clock.turn()
        turns.append(place.clock.now_us - turn_began_us)
    assert place.clock.now_us - began_us >= 60_000
    assert max(turns) <= 10_000
    assert len(turns) >= 6
    assert place.fetched(group="g599") == 599


# Time


def test_a_member_that_is_silent_is_removed_when_its_session_ends():
    place = Place().ready()
    member_id, generation = place.member()
    place.clock.run_for(9_999)
    assert place.groups.shards()[0].groups["g"].members
    place.clock.run_for(10)
    place.sync()
    assert place.heartbeat(member_id, generation).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_late_tick_evicts_nobody():
    """Rule A5: the process stood still for a minute; the waiting heartbeats are handled first."""
    place = Place().ready()
    member_id, generation = place.member()
    place.clock.run_for(5_000)
    place.clock.now_us += 60_000_000
    place.clock.run_for(0)
    assert place.heartbeat(member_id, generation).result().error_code == ErrorCode.NONE
    place.clock.run_for(9_000)
    assert place.heartbeat(member_id, generation).result().error_code == ErrorCode.NONE


def test_a_pause_that_ends_just_before_a_deadline_is_noticed_too():
    place = Place().ready()
    member_id, generation = place.member()
    place.clock.now_us += 9_990_000
    place.clock.run_for(100)
    assert place.heartbeat(member_id, generation).result().error_code == ErrorCode.NONE


def test_nobody_is_counted_out_for_a_time_in_which_the_lease_had_run_out():
    """Members sent heartbeats all the time and were refused, as the store could not be reached."""
    place = Place().ready()
    member_id, generation = place.member()
    place.clock.run_for(5_000)
    place.lease = False
    for _ in range(60):
        place.clock.run_for(1_000)
        assert place.heartbeat(member_id, generation).result() == ErrorCode.NOT_COORDINATOR
    place.lease = True
    place.clock.run_for(4_000)
    assert place.heartbeat(member_id, generation).result().error_code == ErrorCode.NONE
    place.clock.run_for(11_000)
    place.sync()
    assert place.heartbeat(member_id, generation).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_that_lies_in_the_socket_when_the_session_ends_is_heard_first():
    place = Place().ready()
    member_id, generation = place.member()
    heard: list[Slot[Any]] = []
    clock = place.clock
    clock.call_later(10_000, lambda: clock.call_soon(lambda: heard.append(place.heartbeat(member_id, generation))))
    clock.run_for(10_001)
    assert heard[0].result().error_code == ErrorCode.NONE
    assert place.groups.shards()[0].groups["g"].members


def test_old_offsets_are_looked_for_now_and_then():
    place = Place(offsets_retention_minutes=60, offsets_retention_check_interval_ms=60_000).ready()
    place.commit(5)
    place.sync()
    place.clock.run_for(3_599_000)
    assert place.fetched() == 5
    place.clock.run_for(61_000)
    place.sync()
    assert place.fetched() == -1


def test_settings_come_from_the_brokers_options():
    settings = group_coordinator.settings_of(
        BrokerConfig(
            group_min_session_timeout_ms=1,
            group_max_session_timeout_ms=2,
            group_initial_rebalance_delay_ms=3,
            group_max_size=4,
            offset_metadata_max_bytes=5,
            offsets_retention_minutes=6,
            offsets_retention_check_interval_ms=7,
        )
    )
    assert (settings.min_session_timeout_ms, settings.max_session_timeout_ms) == (1, 2)
    assert (settings.initial_rebalance_delay_ms, settings.max_size, settings.offset_metadata_max_bytes) == (3, 4, 5)
    assert (settings.offsets_retention_ms, settings.offsets_retention_check_interval_ms) == (360_000, 7)


def test_member_ids_end_in_a_uuid():
    place = Place().ready()
    slot = place.join()
    place.clock.run_for(0)
    assert slot.result().member_id == "c-00000000-0000-4000-8000-000000000001"


def test_groups_are_spread_over_the_partitions_of_the_topic():
    place = Place()
    place.groups = a_coordinator(place, partitions=50)
    assert place.groups.partition_for("test-group") == partition_for("test-group", 50) == 12


def test_nothing_is_answered_before_the_lease_of_one_who_was_fenced_early_has_ended():
    place = Place()
    until_ms = place.clock.mono_ms() + 4000
    place.groups.answers_from_ms = lambda: until_ms
    place.lead()
    place.sync()
    place.clock.run_for(3990)
    assert place.fetch().result() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    place.clock.run_for(10)
    assert place.fetched() == -1


def test_a_shard_that_waits_for_a_lease_serves_soon_when_there_is_none_to_wait_for():
    place = Place()
    until_ms = [place.clock.mono_ms() + 4000]
    place.groups.answers_from_ms = lambda: until_ms[0]
    place.lead()
    place.sync()
    place.clock.run_for(1000)
    until_ms[0] = 0
    place.clock.run_for(LOOK_AGAIN_MS)
    assert place.fetched() == -1


def test_a_shard_that_is_given_up_while_it_waits_for_a_lease_serves_no_more():
    place = Place()
    place.groups.answers_from_ms = lambda: 10**12
    place.lead()
    place.sync()
    place.clock.run_for(10)
    place.groups.answers_from_ms = lambda: 0
    place.groups.resign(0)
    place.clock.run_for(1000)
    assert place.fetch().result() == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("position", [65, 8, 16], ids=["records", "length", "magic"])
def test_a_log_that_is_damaged_is_not_taken_for_its_sound_part_and_is_loaded_once_it_is_repaired(position: int) -> None:
    place = Place().ready()
    for offset in (5, 6, 7):
        place.commit(offset)
        place.sync()
    place.groups.resign(0)
    log = place.partition.log
    second = log.active.positions[1]
    sound = log.active.file.read_at(second + position, 1)
    log.active.file.write_at(second + position, [bytes([sound[0] ^ 4])])
    place.lead()
    place.sync()
    place.clock.run_for(5000)
    assert place.groups.loading, "to serve what was committed before the damage would be to forget what came after"
    assert place.suspected[0] == log.active.bases[1]
    assert place.fetch().result() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    log.active.file.write_at(second + position, [sound])
    place.clock.run_for(2000)
    assert not place.groups.loading
    assert place.fetched() == 7


def test_damage_of_a_log_with_other_replicas_waits_for_them_or_for_an_administrator() -> None:
    place = Place().ready()
    for offset in (5, 6, 7):
        place.commit(offset)
        place.sync()
    place.groups.resign(0)
    log = place.partition.log
    log.roll(log.end_offset, 0)
    first = log.segments[0]
    log.damage.note(0, [Extent(0, 3, 0, first.size)])
    first.forget_recent()
    place.epoch += 1
    place.partition.lead(
        LeaderEpoch(place.epoch),
        replicas=(BrokerId(1), BrokerId(2)),
        in_sync=frozenset({BrokerId(1)}),
        registered={BrokerId(1): BrokerEpoch(1), BrokerId(2): BrokerEpoch(1)},
    )
    place.groups.lead(place.partition)
    place.sync()
    place.clock.run_for(5000)
    assert place.groups.loading, "its other replica may come back with what is damaged here"
    place.partition.config = TopicConfig(deletion_protection="false")
    place.clock.run_for(2000)
    assert not place.groups.loading
