"""Brokers in virtual time find a damaged log at their start: they serve sound records, and no damage spreads."""

from __future__ import annotations

import logging

import pytest
from three_replicas import BATCHES, ThreeReplicas, a_fetch, a_produce, alone, everything

from ottla.kernel.errors import ErrorCode
from ottla.storage.segment.names import DELETED, LOG


def test_the_only_replica_serves_what_is_sound_around_damage_and_counts_it(caplog):
    """The broker was killed without a checkpoint; the batches after the damage prove that records were there."""
    place, partition = alone(internal_segment_bytes="100000")
    path, size = partition.log.active.path(LOG), partition.log.active.size
    place.machine.disk.flip_bit(path, size // 4, 6)
    with caplog.at_level(logging.WARNING):
        place.machine.vanish()
        place.start()
    partition = place.here.node.replicas.by_name[("t", 0)]
    (extent,) = partition.log.damage.of(0)
    (line,) = [record.message for record in caplog.records if record.name == "ottla.replicas"]
    assert (
        f"t-0, offsets {extent.first_offset} to {extent.next_offset - 1}, {extent.end - extent.position} bytes" in line
    )

    def read(offset):
        return place.ask(a_fetch(partition.topic_id, offset)).responses[0].partitions[0]

    assert read(0).error_code == ErrorCode.NONE and read(0).records
    assert read(extent.first_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    assert read(extent.next_offset).error_code == ErrorCode.NONE and read(extent.next_offset).records
    assert place.here.node.repairs.damaged_segments() == 1
    answer = place.ask(a_produce(BATCHES), most=9).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NONE and answer.base_offset == BATCHES
    assert place.machine.disk.file_size(path) == size, "what is damaged is kept"


def test_a_leader_that_lost_its_first_segment_makes_nobody_delete_it():
    """The leader comes back, leads, and names its old log start; then it hands over and fetches the segment again."""
    cluster = ThreeReplicas()
    leader, (other, third) = cluster.leader, cluster.followers()
    first = cluster.log(leader).segments[0].path(LOG)
    cluster.cluster.end_of(cluster.cluster.machines[leader].current.stop(clean=True))
    cluster.cluster.machines[leader].vanish()
    cluster.cluster.machines[leader].disk.remove(first)
    cluster.cluster.start(leader)
    cluster.cluster.until(lambda: len(cluster.state().in_sync) == 3, 60_000)
    assert cluster.log(leader).log_start_offset == 0
    cluster.cluster.until(lambda: cluster.repaired(leader) == 1, 60_000)
    for number in (leader, other, third):
        assert cluster.log(number).log_start_offset == 0
        assert cluster.values(number) == everything()
    cluster.produce(BATCHES)


@pytest.mark.parametrize("body", ["whole", "empty"])
def test_a_leader_whose_first_segment_is_named_deleted_makes_nobody_delete_it(body):
    """A name moves no start: a whole segment gets its old name back, and an empty one is fetched again."""
    cluster = ThreeReplicas()
    leader = cluster.leader
    first = cluster.log(leader).segments[0].path(LOG)
    cluster.cluster.end_of(cluster.cluster.machines[leader].current.stop(clean=True))
    cluster.cluster.machines[leader].vanish()
    disk = cluster.cluster.machines[leader].disk
    disk.rename(first, first + DELETED)
    if body == "empty":
        disk.open(first + DELETED).truncate(0)
    cluster.cluster.start(leader)
    cluster.cluster.until(lambda: len(cluster.state().in_sync) == 3, 60_000)
    cluster.cluster.until(lambda: cluster.repaired(leader) == (body == "empty"), 60_000)
    for number in (leader, *cluster.followers()):
        assert cluster.log(number).log_start_offset == 0
        assert cluster.values(number) == everything()
    cluster.produce(BATCHES)


def test_an_end_that_was_lost_is_fetched_again_and_leads_nobody_before():
    """A leader's active segment is emptied while it is down; its checkpoints prove that records were there."""
    cluster = ThreeReplicas()
    leader = cluster.leader
    active = cluster.log(leader).active
    assert active.size
    cluster.cluster.end_of(cluster.cluster.machines[leader].current.stop(clean=True))
    cluster.cluster.machines[leader].vanish()
    file = cluster.cluster.machines[leader].disk.open(active.path(LOG))
    file.truncate(0)
    file.release()
    cluster.cluster.start(leader)
    assert cluster.log(leader).end_offset == BATCHES and cluster.log(leader).recovered.lacks_end
    cluster.cluster.until(lambda: cluster.repaired(leader) == 1 and len(cluster.state().in_sync) == 3, 60_000)
    for number in (1, 2, 3):
        assert cluster.values(number) == everything()
