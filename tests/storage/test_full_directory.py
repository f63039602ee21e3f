"""A full disk neither loses a log's start offset for good nor keeps a log directory from being closed."""

from __future__ import annotations

import errno

import pytest
from log_desk import T0, a_batch, a_directory, a_log, new_log, put, read_at, sync, values_of

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.sim.disk import SimDisk
from ottla.storage.log import Log
from ottla.storage.syncing import CHECKPOINT_BYTES
from ottla.storage.values import Appended


def test_a_checkpoint_that_a_full_disk_refused_is_written_in_the_next_round():
    """Seed 48 of the first campaign: DeleteRecords was answered before the new log start was on disk."""
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    put(log, a_batch(b"1", b"2", b"3"))
    log.set_high_watermark(3)
    log.delete_records_before(2)
    disk.fail("write", errno.ENOSPC, where="log-start-offset-checkpoint")
    with pytest.raises(OSError, match="write"):
        directory.checkpoint_log_starts()
    directory.checkpoint_log_starts()
    assert b"t 0 2" in disk.read("/data/log-start-offset-checkpoint")


def test_what_a_full_disk_did_not_let_a_deleted_partition_forget_is_not_taken_for_a_later_one():
    """World 310131: a start found the replica of a new topic of that name missing, with offsets of the old one."""
    disk, place = SimDisk(), TopicPartition("t", 0)
    directory = a_directory(disk)
    put(new_log(directory), a_batch())
    sync(directory.logs[place])
    directory.checkpoint_recovery_points()
    for _ in range(2):  # while it is renamed, and when its files have gone: others have taken the room
        disk.fail("write", errno.ENOSPC, where="recovery-point-offset-checkpoint")
    with pytest.raises(OSError, match="write"):
        directory.delete_logs([place])
    with pytest.raises(OSError, match="write"):
        directory.deletions.remove_one()
    (doomed,) = (name for name in disk.list("/data") if name.endswith("-delete"))
    assert disk.list(f"/data/{doomed}") == []
    disk.lose_unsynced()
    again = a_directory(disk)
    assert again.offsets.places() == {place} and again.gone == {}
    disk.fail("write", errno.ENOSPC, where="recovery-point-offset-checkpoint")
    again.forget_gone(())  # as each start does
    assert again.offsets.places() == {place}
    assert not again.deletions.remove_one()
    assert again.offsets.places() == set() and doomed not in disk.list("/data")


def test_deleting_a_folder_forgets_nothing_of_a_replica_that_is_coming_back_to_its_place():
    """A move notes the offsets in its target before the folder has its name there."""
    disk, place = SimDisk(), TopicPartition("t", 0)
    directory = a_directory(disk)
    new_log(directory)
    directory.delete_logs([place])
    directory.offsets.replace(place, {"replication-offset-checkpoint": 7})
    assert not directory.deletions.remove_one()
    assert directory.offsets.high_watermark(place) == 7


def test_how_far_compaction_has_been_is_not_lowered_before_that_is_written_down():
    """A cut that a full disk has delayed lowers the point again, and must then write it."""
    disk = SimDisk()
    directory = a_directory(disk)
    directory.offsets.set_cleaned_to("t", 0, 4)
    disk.fail("write", errno.ENOSPC, where="cleaner-offset-checkpoint")
    with pytest.raises(OSError, match="write"):
        directory.offsets.set_cleaned_to("t", 0, 2)
    assert directory.offsets.cleaned_to("t", 0) == 4


@pytest.mark.parametrize("where", [".snapshot", ".timeindex"])
def test_a_full_disk_lets_every_log_be_closed_but_marks_nothing_clean(where):
    """Seed 0 of the first campaign: the stop ended in a traceback, and the other logs stayed open.

    A clean start trusts all index files, and the one of aborted transactions would be incomplete.
    """
    disk = SimDisk()
    directory = a_directory(disk)
    put(new_log(directory), a_batch())
    disk.fail("write", errno.ENOSPC, where=where)
    directory.close(clean=True)
    assert not disk.exists("/data/.kafka_cleanshutdown")


def test_any_other_error_of_the_disk_at_the_close_is_told():
    disk = SimDisk()
    directory = a_directory(disk)
    put(new_log(directory), a_batch())
    disk.fail("write", errno.EIO, where=".snapshot")
    with pytest.raises(OSError, match="write"):
        directory.close(clean=True)


# --- cuts ---

CUTS = {"back": lambda log: log.truncate_to(1), "all": lambda log: log.truncate_fully_to(7, wall_ms=T0)}


def a_checkpointed_log(disk: SimDisk) -> Log:
    """A log of three batches, all below the checkpointed recovery point."""
    directory = a_directory(disk)
    log = new_log(directory)
    for value in (b"a", b"b", b"c"):
        put(log, a_batch(value))
    log.syncing._checkpoint_at = -CHECKPOINT_BYTES  # the next sync takes the indexes along
    sync(log)
    assert log.recovery_point == 3
    directory.checkpoint_recovery_points()
    return log


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_a_cut_for_which_a_full_disk_cannot_lower_the_recovery_point_changes_nothing_and_may_come_again(cut):
    disk = SimDisk()
    log = a_checkpointed_log(disk)
    disk.fail("write", errno.ENOSPC, where="recovery-point-offset-checkpoint")
    with pytest.raises(OSError, match="write"):
        cut(log)
    assert not log.refusing
    assert (log.recovery_point, log.end_offset) == (3, 3)
    assert values_of(log) == [b"a", b"b", b"c"]
    put(log, a_batch(b"d"))
    cut(log)
    assert log.end_offset in (1, 7)
    assert b"t 0 3" not in disk.read("/data/recovery-point-offset-checkpoint")


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_a_cut_before_which_the_disk_fails_ends_the_log(cut):
    disk = SimDisk()
    log = a_checkpointed_log(disk)
    disk.fail("write", errno.EIO, where="recovery-point-offset-checkpoint")
    with pytest.raises(OSError, match="write"):
        cut(log)
    assert log.refusing


def a_run_from(base_offset: int) -> bytes:
    """A leader's batch of five records."""
    leader = a_log()
    leader.truncate_fully_to(base_offset, wall_ms=T0)
    put(leader, a_batch(*[b"v"] * 5))
    return read_at(leader, base_offset).data()


def a_log_that_starts_at_5(disk: SimDisk) -> Log:
    directory = a_directory(disk)
    log = new_log(directory)
    log.truncate_fully_to(5, wall_ms=T0)
    directory.checkpoint_recovery_points()
    return log


def test_a_log_that_starts_inside_a_batch_takes_it_once_there_is_room_to_lower_the_recovery_point():
    disk = SimDisk()
    log = a_log_that_starts_at_5(disk)
    run = a_run_from(3)
    disk.fail("write", errno.ENOSPC, where="recovery-point-offset-checkpoint")
    assert log.append_run(run, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_start_offset, log.end_offset) == (5, 5)
    assert isinstance(log.append_run(run, wall_ms=T0), Appended)
    assert (log.log_start_offset, log.end_offset) == (5, 8)


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_for_whose_leader_epochs_a_full_disk_has_no_room_changes_nothing_and_may_come_again(cut):
    """The epochs were once cut last, after the segments, so that the directory failed."""
    disk = SimDisk()
    log = a_log(disk)
    for at in range(3):
        put(log, a_batch(b"%d" % at), leader_epoch=at)
    sync(log)
    disk.fail("write", errno.ENOSPC, where="leader-epoch-checkpoint")
    with pytest.raises(OSError, match="write"):
        CUTS[cut](log)
    assert not log.refusing
    assert values_of(log) == [b"0", b"1", b"2"] and [epoch for epoch, _ in log.epochs.entries] == [0, 1, 2]
    CUTS[cut](log)
    assert values_of(log) == ([b"0"] if cut == "back" else [])
    assert log.epochs.entries == ([(0, 0)] if cut == "back" else [])


def test_a_disk_that_is_full_once_such_a_log_has_lost_its_files_is_told():
    """The log takes no more records, so an append must fail with more than a refused batch."""
    disk = SimDisk()
    log = a_log_that_starts_at_5(disk)
    disk.fail("create", errno.ENOSPC, where="00000000000000000003.log")
    with pytest.raises(OSError, match="create"):
        log.append_run(a_run_from(3), wall_ms=T0)
    assert log.refusing


def test_where_the_start_of_such_a_log_cannot_be_put_back_that_is_told_too():
    disk = SimDisk()
    log = a_log_that_starts_at_5(disk)
    disk.fail("write", errno.ENOSPC, where="00000000000000000003.log")
    disk.fail("create", errno.ENOSPC, where="00000000000000000005.log")
    with pytest.raises(OSError, match="create"):
        log.append_run(a_run_from(3), wall_ms=T0)
    assert log.refusing
