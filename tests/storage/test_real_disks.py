"""Real file systems that misbehave: an ext4 image whose power is cut, and a tmpfs that is full. For root on Linux."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from image_disk import NO_IMAGES, ImageDisk, can_mount, mounted
from log_desk import T0, a_batch, local_directory, new_log, only_log, put, sync, values_of

from ottla.kernel.errors import ErrorCode

pytestmark = pytest.mark.skipif(not can_mount(), reason=NO_IMAGES)


def test_what_was_synced_survives_the_power_cut_of_a_real_file_system(tmp_path: Path) -> None:
    with ImageDisk(tmp_path / "disk.img", tmp_path / "mnt") as image:
        mount = image.mount
        program = Path(__file__).with_name("append_until_killed.py")
        before = synced = 0
        for cut in range(4):
            with subprocess.Popen(
                [sys.executable, str(program), str(mount / "data")],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as writer:
                assert writer.stdout is not None
                # Only output before the cut counts: ext4 lets a sync that is under way at that moment succeed.
                for _ in range(16 + 23 * cut):
                    synced = int(writer.stdout.readline())
                image.cut()
                writer.send_signal(signal.SIGKILL)
            image.unmount()
            image.mount_again()
            directory = local_directory(mount / "data")
            log = only_log(directory, internal_segment_bytes=20_000)
            assert log.damaged_at is None and log.end_offset >= synced > before
            assert values_of(log) == [b"%d" % at for at in range(log.end_offset)]
            before = synced
            directory.close(clean=False)


def test_a_full_file_system_refuses_records_serves_reads_and_takes_records_again(tmp_path: Path) -> None:
    with mounted(tmp_path / "mnt", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as mount:
        directory = local_directory(mount / "data")
        log = new_log(directory, internal_segment_bytes=100_000, retention_bytes=300_000, file_delete_delay_ms=0)
        taken = 0
        while (answer := log.append(a_batch(b"x" * 7000), leader_epoch=0, wall_ms=T0)) is not (
            ErrorCode.KAFKA_STORAGE_ERROR
        ):
            assert not isinstance(answer, ErrorCode), answer
            taken += 1
        assert taken > 100 and not log.refusing
        for _ in range(5):
            assert log.append(a_batch(b"x" * 7000), leader_epoch=0, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(values_of(log)) == log.end_offset == taken
        sync(log)
        log.set_high_watermark(log.synced_offset)
        assert log.synced_offset == taken
        log.apply_retention(T0)
        log.purge(T0)
        assert put(log, a_batch(b"y" * 7000)).base_offset == taken
        sync(log)
        assert values_of(log)[-1] == b"y" * 7000
        directory.close(clean=True)
