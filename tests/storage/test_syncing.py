"""The end of a sync says what is on the disk, also if the log was cut or deleted while it was under way."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from log_desk import T0, a_batch, a_log, put, reopened, sync, values_of

from ottla.kernel.seams import Buffer
from ottla.sim.disk import SimDisk
from ottla.storage import syncing
from ottla.storage.disk.local import LocalDisk, LocalFile


def test_a_sync_that_began_before_the_last_had_ended_is_not_taken_for_it():
    """Seed 8 of the first campaign: a record was acknowledged before it was on disk, and lost in a power cut."""
    log = a_log()
    put(log, a_batch())
    first = log.begin_sync()
    put(log, a_batch())
    second = log.begin_sync()
    assert first is not None and second is not None
    log.end_sync(first, None)
    assert log.synced_offset == 1
    log.end_sync(second, None)
    assert log.synced_offset == 2


def test_the_names_of_index_files_are_on_disk_where_the_recovery_point_says_so():
    """A power cut took new index files: a start read the segment again, and warned of a missing index."""
    disk = SimDisk()
    log = a_log(disk)
    put(log, a_batch())
    log.roll(1, T0)
    put(log, a_batch())
    sync(log)
    assert log.move_recovery_point()
    sync(log)
    assert log.recovery_point == 2
    disk.lose_unsynced()
    again = reopened(log, recovery_point=2)
    assert again.recovered.remarks == () and values_of(again) == [b"value", b"value"]


def test_a_truncation_lowers_what_every_sync_under_way_will_have_shown():
    log = a_log()
    put(log, a_batch())
    first = log.begin_sync()
    put(log, a_batch())
    second = log.begin_sync()
    assert first is not None and second is not None
    log.truncate_to(1)
    put(log, a_batch())
    log.end_sync(first, None)
    log.end_sync(second, None)
    assert log.synced_offset == 1


def test_a_log_that_is_deleted_while_it_is_dirty_has_nothing_to_sync():
    """Seed 0 of the first campaign: the files were opened under their old name, and all syncing stopped."""
    disk = SimDisk()
    log = a_log(disk)
    put(log, a_batch())
    log.close(clean=False)
    disk.rename(log.directory, "/data/t-0.0123-delete")
    assert log.begin_sync() is None


def test_a_sync_that_reached_the_disk_counts_though_old_snapshots_cannot_be_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It once raised in the middle of a sync of several logs: the later ones were never told of its end."""
    monkeypatch.setattr(syncing, "CHECKPOINT_BYTES", 1)
    disk = SimDisk()
    log = a_log(disk)
    put(log, a_batch())
    work = log.begin_sync()
    assert work is not None
    disk.fail("list", errno.EMFILE)
    log.end_sync(work, None)
    assert log.synced_offset == log.recovery_point == 1


def test_indexes_that_cannot_be_written_are_a_failed_sync_and_keep_no_syncer_from_other_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(syncing, "CHECKPOINT_BYTES", 1)
    disk = SimDisk()
    log = a_log(disk)
    told: list[OSError] = []
    log.listen(on_failed=told.append)
    put(log, a_batch())
    disk.fail("write", errno.EIO, where=".timeindex")
    assert log.begin_sync() is None
    assert [error.errno for error in told] == [errno.EIO]
    assert log.refusing and log.synced_offset == 0


def test_a_log_that_is_deleted_while_it_is_synced_takes_no_notice_of_the_end():
    disk = SimDisk()
    synced: list[int] = []
    log = a_log(disk, synced)
    put(log, a_batch())
    work = log.begin_sync()
    assert work is not None
    log.close(clean=False)
    disk.rename(log.directory, "/data/t-0.0123-delete")
    log.end_sync(work, None)
    assert synced == []


def test_the_owner_is_told_of_a_failed_sync():
    log = a_log()
    told: list[OSError] = []
    log.listen(on_failed=told.append)
    put(log, a_batch())
    work = log.begin_sync()
    assert work is not None
    log.end_sync(work, OSError(errno.EIO, "gone"))
    assert [error.errno for error in told] == [errno.EIO]
    assert log.refusing


def test_a_sync_that_ends_well_after_another_has_failed_shows_nothing():
    log = a_log()
    put(log, a_batch())
    first = log.begin_sync()
    put(log, a_batch())
    second = log.begin_sync()
    assert first is not None and second is not None
    log.end_sync(first, OSError(errno.EIO, "gone"))
    log.end_sync(second, None)
    assert log.synced_offset == 0


def test_a_clean_close_covers_what_was_on_its_way_to_the_disk():
    """Seed 23 of the ablation: a sealed segment was handed to the syncer, marked clean, and torn by a power cut."""
    disk = SimDisk()
    log = a_log(disk, segment_bytes=1 << 20, internal_segment_bytes=100)
    put(log, a_batch(b"first"))
    put(log, a_batch(b"second"))
    assert log.segments_count == 2
    assert log.begin_sync() is not None
    put(log, a_batch(b"third"))
    log.close(clean=True)
    disk.lose_unsynced()
    assert values_of(reopened(log, clean=True)) == [b"first", b"second", b"third"]


class Watched(LocalDisk):
    """The real disk, with notes of each write and sync by path and descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, str, LocalFile]] = []

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        return WatchedFile(path, os.open(path, os.O_RDWR | os.O_CREAT * create, 0o644), self)


class WatchedFile(LocalFile):
    def __init__(self, path: str, fd: int, disk: Watched) -> None:
        super().__init__(path, fd)
        self.disk = disk

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self.disk.done.append(("write", self.path, self))
        super().write_at(position, parts)

    def truncate(self, size: int) -> None:
        self.disk.done.append(("write", self.path, self))
        super().truncate(size)

    def sync(self, *, at_once: bool = False) -> None:
        self.disk.done.append(("sync", self.path, self))
        super().sync(at_once=at_once)


def test_b1_a_segment_is_synced_through_the_one_descriptor_that_it_was_written_through(tmp_path: Path) -> None:
    """The kernel reports a failed write-back once, and only to descriptors that were open when it failed."""
    disk = Watched()
    log = a_log(disk, directory=f"{tmp_path}/t-0", internal_segment_bytes=400)
    for step in range(24):
        put(log, a_batch(b"x" * 50))
        if step == 13:
            log.truncate_to(log.end_offset - 1)
            put(log, a_batch(b"y" * 50))
        if step % 3 == 2:
            work = log.begin_sync()
            assert work is not None
            for file in work.files:
                file.sync()
            log.end_sync(work, None)
    assert log.synced_offset == log.end_offset and log.segments_count > 5
    for segment in log.segments:
        path = segment.path(".log")
        done = [(what, file) for what, where, file in disk.done if where == path]
        assert len({id(file) for _, file in done}) == 1, path
        assert done[-1][0] == "sync", path
    log.close(clean=True)
