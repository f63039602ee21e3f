"""The invariants find each kind of fault: three replicas in order, then one fault."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from clusters import create, register, topic_id
from log_desk import a_batch, a_log, put

from ottla.cluster.broker_commands import FenceBroker
from ottla.cluster.commands import (
    ChangeInSync,
    Command,
    CommandWriter,
    ConfigEdit,
    ConfigOperation,
    DeleteTopic,
    EditConfigs,
    ReplicaEpoch,
)
from ottla.cluster.decide import decide
from ottla.coordination.memory import MemoryStore
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import BrokerId, PartitionEpoch, TopicPartition
from ottla.metadata.entries import Body, PartitionsChanged, encode_entry
from ottla.metadata.state import TOPIC_RESOURCE, Metadata
from ottla.sim.checkers.decay import Flipped
from ottla.sim.checkers.invariants import Invariants
from ottla.sim.disk import SimDisk
from ottla.storage.checkpoint import write_partition_metadata
from ottla.storage.segment.names import LOG

TOPIC = "t"
KEY = (topic_id(TOPIC), 0)
FOLDER = f"/data/{TOPIC}-0"


def directories(failed: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The part of a broker's log directories that a judge looks at."""
    return SimpleNamespace(failed=failed, incarnations=SimpleNamespace(older={}))


class Replica:
    """One broker's disk and log, and the state of its Partition."""

    def __init__(self, number: int) -> None:
        self.disk = SimDisk()
        self.log = a_log(self.disk, directory=FOLDER)
        write_partition_metadata(self.disk, FOLDER, topic_id(TOPIC))
        if number == 1:
            self.log.begin_epoch(0)
        self.partition: Any = SimpleNamespace(
            topic=TOPIC,
            index=0,
            log=self.log,
            leader_epoch=0,
            leader=SimpleNamespace(registered={}) if number == 1 else None,
        )
        self.machine: Any = SimpleNamespace(
            broker_id=BrokerId(number), disk=self.disk, directories=("/data", "/more"), store_is_older=False, past=[]
        )
        self.restart()

    def restart(self) -> None:
        """Another incarnation over the same log."""
        node = SimpleNamespace(replicas=SimpleNamespace(by_id={KEY: self.partition}, directories=directories()))
        self.machine.current = SimpleNamespace(node=node, machine=self.machine)

    def write(self, value: bytes, *, synced: bool = True) -> None:
        put(self.log, a_batch(value))
        if synced:
            self.log.sync_now()


class Place:
    """Three brokers, all in sync, led by the first; min.insync.replicas is two."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.state = Metadata()
        self.replicas = {number: Replica(number) for number in (1, 2, 3)}
        machines = {BrokerId(number): replica.machine for number, replica in self.replicas.items()}
        self.invariants = Invariants(self.store, machines, 2)
        for number in (1, 2, 3):
            self.do(register(number))
        self.do(create(TOPIC, -1, -1, min_insync_replicas="2")._replace(assignment=((1, 2, 3),)))
        assert self.look() == []

    def do(self, command: Command, by: int = 1) -> None:
        broker = self.state.brokers.get(BrokerId(by))
        decided = decide(command, self.state, CommandWriter(BrokerId(by), broker.epoch if broker else -1))  # type: ignore[arg-type]
        assert not isinstance(decided, ApiError)
        for body in decided:
            self.append(body)

    def append(self, body: Body) -> None:
        """Append a metadata entry, without a decision."""
        self.store.append([encode_entry(body, broker_epoch=1, sequence=self.state.version)], self.state.version)
        self.state.apply(self.state.version + 1, body)

    def in_sync(self, *numbers: int) -> None:
        partition = self.state.topics[topic_id(TOPIC)].partitions[0]
        members = tuple(ReplicaEpoch(BrokerId(each), self.state.brokers[BrokerId(each)].epoch) for each in numbers)
        epoch = PartitionEpoch(partition.partition_epoch)
        self.do(ChangeInSync(topic_id(TOPIC), 0, partition.leader_epoch, epoch, members))

    def look(self) -> list[str]:
        found = list(self.invariants.after_append())
        for replica in self.replicas.values():
            found += self.invariants.after_turn(replica.machine)
        return [anomaly.kind for anomaly in found]

    def written(self, value: bytes = b"a") -> Place:
        for replica in self.replicas.values():
            replica.write(value)
        return self

    def committed(self, offset: int, *numbers: int) -> Place:
        for number in numbers or (1, 2, 3):
            self.replicas[number].log.set_high_watermark(offset)
        return self


def test_replicas_that_agree_and_hold_it_on_disk_are_sound():
    place = Place().written().committed(1)
    assert place.look() == []
    place.written(b"b").committed(2, 1)
    assert place.look() == []
    place.replicas[2].disk.lose_unsynced()
    assert list(place.invariants.after_power_cut(place.replicas[2].machine)) == []


def test_a_leader_whose_epoch_is_not_in_its_checkpoint_is_found():
    place = Place()
    place.replicas[1].partition.leader_epoch = 1
    assert place.look() == ["epoch-not-on-disk"]
    place = Place()
    place.replicas[1].partition.leader_epoch = 1
    place.replicas[1].log.stop_writing()
    assert place.look() == [], "its log directory has failed: it takes nothing in this epoch"
    place = Place()
    place.replicas[1].log.begin_epoch(1)
    place.replicas[1].partition.leader_epoch = 1
    assert place.look() == []


@pytest.mark.parametrize(("synced", "found"), [(True, []), (False, ["never-synced"])])
def test_a_log_that_has_nothing_to_sync_has_nothing_un_synced(synced: bool, found: list[str]):
    place = Place()
    replica = place.replicas[2]
    replica.write(b"a", synced=synced)
    assert [one.kind for one in place.invariants.nothing_to_sync(replica.machine, replica.log)] == found


@pytest.mark.parametrize(("fenced", "found"), [(False, []), (True, ["joins-dead"])])
def test_a_broker_that_is_fenced_joins_no_in_sync_set(fenced: bool, found: list[str]):
    place = Place()
    place.in_sync(1, 2)
    if fenced:
        place.do(FenceBroker(BrokerId(3), place.state.brokers[BrokerId(3)].epoch))
    assert place.look() == []
    before = place.state.topics[topic_id(TOPIC)].partitions[0]
    joined = before._replace(in_sync=before.replicas, partition_epoch=before.partition_epoch + 1)
    place.append(PartitionsChanged(partitions=[joined]))
    assert place.look() == found


def rotten() -> Place:
    """A partition with a flipped bit in the first of two segments of broker 2; all records are committed."""
    place = Place()
    for value in (b"a", b"b"):
        place.written(value)
        for replica in place.replicas.values():
            replica.log.roll(replica.log.end_offset, 0)
            replica.log.sync_now()
    place.committed(2)
    assert place.look() == []
    return place


def flip(place: Place, *, told: bool) -> Flipped:
    flipped = Flipped(BrokerId(2), KEY, TOPIC, FOLDER, 0, 1)
    assert place.invariants.may_flip(flipped)
    place.replicas[2].disk.flip_bit(f"{FOLDER}/{0:020d}{LOG}", 30)
    if told:
        place.invariants.decay.note(flipped)
    return flipped


def test_a_bit_that_flipped_of_itself_is_excused_and_all_around_it_is_not():
    place = rotten()
    flip(place, told=True)
    machine = place.replicas[2].machine
    assert list(place.invariants.after_power_cut(machine)) == []
    assert place.invariants.flipped_bits() == 1
    assert not place.invariants.may_lose_disk(BrokerId(1))
    assert not place.invariants.may_flip(Flipped(BrokerId(3), KEY, TOPIC, FOLDER, 0, 1)), (
        "no other copy may be wrong as well"
    )
    place.replicas[2].disk.flip_bit(f"{FOLDER}/{1:020d}{LOG}", 30)
    assert [each.kind for each in place.invariants.after_power_cut(machine)] == ["not-on-disk"]


def test_a_flipped_bit_is_excused_until_it_is_right_again():
    place = rotten()
    flip(place, told=True)
    place.replicas[2].disk.flip_bit(f"{FOLDER}/{0:020d}{LOG}", 30)
    assert place.invariants.flipped_bits() == 0
    flip(place, told=False)
    machine = place.replicas[2].machine
    assert [each.kind for each in place.invariants.after_power_cut(machine)] == ["not-on-disk"]


def test_a_flipped_bit_of_a_deleted_topic_is_excused_until_its_broker_has_deleted_it_too():
    """World 215276: a broker was down while the topic was deleted, and opened its log once more."""
    place = rotten()
    disk = place.replicas[2].disk
    write_partition_metadata(disk, FOLDER, KEY[0], TopicPartition(TOPIC, 0))
    flip(place, told=True)
    place.do(DeleteTopic(TOPIC, topic_id(TOPIC)))
    place.replicas[2].restart()
    assert place.look() == []
    assert place.invariants.flipped_bits() == 1
    disk.rename(FOLDER, f"{FOLDER}.0-delete")
    disk.sync_directory("/data")
    a_log(disk, directory=FOLDER)
    assert place.invariants.flipped_bits() == 0, "a new topic of the same name has nothing to do with it"


def test_what_a_follower_that_was_cut_back_writes_behind_a_flipped_bit_is_excused_with_it():
    place = rotten()
    flip(place, told=True)
    damaged = place.replicas[2]
    damaged.log.truncate_to(1)
    damaged.write(b"b")
    assert len(damaged.log.segments) == 1, "in the file in which the bit has flipped"
    assert list(place.invariants.after_power_cut(damaged.machine)) == []
    damaged.log.roll(2, 0)
    place.written(b"c").committed(3)
    assert place.look() == []
    damaged.disk.flip_bit(f"{FOLDER}/{2:020d}{LOG}", 30)
    assert [each.kind for each in place.invariants.after_power_cut(damaged.machine)] == ["not-on-disk"]


def test_no_bit_flips_where_nobody_else_in_sync_holds_the_same():
    place = rotten()
    place.in_sync(1, 2)
    place.look()
    place.replicas[1].disk.flip_bit(f"{FOLDER}/{0:020d}{LOG}", 30)
    assert not place.invariants.may_flip(Flipped(BrokerId(2), KEY, TOPIC, FOLDER, 0, 1))


@pytest.mark.parametrize("trouble", ["no room", "a read error"])
def test_no_bit_flips_where_the_other_copy_may_not_be_opened(trouble: str):
    """World 266533: the broker with the only sound copy could not open it, as its disk was full while it started."""
    place = rotten()
    flipped = Flipped(BrokerId(2), KEY, TOPIC, FOLDER, 0, 1)
    place.in_sync(1, 2)
    place.look()
    assert place.invariants.may_flip(flipped)
    disk = place.replicas[1].disk
    if trouble == "no room":
        disk.capacity_bytes = disk.used_bytes()
    else:
        disk.fail("read", errno.EIO)
    assert not place.invariants.may_flip(flipped)


def test_the_sound_copy_beside_a_flipped_bit_is_known():
    place = rotten()
    assert not place.invariants.bit_flipped_beside(BrokerId(1))
    flip(place, told=True)
    assert place.invariants.bit_flipped_beside(BrokerId(1))
    assert not place.invariants.bit_flipped_beside(BrokerId(2))


def test_a_watermark_that_goes_back_is_out_of_line():
    place = Place().written().written().committed(2)
    assert place.look() == []
    place.replicas[1].log.bounds.high_watermark = 1
    assert place.look() == ["lines"]


def test_a_start_behind_the_watermark_is_out_of_line():
    place = Place().written().written().committed(1)
    place.replicas[2].log.bounds.start = 2
    assert set(place.look()) == {"lines"}


@pytest.mark.parametrize("again", [False, True], ids=["another broker", "the same one, started again"])
def test_two_leaders_of_one_epoch_are_one_too_many(again: bool):
    place = Place()
    if again:
        place.replicas[1].restart()
    else:
        place.replicas[2].partition.leader = object()
    place.written()
    assert place.look() == ["two-leaders"]


def test_readers_may_not_see_what_is_not_on_disk():
    place = Place().written()
    place.replicas[1].write(b"b", synced=False)
    place.committed(2, 1)
    assert "not-on-disk" in place.look()


def test_what_is_committed_is_on_every_disk_in_sync():
    place = Place()
    place.replicas[1].write(b"a")
    place.replicas[2].write(b"a")
    place.replicas[3].write(b"a", synced=False)
    place.committed(1, 1)
    assert place.look() == ["not-on-disk"]


def test_what_is_committed_is_on_as_many_disks_as_it_must():
    place = Place()
    place.in_sync(1)
    place.replicas[1].write(b"a")
    place.committed(1, 1)
    assert place.look() == ["not-on-disk"]


def test_other_bytes_at_a_committed_offset_are_found():
    place = Place()
    place.in_sync(1, 2)
    for number, value in ((1, b"a"), (2, b"a"), (3, b"b")):
        place.replicas[number].write(value)
    place.committed(1, 1)
    assert place.look() == []
    place.committed(1, 3)
    assert place.look() == ["other-bytes"]


def test_who_joins_must_have_it_all():
    place = Place()
    place.in_sync(1, 2)
    for number in (1, 2):
        place.replicas[number].write(b"a")
    place.committed(1, 1)
    assert place.look() == []
    place.in_sync(1, 2, 3)
    assert place.look() == ["not-on-disk"]


def test_who_is_in_sync_must_not_cut_what_was_committed():
    place = Place().written().committed(1, 1)
    assert place.look() == []
    place.replicas[2].log.truncate_to(0)
    assert "cut-committed" in place.look()


def test_who_loses_power_must_have_it_still():
    place = Place().written().committed(1, 1)
    assert place.look() == []
    disk = place.replicas[2].disk
    disk.remove(f"{FOLDER}/00000000000000000000.log")
    disk.sync_directory(FOLDER)
    found = list(place.invariants.after_power_cut(place.replicas[2].machine))
    assert [anomaly.kind for anomaly in found] == ["not-on-disk"]


@pytest.mark.parametrize(("found", "kinds"), [("/more", []), ("/less", ["not-on-disk"])])
def test_a_replica_may_lie_in_any_log_directory_of_its_broker(found: str, kinds: list[str]):
    place = Place().written().committed(1, 1)
    assert place.look() == []
    disk = place.replicas[2].disk
    disk.make_directory(found)
    disk.rename(FOLDER, f"{found}/{TOPIC}-0")
    for directory in ("/data", found, "/"):
        disk.sync_directory(directory)
    place.replicas[2].machine.current = None
    broken = list(place.invariants.after_power_cut(place.replicas[2].machine))
    assert [anomaly.kind for anomaly in broken] == kinds


def made_anew_in_more(place: Place) -> Replica:
    """Broker 2 serves an empty log from its other directory; its former log is still in the first."""
    replica = place.replicas[2]
    replica.disk.make_directory("/more")
    replica.disk.sync_directory("/")
    replica.partition.log = a_log(replica.disk, directory=f"/more/{TOPIC}-0")
    replica.disk.sync_directory("/more")
    return replica


def test_a_replica_that_is_served_is_not_whole_for_what_lies_in_another_directory():
    place = Place().written().written(b"b")
    replica = made_anew_in_more(place)
    place.committed(2, 1)
    assert place.look() == ["not-on-disk"]
    assert [each.kind for each in place.invariants.after_power_cut(replica.machine)] == ["not-on-disk"]
    replica.machine.current = None  # either may be chosen at the next start
    assert list(place.invariants.after_power_cut(replica.machine)) == []


def test_a_flipped_bit_excuses_nothing_in_another_directory():
    place = rotten()
    flip(place, told=True)
    replica = made_anew_in_more(place)
    for value in (b"other", b"b"):
        put(replica.partition.log, a_batch(value))
    replica.partition.log.sync_now()
    assert [each.kind for each in place.invariants.after_power_cut(replica.machine)] == ["not-on-disk"]


def on_the_way_to(place: Place, *, failed: dict[str, str], moves: tuple[object, ...]) -> list[str]:
    """The result of `on_the_way` with three serving brokers, the second with these log directories and moves."""
    for number, replica in place.replicas.items():
        replica.machine.host = f"broker-{number}"
        replica.machine.serving = replica.machine.current
        replicas = replica.machine.current.node.replicas
        replicas.directories = directories(failed if number == 2 else {})
        replicas.moves = moves if number == 2 else ()
    return place.invariants.on_the_way()


def test_a_broker_without_a_directory_or_with_a_move_or_not_there_is_on_the_way():
    place = Place()
    assert on_the_way_to(place, failed={}, moves=()) == []
    assert on_the_way_to(place, failed={"/more": "gone"}, moves=()) == ["/more"]
    moves = (SimpleNamespace(partition=place.replicas[2].partition),)
    assert on_the_way_to(place, failed={}, moves=moves) == [f"{TOPIC}-0"]
    assert on_the_way_to(place, failed={}, moves=()) == []
    place.replicas[2].machine.serving = None
    assert place.invariants.on_the_way() == ["broker-2"]


def at_work_beside_one_another(place: Place) -> Place:
    """Three brokers that have run long enough to keep up in this world."""
    machines = {BrokerId(number): replica.machine for number, replica in place.replicas.items()}
    for machine in machines.values():
        machine.loop = SimpleNamespace(now_us=9_000_000)
        machine.working_since_us = 0
        machine.paused = False
        machine.serving = machine.current
    place.invariants = Invariants(place.store, machines, 2, keeps_up_ms=1500)
    assert place.look() == []
    return place


def test_nobody_is_said_to_lag_who_was_at_work_all_the_time():
    place = at_work_beside_one_another(Place())
    place.in_sync(1, 3)
    assert place.look() == ["evicted"]


def test_whoever_stood_still_a_moment_ago_may_be_said_to_lag():
    place = at_work_beside_one_another(Place())
    place.replicas[2].machine.working_since_us = 8_000_000
    place.in_sync(1, 3)
    assert place.look() == []


def test_a_lost_disk_excuses_its_broker_until_it_registers_anew():
    place = Place()
    assert place.invariants.may_lose_disk(BrokerId(2))
    place.invariants.disk_lost(BrokerId(2))
    assert not place.invariants.may_lose_disk(BrokerId(3))
    for number in (1, 3):
        place.replicas[number].write(b"a")
    place.committed(1, 1)
    assert place.look() == []
    place.do(register(2))
    place.replicas[1].write(b"b")
    place.replicas[3].write(b"b")
    place.committed(2, 1)
    assert "not-on-disk" in place.look()


def test_a_lost_disk_is_not_back_by_a_registration_that_was_under_way_before():
    place = Place()
    under_way = register(2)
    ended = SimpleNamespace(node=SimpleNamespace(follow=SimpleNamespace(incarnation=under_way.incarnation)))
    place.replicas[2].machine.past.append(ended)
    place.invariants.disk_lost(BrokerId(2))
    place.do(under_way)
    assert place.look() == []
    assert place.invariants.is_lost(BrokerId(2))
    place.do(under_way._replace(incarnation=b"later".ljust(16, b".")))
    assert place.look() == []
    assert not place.invariants.is_lost(BrokerId(2))


@pytest.mark.parametrize(("heard", "found"), [(False, []), (True, ["not-on-disk"])])
def test_a_receipt_from_before_a_disk_was_lost_may_come_to_a_leader_that_has_not_heard(heard: bool, found: list[str]):
    place = Place()
    leader = place.replicas[1].partition.leader
    leader.registered[2] = place.state.brokers[BrokerId(2)].epoch
    place.invariants.disk_lost(BrokerId(2))
    place.in_sync(1, 2)
    place.replicas[1].write(b"a")
    place.do(register(2)._replace(short=((topic_id(TOPIC), (0,)),)))
    if heard:
        leader.registered[2] = place.state.brokers[BrokerId(2)].epoch
    place.committed(1, 1)
    assert place.look() == found


def test_a_disk_must_not_be_lost_while_the_other_replica_in_sync_may_not_have_been_made():
    """Seed 202858 of three brokers: a power cut had come before its folder was on the disk."""
    place = Place()
    place.in_sync(1, 2)
    assert place.look() == []
    assert place.invariants.may_lose_disk(BrokerId(1))
    disk = place.replicas[2].disk
    disk.remove_tree(FOLDER)
    disk.sync_directory(posixpath.dirname(FOLDER))
    assert not place.invariants.may_lose_disk(BrokerId(1))


def test_a_disk_must_not_be_lost_while_the_other_replica_in_sync_may_not_be_readable():
    """Seed 209152 of three brokers: a read failed at its start, it was set aside, and the other disk was older."""
    place = Place()
    place.in_sync(1, 2)
    assert place.look() == []
    disk = place.replicas[2].disk
    disk.fail("read", errno.EIO)
    assert not place.invariants.may_lose_disk(BrokerId(1))
    disk.forget_faults()
    assert place.invariants.may_lose_disk(BrokerId(1))


def test_a_disk_must_not_be_lost_while_the_other_replica_in_sync_is_of_an_older_topic_of_that_name():
    """Seed 234972 of three brokers: the others had not made the new topic's folder yet as they were killed."""
    place = Place()
    place.in_sync(1, 2)
    assert place.look() == []
    disk = place.replicas[2].disk
    write_partition_metadata(disk, FOLDER, topic_id("older"))
    assert not place.invariants.may_lose_disk(BrokerId(1))


def test_a_disk_must_not_be_lost_while_the_disk_of_the_other_replica_in_sync_is_full():
    """Seed 233424 of three brokers: the other could not open its replica."""
    place = Place()
    place.in_sync(1, 2)
    assert place.look() == []
    place.replicas[2].disk.capacity_bytes = 1_000
    assert not place.invariants.may_lose_disk(BrokerId(1))


def test_a_disk_without_which_nothing_is_complete_must_not_be_lost():
    place = Place()
    place.in_sync(1, 2)
    place.do(register(2)._replace(damaged=((topic_id(TOPIC), (0,)),)))
    assert place.look() == []
    assert not place.invariants.may_lose_disk(BrokerId(1))
    assert place.invariants.may_lose_disk(BrokerId(3))


def test_no_disk_is_lost_where_one_replica_in_sync_is_enough():
    """Seed 203751 of three brokers: the other one was cut off from the store at the same time, and counted no more."""
    place = Place()
    assert place.invariants.may_lose_disk(BrokerId(2))
    edit = ConfigEdit("min.insync.replicas", ConfigOperation.SET, "1")
    place.do(EditConfigs(TOPIC_RESOURCE, TOPIC, (edit,)))
    assert place.look() == []
    assert not place.invariants.may_lose_disk(BrokerId(2))
