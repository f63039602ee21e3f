"""What a full disk may not do to a log directory: neither forget a start for good, nor keep it from being closed."""

from __future__ import annotations

import errno

import pytest
from log_desk import a_batch, a_directory, put, settings

from ottla.config.topic import TopicConfig
from ottla.sim.disk import SimDisk
from ottla.storage.directory import LogDirectory
from ottla.storage.log import Log


def a_log_in(directory: LogDirectory) -> Log:
    options = settings(TopicConfig())
    topic, partition, topic_id = options.pop("topic"), options.pop("partition"), options.pop("topic_id")
    return directory.create_log(topic, partition, topic_id, **options)  # type: ignore[arg-type]


def test_a_checkpoint_that_a_full_disk_refused_is_written_in_the_next_round():
    """Seed 48 of the first campaign: DeleteRecords was answered while its start had never reached the disk."""
    disk = SimDisk()
    directory = a_directory(disk)
    log = a_log_in(directory)
    put(log, a_batch(b"1", b"2", b"3"))
    log.set_high_watermark(3)
    log.delete_records_before(2)
    disk.fail("write", errno.ENOSPC, where="log-start-offset-checkpoint")
    with pytest.raises(OSError, match="write"):
        directory.checkpoint_log_starts()
    directory.checkpoint_log_starts()
    assert b"t 0 2" in disk.read("/data/log-start-offset-checkpoint")


@pytest.mark.parametrize("where", [".snapshot", ".timeindex"])
def test_a_full_disk_lets_every_log_be_closed_but_marks_nothing_clean(where):
    """Seed 0 of the first campaign: the stop ended in a traceback, and the other logs stayed open.

    A clean start takes indexes as they stand, the aborted transactions too, which would be missing.
    """
    disk = SimDisk()
    directory = a_directory(disk)
    put(a_log_in(directory), a_batch())
    disk.fail("write", errno.ENOSPC, where=where)
    directory.close(clean=True)
    assert not disk.exists("/data/.kafka_cleanshutdown")


def test_any_other_error_of_the_disk_at_the_close_is_told():
    disk = SimDisk()
    directory = a_directory(disk)
    put(a_log_in(directory), a_batch())
    disk.fail("write", errno.EIO, where=".snapshot")
    with pytest.raises(OSError, match="write"):
        directory.close(clean=True)
