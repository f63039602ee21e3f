"""After a failed sync the page cache still holds pages that the disk lost: a restart must not trust it."""

from __future__ import annotations

import errno

import pytest
from log_desk import a_batch, a_directory, new_log, only_log, put, sync, values_of

from ottla.sim.disk import SimDisk
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import Log

MARK = "/data/.sync-failed"


def before_a_failed_sync(disk: SimDisk) -> tuple[LogDirectory, Log]:
    """A log with one record that is synced and one whose sync will fail."""
    directory = a_directory(disk)
    log = new_log(directory)
    put(log, a_batch(b"kept"))
    sync(log)
    put(log, a_batch(b"dropped"))
    disk.fail("sync", errno.EIO)
    return directory, log


def after_a_failed_sync(disk: SimDisk) -> None:
    directory, log = before_a_failed_sync(disk)
    with pytest.raises(OSError, match="sync"):
        sync(log)
    directory.fail(OSError(errno.EIO, "sync"))
    directory.close(clean=False)


def test_what_the_cache_still_shows_is_put_on_the_disk_before_it_is_served():
    """Seed 57 of the first campaign: records were read after the restart, and lost in the next power cut."""
    disk = SimDisk()
    after_a_failed_sync(disk)
    log = only_log(a_directory(disk))
    shown = values_of(log)
    disk.lose_unsynced()
    again = only_log(a_directory(disk))
    assert values_of(again) == shown
    assert again.damaged_at is None


def test_a_failure_that_nobody_heard_of_is_heard_of_by_the_next_start(caplog):
    """World 231405: the broker was killed between a failed sync and its mark, and its pages counted as written."""
    disk = SimDisk()
    directory, log = before_a_failed_sync(disk)
    with pytest.raises(OSError, match="sync"):
        log.active.file.sync()
    directory.abandon()
    assert not disk.exists(MARK)
    shown = values_of(only_log(a_directory(disk)))
    assert shown == [b"kept", b"dropped"]
    assert "is written again" in caplog.text
    disk.lose_unsynced()
    assert values_of(only_log(a_directory(disk))) == shown


def test_a_sync_of_all_that_fails_when_a_start_asks_for_it_lets_it_write_again():
    disk = SimDisk()
    directory = a_directory(disk)
    put(new_log(directory), a_batch(b"dropped"))
    directory.abandon()
    disk.fail("sync", errno.EIO)
    shown = values_of(only_log(a_directory(disk)))
    disk.lose_unsynced()
    assert values_of(only_log(a_directory(disk))) == shown == [b"dropped"]


def test_a_clean_close_and_a_new_directory_ask_nothing_of_the_disk(monkeypatch):
    disk = SimDisk()
    monkeypatch.setattr(disk, "lost_writes", lambda path: pytest.fail("a sync of the whole file system"))
    directory = a_directory(disk)
    put(new_log(directory), a_batch())
    directory.close(clean=True)
    only_log(a_directory(disk))


def test_a_disk_with_no_room_for_the_mark_does_not_make_the_cache_believed():
    """A volume that ran out of blocks fails the sync and the mark alike."""
    disk = SimDisk()
    disk.fail("create", errno.ENOSPC, where=MARK)
    after_a_failed_sync(disk)
    log = only_log(a_directory(disk))
    shown = values_of(log)
    disk.lose_unsynced()
    again = only_log(a_directory(disk))
    assert values_of(again) == shown
    assert again.damaged_at is None


def test_a_reboot_takes_the_mark_away_together_with_the_cache():
    disk = SimDisk()
    after_a_failed_sync(disk)
    assert disk.exists(MARK)
    disk.lose_unsynced()
    assert not disk.exists(MARK)
    assert values_of(only_log(a_directory(disk))) == [b"kept"]


def test_the_mark_goes_once_the_recovery_points_are_written_down():
    disk = SimDisk()
    after_a_failed_sync(disk)
    directory = a_directory(disk)
    only_log(directory)
    directory.checkpoint_recovery_points()
    assert not disk.exists(MARK)


def test_a_sync_that_fails_in_the_recovery_itself_leaves_the_mark_too():
    disk = SimDisk()
    directory = a_directory(disk)
    put(new_log(directory), a_batch())
    directory.close(clean=False)
    found = a_directory(disk)
    disk.fail("sync", errno.EIO, where=".log")
    with pytest.raises(OSError, match="sync"):
        only_log(found)
    assert disk.exists(MARK)
