"""Brokers in virtual time find a flipped bit in a closed segment, do not serve it or lead from it, and repair it."""

from __future__ import annotations

import errno
import logging
from random import Random

import pytest
from plain_requests import a_deletion_of_records
from three_replicas import BATCHES, ThreeReplicas, a_fetch, a_produce, alone, everything

from ottla.broker.replicas.fetcher import LeaderFetch
from ottla.broker.replicas.repairs import Repairs
from ottla.broker.replicas.scrubber import HOUR_MS
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.story import Slot, run_story
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.records.batch import iterate_batches
from ottla.storage.directory.refetch import Refetched
from ottla.storage.maintenance.scrub import ScrubFinding, check_all
from ottla.storage.segment.closed import ClosedSegment
from ottla.storage.segment.names import LOG
from ottla.storage.segment.scan import scan_headers
from ottla.storage.syncing import CHECKPOINT_BYTES

PLACES = {"base offset": 7, "length": 9, "epoch": 13, "magic": 16, "crc": 18, "count": 58, "records": 70, "last": -1}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_damaged_follower_fetches_the_segment_anew_and_stays_in_sync(place):
    cluster = ThreeReplicas()
    damaged = cluster.followers()[0]
    segment = cluster.rot(damaged, 1, place if place >= 0 else cluster.log(damaged).segments[1].size + place)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1)
    assert cluster.values(damaged) == everything()
    assert not cluster.log(damaged).damage
    assert segment not in cluster.log(damaged).segments
    assert cluster.state().in_sync == cluster.state().replicas
    assert cluster.values(cluster.leader) == everything()
    cluster.produce(BATCHES)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_damaged_leader_hands_over_and_is_repaired_as_a_follower(place):
    cluster = ThreeReplicas()
    damaged = cluster.leader
    segment = cluster.rot(damaged, 1, place if place >= 0 else cluster.log(damaged).segments[1].size + place)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: cluster.leader != damaged)
    answer = cluster.read(damaged, segment.base_offset)  # a follower serves consumers too, up to the damage
    if answer.error_code == ErrorCode.NONE:
        assert place == -1 and all(batch.crc_holds() for batch in iterate_batches(answer.records))
    else:
        assert answer.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1)
    assert cluster.values(damaged) == everything()
    assert len(cluster.state().in_sync) == 3
    cluster.cluster.until(lambda: cluster.cluster.node(cluster.leader).replicas.by_name[("t", 0)].leader is not None)
    cluster.produce(BATCHES)


def test_between_its_discovery_and_the_next_leader_damage_is_refused_and_clients_ask_again():
    cluster = ThreeReplicas()
    damaged = cluster.leader
    segment = cluster.rot(damaged)
    told = []
    look = Repairs.look

    def looked(self, partition):
        """Do not resign yet, as if the store were slow."""
        told.append(partition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Repairs, "look", looked)
        cluster.scrub(damaged)
        cluster.cluster.until(lambda: bool(told))
        assert cluster.read(damaged, segment.base_offset).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        behind = cluster.read(damaged, segment.next_offset)
        assert behind.error_code == ErrorCode.NONE and behind.records
    look(cluster.cluster.node(damaged).repairs, told[0])
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1)


def test_two_replicas_that_are_damaged_in_different_places_repair_one_another():
    cluster = ThreeReplicas()
    others = cluster.followers()
    cluster.cluster.kill(others[1])
    cluster.cluster.until(lambda: len(cluster.state().in_sync) == 2, 60_000)
    first, second = cluster.leader, others[0]
    cluster.rot(first, 0)
    cluster.rot(second, 2)
    cluster.scrub(first)
    cluster.scrub(second)
    cluster.cluster.until(lambda: cluster.repaired(first) == cluster.repaired(second) == 1, 300_000)
    assert cluster.values(first) == cluster.values(second) == everything()


def test_alone_in_sync_it_leads_on_and_deletes_nothing_until_another_has_come():
    cluster = ThreeReplicas()
    alone = cluster.leader
    others = cluster.followers()
    for number in others:
        cluster.cluster.kill(number)
    cluster.cluster.until(lambda: cluster.state().in_sync == (alone,), 60_000)
    segment = cluster.rot(alone)
    size = segment.size
    cluster.scrub(alone)
    cluster.cluster.until(lambda: bool(cluster.log(alone).damage))
    cluster.cluster.loop.run_for(20_000)
    assert cluster.leader == alone
    assert cluster.log(alone).segments[0] is segment and segment.size == size
    assert cluster.read(alone, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.read(alone, segment.next_offset).error_code == ErrorCode.NONE
    cluster.cluster.start(others[0])
    cluster.cluster.until(lambda: cluster.repaired(alone) == 1, 60_000)
    assert cluster.leader == others[0]
    assert cluster.values(alone) == everything()


def test_a_damaged_replica_that_is_elected_gives_the_leadership_away_and_nothing_is_lost():
    cluster = ThreeReplicas()
    leader, (damaged, third) = cluster.leader, cluster.followers()
    cluster.cluster.network.block(f"broker-{damaged}", f"broker-{leader}")  # so that no repair comes first
    cluster.rot(damaged)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: bool(cluster.log(damaged).damage))
    cluster.cluster.kill(leader)
    cluster.cluster.until(lambda: cluster.state().leader == third and cluster.repaired(damaged) == 1, 60_000)
    assert cluster.values(damaged) == cluster.values(third) == everything()


def test_damage_is_known_after_a_restart():
    cluster = ThreeReplicas()
    leader, damaged = cluster.leader, cluster.followers()[0]
    cluster.cluster.network.block(f"broker-{damaged}", f"broker-{leader}")
    cluster.rot(damaged)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: bool(cluster.log(damaged).damage))
    cluster.cluster.end_of(cluster.cluster.machines[damaged].current.stop(clean=True))
    cluster.cluster.machines[damaged].vanish()
    cluster.cluster.network.unblock_all()
    cluster.cluster.start(damaged)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1, 60_000)
    assert cluster.values(damaged) == everything()


def test_a_disk_that_is_full_in_the_middle_of_the_swap_fails_and_the_next_start_sees_to_it():
    """The log then takes no more records; it must not stay so, out of sync, on a broker that goes on."""
    cluster = ThreeReplicas()
    damaged = cluster.followers()[0]
    machine = cluster.cluster.machines[damaged]
    cluster.rot(damaged)
    machine.disk.fail("rename", errno.ENOSPC, where=".log.swap")
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: machine.current.fatal is not None)
    machine.vanish()
    cluster.cluster.start(damaged)
    cluster.cluster.until(lambda: cluster.log(damaged).end_offset == BATCHES and not cluster.log(damaged).damage)
    assert cluster.values(damaged) == everything()


def test_a_full_disk_that_cannot_forget_damage_ends_no_repair():
    cluster = ThreeReplicas()
    leader, damaged = cluster.leader, cluster.followers()[0]
    cluster.cluster.network.block(f"broker-{damaged}", f"broker-{leader}")
    held, disk = cluster.log(damaged), cluster.cluster.machines[damaged].disk
    cluster.rot(damaged, 0)
    cluster.rot(damaged, 2)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: len(held.damage.bases) == 2)
    held.delete_records_before(held.bases[1])
    held.apply_retention(cluster.cluster.loop.wall_ms())
    disk.capacity_bytes = disk.used_bytes()
    cluster.cluster.until(lambda: len(held.damage.bases) == 1)
    disk.capacity_bytes = 1 << 62
    cluster.cluster.network.unblock_all()
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1, 60_000)
    assert cluster.values(damaged, held.log_start_offset) == everything()[held.log_start_offset :]


def test_of_a_compacted_log_all_that_is_closed_is_fetched():
    """Fetching a part alone could bring back a record whose tombstone is gone here."""
    cluster = ThreeReplicas(cleanup_policy="compact")
    damaged = cluster.followers()[0]
    cluster.rot(damaged, 1)
    before = cluster.log(damaged).segments[:-1]
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1)
    assert not set(before) & set(cluster.log(damaged).segments)
    assert cluster.values(damaged) == everything()


def test_a_follower_that_finds_its_end_damaged_when_it_starts_is_built_anew_from_its_leader():
    """The damage is below the recovery point, so it is no torn end: no receipt before the log is whole."""
    cluster = ThreeReplicas()
    damaged = cluster.followers()[0]
    node = cluster.cluster.node(damaged)
    cluster.produce(BATCHES)  # begins a segment
    cluster.log(damaged).syncing._checkpoint_at = -CHECKPOINT_BYTES  # the next sync takes the indexes along
    cluster.produce(BATCHES + 1)
    cluster.cluster.until(lambda: cluster.log(damaged).recovery_point == BATCHES + 2)
    node.replicas.upkeep.checkpoint_recovery_points()
    active = cluster.log(damaged).active
    cluster.cluster.kill(damaged)
    cluster.cluster.machines[damaged].disk.flip_bit(active.path(LOG), 65)
    cluster.cluster.start(damaged)
    cluster.cluster.until(lambda: len(cluster.state().in_sync) == 3, 60_000)
    assert cluster.log(damaged).damaged_at is None
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1, 60_000)
    assert cluster.values(damaged) == everything(BATCHES + 2)
    cluster.produce(BATCHES + 2)


def test_a_replica_whose_end_was_found_damaged_does_not_count_until_it_has_caught_up():
    """A bit flips above the recovery point and the broker is killed: only the high watermark proves the end."""
    cluster = ThreeReplicas()
    damaged, healthy = cluster.followers()
    leader = cluster.leader
    cluster.cluster.until(lambda: cluster.log(damaged).high_watermark == BATCHES)
    cluster.cluster.node(damaged).replicas.upkeep.checkpoint_high_watermarks()
    active = cluster.log(damaged).active
    cluster.cluster.kill(damaged)
    cluster.cluster.machines[damaged].disk.flip_bit(active.path(LOG), 65)
    for other in (leader, healthy):
        cluster.cluster.network.block(f"broker-{damaged}", f"broker-{other}")
    cluster.cluster.start(damaged)
    assert cluster.log(damaged).end_offset == BATCHES and cluster.log(damaged).damage.covers(active.base_offset)
    cluster.cluster.until(
        lambda: damaged not in cluster.cluster.node(healthy).metadata.topic("t").partitions[0].in_sync
    )
    cluster.cluster.network.unblock_all()
    cluster.cluster.until(lambda: len(cluster.state().in_sync) == 3, 60_000)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1, 60_000)
    assert cluster.values(damaged) == everything()


def test_a_log_that_is_being_compacted_is_repaired_afterwards():
    """Compaction has already read from the segment that the repair replaces."""
    cluster = ThreeReplicas(cleanup_policy="compact")
    damaged = cluster.followers()[0]
    node = cluster.cluster.node(damaged)
    cluster.rot(damaged)
    node.compactor._working_on = node.replicas.by_name["t", 0]
    cluster.scrub(damaged)
    cluster.cluster.loop.run_for(20_000)
    assert cluster.repaired(damaged) == 0 and cluster.log(damaged).damage
    node.compactor._working_on = None
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1, 60_000)
    assert not cluster.log(damaged).damage


def test_a_log_that_compaction_found_damaged_is_compacted_once_it_is_repaired():
    cluster = ThreeReplicas(cleanup_policy="compact")
    damaged = cluster.followers()[0]
    compactor = cluster.cluster.node(damaged).compactor
    cluster.rot(damaged)
    compactor.round()
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1, 60_000)
    for number in range(BATCHES, 2 * BATCHES):
        cluster.produce(number)
    cluster.cluster.until(lambda: compactor.runs > 0, 120_000)


def test_a_segment_that_the_log_starts_in_is_repaired_from_there_on():
    """Records below have been deleted everywhere; the leader names its log start."""
    cluster = ThreeReplicas()
    damaged = cluster.followers()[0]
    answer = cluster.cluster.ask(cluster.leader, a_deletion_of_records(2))
    assert answer.topics[0].partitions[0].low_watermark == 2
    cluster.rot(damaged, position=cluster.log(damaged).segments[0].size - 1)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1)
    cluster.scrub(damaged)
    assert not cluster.log(damaged).damage
    assert cluster.values(damaged, 2) == everything()[2:]


def test_a_repair_of_records_that_the_leader_has_deleted_leaves_no_hole_if_this_replica_comes_to_lead(monkeypatch):
    """World 227019: the deletion reached the leader only, and it was the repair that met it first."""
    cluster = ThreeReplicas()
    leader, damaged = cluster.leader, cluster.followers()[0]
    take = LeaderFetch._take
    monkeypatch.setattr(
        LeaderFetch, "_take", lambda self, *answer: self._around.broker == damaged or take(self, *answer)
    )  # its fetches are answered, but it hears none of the answers
    start = cluster.log(damaged).segments[2].base_offset
    cluster.log(leader).delete_records_before(start)
    cluster.rot(damaged, 1)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == 1 or not cluster.log(damaged).damage)
    begins = cluster.log(damaged).log_start_offset
    assert cluster.values(damaged, begins) == everything()[begins:]


# found by a read


def test_a_follower_that_refuses_what_it_is_sent_makes_the_leader_look(caplog):
    cluster = ThreeReplicas()
    leader, behind = cluster.leader, cluster.followers()[0]
    healthy = cluster.followers()[1]
    cluster.cluster.kill(behind)
    cluster.cluster.machines[behind].disk.remove_tree("/data/t-0")  # it has to fetch everything again
    cluster.rot(leader, 1)
    cluster.cluster.start(behind)
    cluster.cluster.until(lambda: cluster.leader == healthy, 60_000)
    cluster.cluster.until(lambda: cluster.log(behind).end_offset == BATCHES, 60_000)
    cluster.cluster.until(lambda: cluster.repaired(leader) == 1, 60_000)
    assert cluster.values(behind) == cluster.values(leader) == everything()
    refusals = [record.getMessage() for record in caplog.records if "refused what its leader sent" in record.msg]
    assert len(refusals) == 1, "said once, not with every try"
    assert any("again and again" in record.msg for record in caplog.records)


def test_a_repair_waits_while_the_leader_is_damaged_in_the_same_place():
    cluster = ThreeReplicas()
    leader, damaged = cluster.leader, cluster.followers()[0]
    cluster.rot(damaged)
    cluster.rot(leader)
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: cluster.repaired(damaged) == cluster.repaired(leader) == 1, 300_000)
    assert cluster.leader not in (leader, damaged), "the third was sound"
    assert all(cluster.values(number) == everything() for number in (1, 2, 3))


class Storm:
    """Records, flipped bits, scrubs and kills in a random order; at most one copy of a record is damaged."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.place = ThreeReplicas()
        self.acknowledged = dict(enumerate(everything()))
        self.written = BATCHES
        self.rotten = []
        """(broker, offsets) of each flipped bit."""
        self.flips = 0

    def run(self, steps):
        for _ in range(steps):
            self.random.choice([self.write, self.write, self.rot, self.scrub, self.scrub, self.restart])()
            self.place.cluster.loop.run_for(self.random.choice((1, 20, 300, 3000)))

    def write(self):
        for _ in range(self.random.randint(1, 8)):
            request = a_produce(self.written)
            answer = self.place.cluster.ask(self.place.leader, request, most=9).responses[0].partition_responses[0]
            if answer.error_code == ErrorCode.NONE:
                self.acknowledged[answer.base_offset] = b"value-%04d" % self.written
            self.written += 1

    def rot(self):
        number = self.random.choice((1, 2, 3))
        log = self.place.log(number)
        segment = self.random.choice(log.segments)
        self.rotten = [one for one in self.rotten if not self.is_sound(*one)]
        if segment is log.active or segment.next_offset > log.recovery_point:
            return
        if any(first < segment.next_offset and segment.base_offset < end for _, first, end in self.rotten):
            return
        size = segment.size // len(list(scan_headers(segment.file, 0, segment.size)))
        position = self.random.randrange(segment.size)
        if 12 <= position % size < 16:
            return  # an epoch, in which not every flip can be detected
        self.place.cluster.node(number).replicas.upkeep.checkpoint_recovery_points()
        self.rotten.append((number, segment.base_offset, segment.next_offset))
        self.flips += 1
        disk = self.place.cluster.machines[number].disk
        disk.flip_bit(segment.path(LOG), position, self.random.randrange(8))

    def is_sound(self, number, first, end):
        log = self.place.log(number)
        told = [
            ClosedSegment(one.path(LOG), one.base_offset, one.next_offset, one.size)
            for one in log.segments[:-1]
            if one.base_offset < end and first < one.next_offset
        ]
        return not any(isinstance(step, ScrubFinding) for step in check_all(log.disk, told))

    def scrub(self):
        self.begin_pass(self.random.choice((1, 2, 3)))

    def begin_pass(self, number):
        (directory,) = self.place.cluster.node(number).replicas.directories.online
        directory.offsets.note_scrubbed({TopicPartition("t", 0): 0})
        self.place.scrub(number)

    def restart(self):
        number = self.random.choice((1, 2, 3))
        self.place.cluster.kill(number)
        self.place.cluster.loop.run_for(self.random.choice((1, 5000)))
        self.place.cluster.start(number)
        self.place.cluster.until(lambda: all(self.serves(each) for each in (1, 2, 3)), 60_000)

    def serves(self, number):
        return ("t", 0) in self.place.cluster.node(number).replicas.by_name and self.place.leader > 0

    def all_sound(self):
        for number in (1, 2, 3):
            self.begin_pass(number)
        self.place.cluster.loop.run_for(2000)
        return all(self.is_sound(number, 0, self.written) for number in (1, 2, 3))


@pytest.mark.parametrize("seed", range(6))
def test_whatever_order_things_come_in_all_replicas_end_alike_and_sound(seed):
    storm = Storm(seed)
    storm.run(steps=50)
    assert storm.flips > 1 and len(storm.acknowledged) > BATCHES
    assert any(storm.all_sound() for _ in range(200))
    cluster = storm.place
    cluster.cluster.until(lambda: len(cluster.state().in_sync) == 3, 60_000)
    values = cluster.values(1)
    assert cluster.values(2) == cluster.values(3) == values
    assert {offset: values[offset] for offset in storm.acknowledged} == storm.acknowledged


def test_a_coordinator_that_cannot_read_its_log_has_it_closed_checked_and_repaired():
    """The damage is in the active segment, which is closed first: only closed segments are checked."""
    cluster = ThreeReplicas()
    leader = cluster.leader
    active = cluster.log(leader).active
    node = cluster.cluster.node(leader)
    cluster.produce(BATCHES)
    cluster.cluster.machines[leader].disk.flip_bit(cluster.log(leader).active.path(LOG), 65)
    assert cluster.log(leader).active is not active
    node.replicas.by_name[("t", 0)].suspect(BATCHES)
    cluster.cluster.until(lambda: cluster.repaired(leader) == 1, 60_000)
    assert cluster.leader != leader
    assert cluster.values(leader) == everything(BATCHES + 1)


# the pass


def test_a_pass_goes_over_all_segments_once_in_each_interval():
    cluster = ThreeReplicas(scrub_hours="0.05")
    node = cluster.cluster.node(1)
    everything_here = cluster.log(1).size_bytes
    node.scrubber.round()
    cluster.cluster.until(lambda: node.scrubber.passes == 1)
    assert node.scrubber.checked_bytes == everything_here
    node.scrubber.round()
    cluster.cluster.loop.run_for(1000)
    assert node.scrubber.passes == 1, "the next is not due"
    cluster.cluster.until(lambda: node.scrubber.passes == 2, 2 * 180_000)
    assert node.scrubber.passes == 2
    assert node.scrubber.checked_bytes == 2 * everything_here


def test_a_scrub_that_is_switched_off_reads_nothing():
    place, _ = alone(scrub_hours="0")
    place.loop.run_for(301_000)
    place.here.node.scrubber.round()
    place.loop.run_for(1000)
    scrubber = place.here.node.scrubber
    assert (scrubber.passes, scrubber.checked_bytes) == (0, 0)


# alone


def test_the_only_replica_refuses_what_is_damaged_by_name_and_serves_and_takes_the_rest():
    place, partition = alone()
    segment = partition.log.segments[1]
    place.machine.disk.flip_bit(segment.path(LOG), 65)
    place.here.node.scrubber.round()
    assert place.loop.run_until(lambda: bool(partition.log.damage), within_ms=5000)
    (extent,) = partition.log.damage.of(segment.base_offset)

    def read(offset):
        return place.ask(a_fetch(partition.topic_id, offset)).responses[0].partitions[0]

    assert read(extent.first_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    assert read(extent.next_offset).error_code == ErrorCode.NONE
    assert read(0).error_code == ErrorCode.NONE
    answer = place.ask(a_produce(BATCHES), most=9).responses[0].partition_responses[0]
    assert answer.base_offset == BATCHES
    place.restart(clean=True)
    partition = place.here.node.replicas.by_name[("t", 0)]
    assert read(extent.first_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    assert place.here.node.repairs.damaged_segments() == 1


def test_damage_that_is_gone_when_a_pass_comes_to_it_again_is_forgotten():
    """A disk controller returned wrong bytes once; the only replica reads right bytes in the next pass."""
    place, partition = alone(scrub_hours="1", retention_ms="-1")
    path = partition.log.segments[0].path(LOG)
    sound = partition.log.read(0, 1 << 20, limit_offset=1)
    place.machine.disk.flip_bit(path, 65)
    place.here.node.scrubber.suspect(partition, 0)
    assert place.loop.run_until(lambda: bool(partition.log.damage), within_ms=5000)
    known = partition.log.damage.of(0)
    passes = place.here.node.scrubber.passes

    def another_pass():
        nonlocal passes
        passes += 1
        assert place.loop.run_until(lambda: place.here.node.scrubber.passes >= passes, within_ms=2 * HOUR_MS)

    another_pass()
    assert partition.log.damage.of(0) == known and place.here.node.scrubber.damaged_segments == 1
    place.machine.disk.flip_bit(path, 65)
    another_pass()
    assert not partition.log.damage
    assert partition.log.read(0, 1 << 20, limit_offset=1).data() == sound.data()


def test_damage_that_retention_takes_away_is_forgotten():
    place, partition = alone()
    place.machine.disk.flip_bit(partition.log.segments[0].path(LOG), 65)
    place.here.node.scrubber.round()
    assert place.loop.run_until(lambda: bool(partition.log.damage), within_ms=5000)
    partition.log.delete_records_before(partition.log.bases[1])
    partition.log.apply_retention(place.loop.wall_ms())
    assert place.loop.run_until(lambda: not partition.log.damage, within_ms=10_000)


# behind damage nothing is written


def test_a_replica_that_must_be_cut_behind_damage_that_nobody_knew_of_keeps_what_is_committed():
    """A closed segment holds the last committed and the first uncommitted records; a length has a flipped bit."""
    cluster = ThreeReplicas()
    leader = cluster.leader
    heir, damaged = [number for number in cluster.state().replicas if number != leader]
    committed = BATCHES + 3
    for number in range(BATCHES, committed):
        cluster.produce(number)
    cluster.cluster.until(lambda: cluster.log(damaged).high_watermark == committed)
    cluster.cluster.network.block(f"broker-{leader}", f"broker-{heir}")
    for number in range(committed, committed + 12):
        request = a_produce(number)
        request.acks = 1
        assert cluster.cluster.ask(leader, request, most=9).responses[0].partition_responses[0].base_offset == number
    cluster.cluster.until(lambda: cluster.log(damaged).end_offset == committed + 12)
    held = cluster.log(damaged)
    at = held.chain.at(committed - 1)
    segment, found = held.locate(committed - 1)
    assert segment is held.segments[at] is not held.active and segment.next_offset > committed
    cluster.rot(damaged, at, found.position + 9)
    segment.forget_recent()
    cluster.cluster.kill(leader)
    cluster.cluster.until(lambda: held.damaged_at is not None, 60_000)
    assert cluster.leader == heir
    assert held.high_watermark == committed and held.end_offset == committed + 12
    cluster.cluster.network.unblock_all()
    cluster.cluster.start(leader)
    cluster.cluster.until(lambda: cluster.log(damaged) is not held and len(cluster.state().in_sync) == 3, 20_000)
    assert cluster.values(damaged) == cluster.values(leader) == everything(committed)
    cluster.produce(committed)


def test_one_that_must_be_cut_behind_damage_and_comes_to_lead_gives_the_leadership_away():
    cluster = ThreeReplicas()
    leader = cluster.leader
    heir, damaged = [number for number in cluster.state().replicas if number != leader]
    stopped = cluster.log(damaged)
    cluster.rot(damaged, position=9)
    stopped.segments[0].forget_recent()
    stopped.truncate_to(stopped.segments[0].next_offset - 1)
    assert stopped.damaged_at is not None
    cluster.cluster.kill(heir)
    cluster.cluster.kill(leader)
    cluster.cluster.until(lambda: cluster.leader == damaged, 60_000)
    cluster.cluster.start(heir)
    cluster.cluster.until(lambda: cluster.leader == heir, 60_000)
    cluster.cluster.until(lambda: cluster.log(damaged) is not stopped and damaged in cluster.state().in_sync, 20_000)
    assert cluster.values(damaged) == everything()


def test_a_suspicion_that_meets_a_disk_that_fails_takes_the_directory_offline():
    """Otherwise the log would take no more records, and still be led from here."""
    place, partition = alone()
    active = partition.log.active
    place.machine.disk.flip_bit(active.path(LOG), 9)
    active.forget_recent()
    place.machine.disk.fail("create", errno.EIO, where=".log")
    run_story(place.peer().ask(a_fetch(partition.topic_id, active.base_offset)))
    assert place.loop.run_until(lambda: partition.log.refusing, within_ms=5000)
    assert place.here.fatal is not None


def test_a_pass_that_comes_back_after_its_topic_is_deleted_leaves_the_directory_alone():
    """Removed files must not be noted as sound, and there is no place left for notes about them."""
    place, partition = alone()
    scrubber = place.here.node.scrubber
    place.machine.disk.flip_bit(partition.log.segments[0].path(LOG), 65)
    scrubber.suspect(partition, 0)
    assert place.loop.run_until(lambda: bool(partition.log.damage), within_ms=5000)
    under_way = Slot()
    scrubber._work.run = lambda segments, *, max_bytes_per_second: under_way
    scrubber.round()
    place.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), most=6)
    assert place.loop.run_until(
        lambda: not any(name.startswith("t-0") for name in place.machine.disk.list("/data")), within_ms=5000
    )
    under_way.fill([])
    place.loop.run_for(1000)
    assert place.here.fatal is None


def test_a_replica_out_of_sync_that_must_be_cut_behind_damage_begins_anew_at_once():
    """No other event in the cluster would make the replica look again."""
    cluster = ThreeReplicas()
    leader = cluster.leader
    others = [number for number in cluster.state().replicas if number != leader]
    committed = BATCHES + 3
    for number in range(BATCHES, committed):
        cluster.produce(number)
    for number in others:
        cluster.cluster.network.block(f"broker-{leader}", f"broker-{number}")
    for number in range(committed, committed + 24):
        request = a_produce(number)
        request.acks = 1
        assert cluster.cluster.ask(leader, request, most=9).responses[0].partition_responses[0].base_offset == number
    held = cluster.log(leader)
    cluster.cluster.until(lambda: held.synced_offset == committed + 24 and held.recovery_point > committed + 9)
    cluster.cluster.node(leader).replicas.upkeep.checkpoint_recovery_points()
    segment, found = held.locate(committed - 1)
    assert committed < segment.next_offset < held.recovery_point
    path, position = segment.path(LOG), found.position
    cluster.cluster.kill(leader)
    cluster.cluster.machines[leader].disk.flip_bit(path, position + 9)
    cluster.cluster.until(lambda: cluster.state().leader in others and leader not in cluster.state().in_sync)
    cluster.cluster.network.unblock_all()
    cluster.cluster.start(leader)
    cluster.cluster.until(lambda: len(cluster.state().in_sync) == 3, 20_000)
    values = cluster.values(leader)
    assert values == cluster.values(cluster.leader) and values[:committed] == everything(committed)


@pytest.mark.parametrize("begun", [True, False], ids=["while it is synced", "before its indexes are written"])
def test_a_topic_that_is_deleted_while_its_segment_is_fetched_anew_leaves_the_directory_alone(monkeypatch, begun):
    cluster = ThreeReplicas()
    damaged = cluster.followers()[0]
    machine, node = cluster.cluster.machines[damaged], cluster.cluster.node(damaged)
    cluster.rot(damaged, 1)
    fetched = []
    submit = node.around.syncer.submit
    monkeypatch.setattr(
        node.around.syncer, "submit", lambda one: (fetched.append if isinstance(one, Refetched) else submit)(one)
    )
    cluster.scrub(damaged)
    cluster.cluster.until(lambda: bool(fetched))
    machine.set_sync_us((2_000_000, 2_000_000))
    if begun:
        submit(fetched[0])
    cluster.cluster.ask(
        cluster.leader, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), most=6
    )
    cluster.cluster.until(lambda: "t-0" not in machine.disk.list("/data"))
    assert not fetched[0].synced().full
    if not begun:
        submit(fetched[0])
    cluster.cluster.until(lambda: not node.repairs._busy)
    cluster.cluster.loop.run_for(1000)
    assert machine.current is not None and machine.current.fatal is None


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_a_sound_segment_is_built_anew_by_the_scrub_and_said_once(suffix, caplog):
    place, partition = alone(internal_segment_bytes="2000", index_interval_bytes="200")
    segment = partition.log.segments[0]
    path = segment.path(suffix)
    before = place.machine.disk.read(path)
    assert len(before) > 24
    file = place.machine.disk.open(path)
    file.truncate(0)
    file.release()
    with caplog.at_level(logging.WARNING):
        place.here.node.scrubber.round()
        assert place.loop.run_until(lambda: place.machine.disk.read(path) == before, within_ms=60_000)
        place.loop.run_for(60_000)
        place.here.node.scrubber.round()
        place.loop.run_for(60_000)
    (line,) = [each for each in caplog.messages if "was built anew" in each]
    assert f"t-0, offsets 0 to {segment.next_offset - 1}, {segment.size} bytes: an index of {segment.path(LOG)}" in line
    assert not partition.log.damage


def test_a_batch_that_rots_in_the_last_segment_is_found_by_the_scrub_and_refused():
    place, partition = alone(internal_segment_bytes="100000")
    active = partition.log.active
    place.machine.disk.flip_bit(active.path(LOG), active.size // 2 + 40)
    place.here.node.scrubber.round()
    assert place.loop.run_until(lambda: bool(partition.log.damage), within_ms=60_000)
    (extent,) = partition.log.damage.of(active.base_offset)
    assert 0 < extent.first_offset < extent.next_offset < BATCHES
    assert partition.log.active is not active, "only what is closed can be repaired"
    passes = place.here.node.scrubber.passes
    assert place.loop.run_until(lambda: place.here.node.scrubber.passes > passes, within_ms=60_000)
    answer = place.ask(a_produce(BATCHES), most=9).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NONE and answer.base_offset == BATCHES


def test_a_scrub_leaves_a_sound_last_segment_open():
    place, partition = alone(internal_segment_bytes="100000")
    active = partition.log.active
    place.here.node.scrubber.round()
    assert place.loop.run_until(lambda: place.here.node.scrubber.passes == 1, within_ms=60_000)
    assert partition.log.active is active and not partition.log.damage
    assert place.here.node.scrubber.checked_bytes >= active.size
