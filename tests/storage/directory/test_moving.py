"""A future log copies the served log while that goes on: records, cuts, deletions, producers."""

from __future__ import annotations

import errno

import pytest
from log_desk import DAY_MS, T0, TOPIC_ID, a_batch, a_directory, config, put, sync, values_of

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.sim.disk import SimDisk
from ottla.storage.directory import moving
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import Log
from ottla.storage.segment.names import LOG

PLACE = TopicPartition("t", 0)


class Two:
    """A log in /data, and another directory."""

    def __init__(self, **options: object) -> None:
        self.disk = SimDisk()
        self.source = a_directory(self.disk)
        self.target = LogDirectory.open(self.disk, "/b", cluster_id="cluster", node_id=1, new_directory_id="B" * 22)
        self.log = self.source.create_log(
            "t",
            0,
            TOPIC_ID,
            config=config(**options),
            wall_ms=T0,
            producer_expiration_ms=DAY_MS,
            on_synced=lambda _: None,
        )

    def put(self, count: int, epoch: int = 0) -> None:
        for _ in range(count):
            at = self.log.end_offset
            put(self.log, a_batch(b"%d" % at, producer_id=1, sequence=at), leader_epoch=epoch)

    def begin(self) -> Log:
        return moving.begin(self.log, self.target, "0" * 32, wall_ms=T0)

    def copied(self, future: Log) -> Log:
        while moving.copy_some(self.log, future, 200, wall_ms=T0):
            pass
        return future

    def swapped(self, future: Log) -> Log:
        moving.prepare(self.log, self.source, future, self.target)
        moving.move_in(self.log, future, self.target)
        moving.move_out(self.log, self.source)
        moving.unmark(future)
        return future


def bodies(log: Log) -> list[bytes]:
    return [bytes(segment.file.read_at(0, segment.size)) for segment in log.segments]


def test_a_copy_is_the_same_bytes():
    two = Two(internal_segment_bytes=400)
    two.put(20)
    future = two.copied(two.begin())
    assert b"".join(bodies(future)) == b"".join(bodies(two.log))
    assert future.end_offset == 20


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_flipped_bit_is_no_reason_to_leave_records_out(number: int):
    """Seed 151857 of three brokers: a batch that seemed to reach beyond the end was treated as a gap."""
    two = Two(internal_segment_bytes=300)
    two.put(9)
    sync(two.log)
    size = two.log.segments[0].size // 4
    assert two.log.bases == [0, 4, 8]
    sound = b"".join(bodies(two.log))
    path = two.log.segments[0].path(LOG)
    for at in (*range(8, 12), *range(16, size)):  # of the fields outside the CRC only the length
        for bit in (0, 6, 7):
            two.disk.flip_bit(path, number * size + at, bit)
            future = two.begin()
            while copied := moving.copy_some(two.log, future, 1 << 20, wall_ms=T0):
                if isinstance(copied, ErrorCode):
                    break
            assert isinstance(copied, ErrorCode) or b"".join(bodies(future)) == sound, (at, bit)
            moving.abandon(future, two.target)
            two.disk.flip_bit(path, number * size + at, bit)


def test_what_is_appended_meanwhile_comes_along():
    two = Two()
    two.put(3)
    future = two.begin()
    moving.copy_some(two.log, future, 100, wall_ms=T0)
    two.put(3, epoch=1)
    two.copied(future)
    assert values_of(future) == [b"%d" % at for at in range(6)]
    assert future.epochs.entries == two.log.epochs.entries


def test_what_the_served_log_cuts_off_is_cut_off_the_copy():
    """A follower truncates its log, and gets other records in a later epoch."""
    two = Two()
    two.put(3)
    two.put(3, epoch=1)
    future = two.copied(two.begin())
    two.log.truncate_to(4)
    two.put(1, epoch=2)
    two.put(1, epoch=2)
    two.copied(future)
    assert bodies(future) == bodies(two.log)
    assert future.epochs.entries == two.log.epochs.entries


def test_a_cut_that_leaves_nothing_in_common_asks_for_a_new_copy():
    two = Two()
    two.put(3)
    future = two.copied(two.begin())
    two.log.truncate_fully_to(0, wall_ms=T0)
    two.put(1, epoch=4)
    with pytest.raises(moving.Apart):
        moving.copy_some(two.log, future, 100, wall_ms=T0)


@pytest.mark.parametrize("before", [0, 5])
def test_records_that_are_deleted_meanwhile_are_not_asked_for(before: int):
    two = Two(internal_segment_bytes=200)
    two.put(6)
    future = two.begin()
    for _ in range(before):
        moving.copy_some(two.log, future, 1, wall_ms=T0)
    sync(two.log)
    two.log.set_high_watermark(6)
    two.log.delete_records_before(6)
    two.log.apply_retention(T0)
    two.copied(future)
    assert future.end_offset == 6
    two.put(2)
    moved = two.swapped(two.copied(future))
    assert moved.log_start_offset == 6
    assert values_of(moved) == [b"6", b"7"]


def test_a_log_that_starts_inside_a_batch_is_copied_from_there():
    two = Two()
    put(two.log, a_batch(b"0", b"1", b"2"))
    put(two.log, a_batch(b"3"))
    sync(two.log)
    two.log.set_high_watermark(4)
    two.log.delete_records_before(1)
    moved = two.swapped(two.copied(two.begin()))
    assert moved.log_start_offset == 1
    assert values_of(moved) == [b"1", b"2", b"3"]


def test_producers_whose_records_are_deleted_are_known_in_the_new_place():
    two = Two(internal_segment_bytes=200)
    put(two.log, a_batch(b"first", producer_id=9, sequence=0))
    for at in range(1, 6):
        put(two.log, a_batch(b"%d" % at))
    sync(two.log)
    two.log.set_high_watermark(6)
    two.log.delete_records_before(4)
    two.log.apply_retention(T0)
    two.log.purge(T0 + DAY_MS)
    future = two.copied(two.begin())
    assert [one.producer_id for one in future.active_producers()] == [9]
    moved = two.swapped(future)
    again = put(moved, a_batch(b"first", producer_id=9, sequence=0))
    assert again.duplicate
    assert again.base_offset == 0
    moved.truncate_to(moved.end_offset - 1)
    assert [one.producer_id for one in moved.active_producers()] == [9]


def test_an_open_transaction_comes_along():
    two = Two()
    put(two.log, a_batch(b"x", producer_id=3, sequence=0, transactional=True))
    sync(two.log)
    two.log.set_high_watermark(1)
    moved = two.swapped(two.copied(two.begin()))
    assert moved.last_stable_offset == 0


def test_the_moved_log_takes_its_checkpoints_along_and_leaves_nothing_behind():
    two = Two()
    two.put(3)
    sync(two.log)
    two.log.set_high_watermark(3)
    two.log.delete_records_before(1)
    two.source.offsets.set_cleaned_to("t", 0, 2)
    moved = two.swapped(two.copied(two.begin()))
    assert two.target.offsets.cleaned_to("t", 0) == 2
    assert two.target.offsets.start_on_disk(moved) == 1
    assert two.disk.read("/b/replication-offset-checkpoint").rstrip().endswith(b"t 0 3")
    assert [name for name in two.disk.list("/data") if name.startswith("t-0")] == [f"t-0.{TOPIC_ID.hex()}-delete"]
    assert two.target.logs == {PLACE: moved}
    assert two.source.logs == {}


def test_the_moved_log_is_written_rolled_and_cut_in_its_new_place():
    two = Two(internal_segment_bytes=300)
    two.put(5)
    sync(two.log)
    two.log = two.swapped(two.copied(two.begin()))
    two.put(10)
    sync(two.log)
    two.log.truncate_to(7)
    two.log.begin_epoch(3)
    two.put(3, epoch=3)
    sync(two.log)
    two.target.close(clean=True)
    two.disk.lose_unsynced()
    again = LogDirectory.open(two.disk, "/b", cluster_id="cluster", node_id=1, new_directory_id="")
    (found,) = again.found
    opened = again.open_log(found, config=config(), wall_ms=T0, producer_expiration_ms=DAY_MS, on_synced=lambda _: None)
    assert again.clean
    assert values_of(opened) == [b"%d" % at for at in range(10)]


@pytest.mark.parametrize("cut", [3, 4])
def test_a_moved_log_of_which_a_cut_leaves_nothing_still_begins_where_it_did(cut: int):
    """Seed 225518 of three brokers: the copy of a log that starts at 3 was named 0, and ended there when cut."""
    two = Two()
    two.put(3)
    sync(two.log)
    two.log.set_high_watermark(3)
    two.log.delete_records_before(3)
    put(two.log, a_batch(b"3", b"4"))
    moved = two.swapped(two.copied(two.begin()))
    moved.truncate_to(cut)
    assert (moved.log_start_offset, moved.high_watermark, moved.end_offset) == (3, 3, 3)
    assert put(moved, a_batch(b"3")).base_offset == 3
    sync(moved)
    two.target.close(clean=False)
    again = LogDirectory.open(two.disk, "/b", cluster_id="cluster", node_id=1, new_directory_id="")
    (found,) = again.found
    opened = again.open_log(found, config=config(), wall_ms=T0, producer_expiration_ms=DAY_MS, on_synced=lambda _: None)
    assert (opened.log_start_offset, opened.end_offset, values_of(opened)) == (3, 4, [b"3"])


def test_it_can_be_moved_back():
    two = Two()
    two.put(3)
    sync(two.log)
    there = two.swapped(two.copied(two.begin()))
    two.source, two.target, two.log = two.target, two.source, there
    back = two.swapped(two.copied(two.begin()))
    assert back.directory == "/data/t-0"
    assert values_of(back) == [b"0", b"1", b"2"]


def test_a_full_disk_refuses_the_copy_and_nothing_of_the_served_log():
    two = Two()
    two.put(3)
    future = two.begin()
    two.disk.fail("short write", errno.ENOSPC, where="-future/")
    assert moving.copy_some(two.log, future, 1000, wall_ms=T0) == ErrorCode.KAFKA_STORAGE_ERROR
    two.put(1)
    two.copied(future)
    assert values_of(future) == [b"0", b"1", b"2", b"3"]


def test_what_is_abandoned_is_set_aside_for_deletion():
    two = Two()
    two.put(3)
    future = two.copied(two.begin())
    moving.abandon(future, two.target)
    assert two.target.futures == {}
    assert all(name.endswith("-delete") for name in two.disk.list("/b") if name.startswith("t-0"))
