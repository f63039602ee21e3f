"""After a failed sync the page cache still holds pages that the disk lost: a restart must not trust it."""

from __future__ import annotations

import errno

import pytest
from log_desk import a_batch, a_directory, put, settings, sync, values_of

from ottla.config.topic import TopicConfig
from ottla.sim.disk import SimDisk
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import Log

MARK = "/data/.sync-failed"


def a_log_in(directory: LogDirectory) -> Log:
    options = settings(TopicConfig())
    topic, partition, topic_id = options.pop("topic"), options.pop("partition"), options.pop("topic_id")
    return directory.create_log(topic, partition, topic_id, **options)  # type: ignore[arg-type]


def opened(directory: LogDirectory) -> Log:
    options = settings(TopicConfig())
    for name in ("topic", "partition", "topic_id"):
        del options[name]
    return directory.open_log(directory.found[0], **options)  # type: ignore[arg-type]


def after_a_failed_sync(disk: SimDisk) -> None:
    directory = a_directory(disk)
    log = a_log_in(directory)
    put(log, a_batch(b"kept"))
    sync(log)
    put(log, a_batch(b"dropped"))
    disk.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="sync"):
        sync(log)
    directory.fail(OSError(errno.EIO, "sync"))
    directory.close(clean=False)


def test_what_the_cache_still_shows_is_put_on_the_disk_before_it_is_served():
    """Seed 57 of the first campaign: records were read after the restart, and lost in the next power cut."""
    disk = SimDisk()
    after_a_failed_sync(disk)
    log = opened(a_directory(disk))
    shown = values_of(log)
    disk.lose_unsynced()
    again = opened(a_directory(disk))
    assert values_of(again) == shown
    assert again.damaged_at is None


def test_a_disk_with_no_room_for_the_mark_does_not_make_the_cache_believed():
    """A volume that ran out of blocks fails the sync and the mark alike."""
    disk = SimDisk()
    disk.fail("create", errno.ENOSPC, where=MARK)
    after_a_failed_sync(disk)
    log = opened(a_directory(disk))
    shown = values_of(log)
    disk.lose_unsynced()
    again = opened(a_directory(disk))
    assert values_of(again) == shown
    assert again.damaged_at is None


def test_a_reboot_takes_the_mark_away_together_with_the_cache():
    disk = SimDisk()
    after_a_failed_sync(disk)
    assert disk.exists(MARK)
    disk.lose_unsynced()
    assert not disk.exists(MARK)
    assert values_of(opened(a_directory(disk))) == [b"kept"]


def test_the_mark_goes_once_the_recovery_points_are_written_down():
    disk = SimDisk()
    after_a_failed_sync(disk)
    directory = a_directory(disk)
    opened(directory)
    directory.checkpoint_recovery_points()
    assert not disk.exists(MARK)


def test_a_sync_that_fails_in_the_recovery_itself_leaves_the_mark_too():
    disk = SimDisk()
    directory = a_directory(disk)
    put(a_log_in(directory), a_batch())
    directory.close(clean=False)
    found = a_directory(disk)
    disk.fail("sync", errno.EIO, where=".log")
    with pytest.raises(OSError, match="sync"):
        opened(found)
    assert disk.exists(MARK)
