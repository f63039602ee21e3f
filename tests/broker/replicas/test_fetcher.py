"""A follower handles its leader's answers, and is crashed while it does: brokers in virtual time."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder, build_batch
from ottla.records.reader import Record
from ottla.sim.disk_faults import PowerCut
from ottla.storage.log import Log

PARTITIONS = 4
FIRST, OTHER = 1, 2
"""The first leader, and the one after its death."""


class Place:
    """A topic with replicas on two brokers, led by the first."""

    def __init__(self):
        self.cluster = SimCluster(2, min_insync_replicas="1")
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[FIRST, OTHER]) for index in range(PARTITIONS)
        ]
        texts = {"internal.segment.bytes": "100", "retention.ms": "-1"}
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in texts.items()]
        topic = CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
        )
        self.cluster.ask(FIRST, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        self.cluster.until(lambda: all(self.replica(OTHER, index) for index in range(PARTITIONS)))

    def replica(self, number, index):
        return self.cluster.node(number).replicas.by_name.get(("t", index))

    def produce(self, number, texts, acks):
        builder = BatchBuilder()
        for text in texts:
            builder.add(0, None, text)
        batch = builder.build()
        data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
        request = ProduceRequest(
            acks=acks, timeout_ms=3000, topic_data=[TopicProduceData(name="t", partition_data=data)]
        )
        answered = self.cluster.ask(number, request, most=9).responses[0].partition_responses
        assert {each.error_code for each in answered} == {ErrorCode.NONE}

    def delete_before(self, number, offset):
        answered = self.cluster.ask(number, self.a_deletion(offset)).topics[0].partitions
        assert {each.low_watermark for each in answered} == {offset}

    def a_deletion(self, offset):
        asked = [DeleteRecordsPartition(partition_index=index, offset=offset) for index in range(PARTITIONS)]
        return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=asked)], timeout_ms=5000)

    def leads(self, number):
        node = self.cluster.node(number)
        self.cluster.until(lambda: all(each.leader == number for each in node.metadata.topic("t").partitions), 60_000)
        self.cluster.until(lambda: all(self.replica(number, index).leader for index in range(PARTITIONS)))

    def in_sync_again(self):
        node = self.cluster.node(OTHER)
        self.cluster.until(lambda: all(len(each.in_sync) == 2 for each in node.metadata.topic("t").partitions), 60_000)

    def run_until_power_goes(self, number):
        machine = self.cluster.machines[number]
        with suppress(PowerCut):
            machine.start()
            self.cluster.until(lambda: machine.power_gone)
        machine.vanish()

    def bytes_of(self, number, index):
        disk = self.cluster.machines[number].disk
        return b"".join(
            disk.read(f"/data/t-{index}/{name}") for name in disk.list(f"/data/t-{index}") if name.endswith(".log")
        )


def diverged():
    """The first leader is down and has closed segments of its own; the other leads and has taken other records."""
    place = Place()
    place.produce(FIRST, [b"both"], -1)
    place.cluster.network.block(f"broker-{FIRST}", f"broker-{OTHER}")
    place.cluster.network.block(f"broker-{OTHER}", f"broker-{FIRST}")
    for number in range(3):
        place.produce(FIRST, [b"lost-%d" % number], 1)
    place.cluster.until(lambda: all(place.replica(FIRST, each).log.recovery_point >= 3 for each in range(PARTITIONS)))
    place.cluster.node(FIRST).replicas.upkeep.checkpoint_recovery_points()
    place.cluster.kill(FIRST)
    place.cluster.network.unblock_all()
    place.leads(OTHER)
    for number in range(3):
        place.produce(OTHER, [b"kept-%d" % number], -1)
    return place


def cuts_of(place, monkeypatch):
    """Start the first leader again; return, for each log that it cuts back, (disk operations so far, whether syncs
    are put off)."""
    disk = place.cluster.machines[FIRST].disk
    seen = []
    cut_back = Log.truncate_to
    with monkeypatch.context() as patch:
        patch.setattr(
            Log,
            "truncate_to",
            lambda log, offset: (seen.append((disk.operations, disk.put_off())), cut_back(log, offset)),
        )
        place.cluster.start(FIRST)
        place.in_sync_again()
    return seen


def test_where_one_answer_cuts_many_logs_back_each_is_synced_step_by_step(monkeypatch):
    assert [put_off for _, put_off in cuts_of(diverged(), monkeypatch)] == [False] * PARTITIONS


def test_a_power_cut_while_many_logs_are_cut_back_leaves_none_that_differs_from_its_leaders(monkeypatch):
    place = diverged()
    began = cuts_of(place, monkeypatch)[0][0]
    for after in range(began, place.cluster.machines[FIRST].disk.operations):
        place = diverged()
        disk = place.cluster.machines[FIRST].disk
        disk.cut_after = after
        place.run_until_power_goes(FIRST)
        disk.crash(Random(after))
        place.cluster.start(FIRST)
        place.in_sync_again()
        for index in range(PARTITIONS):
            assert place.bytes_of(FIRST, index) == place.bytes_of(OTHER, index)


def test_whoever_holds_only_what_its_leader_has_deleted_starts_in_the_middle_of_a_batch():
    """The leader's log starts in the middle of a batch; a follower with other records below copies that batch whole."""
    place = Place()
    place.produce(FIRST, [b"both"], -1)
    place.cluster.network.block(f"broker-{FIRST}", f"broker-{OTHER}")
    place.cluster.network.block(f"broker-{OTHER}", f"broker-{FIRST}")
    place.produce(FIRST, [b"lost"], 1)
    place.cluster.until(lambda: all(place.replica(FIRST, each).log.synced_offset == 2 for each in range(PARTITIONS)))
    place.cluster.kill(FIRST)
    place.leads(OTHER)
    place.cluster.network.unblock_all()
    place.produce(OTHER, [b"deleted", b"kept"], -1)
    place.delete_before(OTHER, 2)
    place.cluster.start(FIRST)
    place.in_sync_again()
    for index in range(PARTITIONS):
        log = place.replica(FIRST, index).log
        assert (log.log_start_offset, log.end_offset) == (2, 3)
        assert b"kept" in place.bytes_of(FIRST, index)
        assert b"lost" not in place.bytes_of(FIRST, index)


def test_a_start_for_which_the_disk_had_no_room_is_noted_once_there_is_some():
    """It does not wait for the next checkpoint a minute later: until then the leader would not let the replica join."""
    place = Place()
    place.produce(FIRST, [b"a", b"b", b"c"], -1)
    disk = place.cluster.machines[OTHER].disk
    disk.fail("create", errno.ENOSPC, where="log-start-offset-checkpoint")
    place.cluster.ask(FIRST, place.a_deletion(2))
    assert disk.take_fault("create", "/data/log-start-offset-checkpoint") is None  # the fault has struck
    followed = [place.replica(FIRST, index).leader.held for index in range(PARTITIONS)]
    place.cluster.until(lambda: all(held[OTHER].log_start == 2 for held in followed), 20_000)


def test_a_replica_made_anew_starts_where_its_leader_does_after_a_crash_too():
    """The leader's log starts in the middle of a batch, which the new replica has to take whole."""
    place = Place()
    place.produce(FIRST, [b"a", b"b", b"c"], -1)
    place.delete_before(FIRST, 2)
    place.cluster.kill(OTHER)
    disk = place.cluster.machines[OTHER].disk
    for index in range(PARTITIONS):
        disk.remove_tree(f"/data/t-{index}")
    disk.remove("/data/log-start-offset-checkpoint")
    place.cluster.start(OTHER)
    place.in_sync_again()
    place.cluster.kill(OTHER)
    disk.lose_unsynced()
    place.cluster.start(OTHER)
    assert [place.replica(OTHER, index).log.log_start_offset for index in range(PARTITIONS)] == [2] * PARTITIONS


def full_and_left_behind():
    """The follower's disk is full, and the leader deletes all records that the follower has and some that it lacks."""
    place = Place()
    for number in range(3):
        place.produce(FIRST, [b"old-%d" % number], -1)
    replicas = [place.replica(OTHER, index) for index in range(PARTITIONS)]
    place.cluster.until(lambda: all(each.log.recovery_point >= 2 for each in replicas), 60_000)
    place.cluster.until(lambda: all(each.log.high_watermark == 3 for each in replicas))
    node, disk = place.cluster.node(OTHER), place.cluster.machines[OTHER].disk
    node.replicas.upkeep.checkpoint_recovery_points()
    disk.capacity_bytes = disk.used_bytes()
    for number in range(3, 6):
        place.produce(FIRST, [b"new-%d" % number], 1)
    place.cluster.until(lambda: all(each.in_sync == (FIRST,) for each in node.metadata.topic("t").partitions), 60_000)
    place.delete_before(FIRST, 5)
    place.cluster.loop.run_for(5000)
    assert place.cluster.machines[OTHER].current.fatal is None
    assert [each.log.end_offset for each in replicas] == [3] * PARTITIONS
    return place


def starts_over(place):
    place.in_sync_again()
    assert place.cluster.machines[OTHER].current.fatal is None
    for index in range(PARTITIONS):
        log = place.replica(OTHER, index).log
        assert (log.log_start_offset, log.end_offset) == (5, 6)
        assert place.bytes_of(OTHER, index).count(b"new-5") == 1


def test_a_full_follower_that_must_start_over_does_once_there_is_room():
    place = full_and_left_behind()
    place.cluster.machines[OTHER].disk.capacity_bytes = 1 << 62
    starts_over(place)


def test_a_full_follower_that_must_start_over_makes_room_itself():
    """The next retention check drops the segments that the leader has deleted; the one after removes their files."""
    place = full_and_left_behind()
    place.cluster.loop.run_for(11 * 60_000)
    starts_over(place)


def test_a_full_follower_that_must_cut_back_does_once_there_is_room():
    place = diverged()
    machine = place.cluster.machines[FIRST]
    machine.disk.fail("write", errno.ENOSPC, where="recovery-point-offset-checkpoint")
    place.cluster.start(FIRST)
    place.in_sync_again()
    assert machine.disk.take_fault("write", "/data/recovery-point-offset-checkpoint") is None  # the fault has struck
    assert machine.current.fatal is None
    for index in range(PARTITIONS):
        assert place.bytes_of(FIRST, index) == place.bytes_of(OTHER, index)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_numbers_a_leader_answers_its_follower_goes_on(seed):
    """A follower may refuse the answer, cut back or begin anew; no number may break an invariant."""
    drawn = Random(seed)

    def number():
        return drawn.choice([-(1 << 63), -2, -1, 0, 1, 2, 3, 4, 5, 100, (1 << 63) - 1])

    place = Place()
    for text in (b"a", b"b", b"c"):
        place.produce(FIRST, [text], -1)
    place.delete_before(FIRST, 1)
    node = place.cluster.node(OTHER)
    (fetch,) = node.replicas.fetches._from.values()
    batches = [
        build_batch([Record(base, 0, None, b"d")], base_offset=base, leader_epoch=epoch)
        for base in range(5)
        for epoch in (0, 1, 9)
    ]
    for _ in range(200):
        partitions = [
            PartitionData(
                partition_index=index,
                error_code=drawn.choice([0, 0, 0, ErrorCode.OFFSET_OUT_OF_RANGE]),
                high_watermark=number(),
                last_stable_offset=number(),
                log_start_offset=number(),
                diverging_epoch=EpochEndOffset(epoch=number(), end_offset=number())
                if drawn.random() < 0.3
                else EpochEndOffset(),
                records=drawn.choice([None, *batches]),
            )
            for index in range(PARTITIONS)
        ]
        topic_id, places = node.metadata.topic("t").topic_id, fetch._places
        asked = {key: places._place(key, place.cluster.loop.mono_ms()) for key in places.partitions}
        answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id, partitions=partitions)])
        fetch._take(answer, {key: one for key, one in asked.items() if isinstance(one, tuple) and one[0].offset >= 0})
        place.cluster.loop.run_for(drawn.randrange(30))
    assert place.cluster.machines[OTHER].current.fatal is None
