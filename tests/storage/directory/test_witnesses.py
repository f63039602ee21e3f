"""Checkpoints and `partition.metadata` have a second witness: damage to them is logged and costs no record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from log_desk import (
    T0,
    TOPIC_ID,
    a_batch,
    a_directory,
    local_directory,
    new_log,
    open_found,
    put,
    reopened_directory,
    sync,
    values_of,
)

from ottla.kernel.ids import TopicPartition
from ottla.sim.disk import SimDisk
from ottla.storage import checkpoint
from ottla.storage.checkpoint import BadCheckpoint
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.remembered import CheckpointFiles
from ottla.storage.disk.local import LocalDisk
from ottla.storage.log import Log

PLACE = TopicPartition("t", 0)
STARTS = "log-start-offset-checkpoint"
POINTS = "recovery-point-offset-checkpoint"
COMMITTED = "replication-offset-checkpoint"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Twenty records in four segments, of which five are deleted by an administrator; left without a clean stop."""
    directory = local_directory(tmp_path / "data")
    log = new_log(directory, internal_segment_bytes=400)
    for at in range(20):
        put(log, a_batch(b"%d" % at), leader_epoch=at // 10)
    log.sync_now()
    log.set_high_watermark(20)
    log.delete_records_before(2)
    assert len(log.bases) > 2 and log.bases[1] > 2
    directory.checkpoint_log_starts()
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks()
    directory.close(clean=False)
    return tmp_path / "data"


EVERYTHING = [b"%d" % at for at in range(2, 20)]


def flip(path: Path, digit: bytes, by: bytes) -> None:
    body = path.read_bytes()
    assert digit in body
    path.write_bytes(body.replace(digit, by, 1))


def become_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


WAYS: dict[str, Callable[[Path], object]] = {
    "a wrong number": lambda path: path.write_bytes(path.read_bytes().replace(b"t 0 2", b"t 0 9", 1)),
    "emptied": lambda path: path.write_bytes(b""),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(b"\x00\xff" * 40),
    "removed": lambda path: path.unlink(),
    "a directory": become_a_directory,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [STARTS, POINTS, COMMITTED])
def test_a_damaged_checkpoint_is_said_and_read_from_its_second_copy(
    data: Path, name: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    WAYS[way](data / name)
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(data)
    assert values_of(log) == EVERYTHING
    assert log.log_start_offset == 2 and directory.offsets.high_watermark(PLACE) == 20
    assert [name in record.message for record in caplog.records] == [True]
    assert checkpoint.read_offsets(LocalDisk(), str(data / name))  # it is repaired
    directory.close(clean=True)
    caplog.clear()
    reopened_directory(data)[0].close(clean=True)
    assert not caplog.records


@pytest.mark.parametrize("name", [STARTS, POINTS, COMMITTED])
def test_a_directory_in_the_place_of_a_second_copy_fails_no_writing(data: Path, name: str) -> None:
    directory, _ = reopened_directory(data)
    become_a_directory(data / f"{name}.copy")
    CheckpointFiles(directory.disk, directory.path).write(name, {PLACE: 3})
    assert (data / f"{name}.copy").read_bytes() == (data / name).read_bytes()
    assert (data / f"{name}.copy.aside").is_dir()  # the old one is kept
    directory.close(clean=True)


def test_a_log_start_that_is_older_than_its_second_copy_is_taken_from_the_copy(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    older = (data / STARTS).read_bytes()
    directory, log = reopened_directory(data)
    log.set_high_watermark(20)
    assert log.delete_records_before(4) == 4
    directory.checkpoint_log_starts()
    directory.close(clean=False)
    (data / STARTS).write_bytes(older)
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(data)
    assert log.log_start_offset == 4
    assert values_of(log) == EVERYTHING[2:]
    (said,) = [record.message for record in caplog.records]
    assert STARTS in said and "t-0" in said and "4" in said
    directory.checkpoint_log_starts()
    assert checkpoint.read_offsets(LocalDisk(), str(data / STARTS)) == {PLACE: 4}  # it is repaired
    directory.close(clean=True)


def test_a_log_start_of_a_second_copy_behind_the_log_is_not_taken(data: Path) -> None:
    checkpoint.write_offsets(LocalDisk(), str(data / "other"), {PLACE: 90})
    (data / f"{STARTS}.copy").write_bytes((data / "other").read_bytes())
    (data / "other").unlink()
    directory, log = reopened_directory(data)
    assert log.log_start_offset == 2 and values_of(log) == EVERYTHING
    directory.close(clean=True)


def test_the_start_of_a_deleted_log_is_not_taken_for_that_of_a_new_log_of_its_name() -> None:
    def deleted(directory: LogDirectory) -> None:
        directory.delete_logs([PLACE])

    for log in after_each_power_cut(deleted, new_log):
        assert log.log_start_offset == 0 and values_of(log) == NEW


def test_a_start_that_fell_is_not_taken_from_an_older_second_copy() -> None:
    def fell(directory: LogDirectory) -> None:
        directory.logs[PLACE].truncate_fully_to(0, wall_ms=T0)
        directory.checkpoint_log_starts()

    for log in after_each_power_cut(fell, the_log):
        assert log.log_start_offset == 0 and values_of(log) == NEW


NEW = [b"new %d" % at for at in range(6)]


def after_each_power_cut(
    change: Callable[[LogDirectory], None], used_then: Callable[[LogDirectory], Log]
) -> Iterator[Log]:
    """A log whose start is noted as 4; `change` and a loss of power; six records in the log of `used_then`; a kill."""
    disk = SimDisk()
    directory = a_directory(disk)
    new_log(directory, "other")
    log = new_log(directory)
    for at in range(6):
        put(log, a_batch(b"old %d" % at))
    sync(log)
    log.set_high_watermark(6)
    log.delete_records_before(4)
    directory.checkpoint_log_starts()
    sync_everything(disk, "/data")
    change(directory)
    states = list(disk.legal_states())
    assert len(states) > 1
    for left in states:
        log = used_then(a_directory(left))
        for value in NEW:
            put(log, a_batch(value))
        sync(log)
        yield the_log(a_directory(left))


def the_log(directory: LogDirectory) -> Log:
    """Open the log of the partition that is not `other`."""
    (found,) = (one for one in directory.found if one.topic == PLACE.topic)
    return open_found(directory, found)


def sync_everything(disk: SimDisk, folder: str) -> None:
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if disk.is_directory(path):
            sync_everything(disk, path)
        else:
            file = disk.open(path)
            file.sync()
            file.release()
    disk.sync_directory(folder)


def test_no_flipped_bit_of_a_checkpoint_is_believed(data: Path) -> None:
    body = (data / STARTS).read_bytes()
    for position in range(len(body)):
        for bit in range(8):
            damaged = bytearray(body)
            damaged[position] ^= 1 << bit
            with pytest.raises(BadCheckpoint):
                checkpoint.parse_offsets("x", bytes(damaged))


def without_checksums(data: Path) -> None:
    """Remove the checksums and copies, as Apache Kafka or an older release leaves a directory."""
    for path in [*data.glob("*-checkpoint"), *data.glob("*/leader-epoch-checkpoint")]:
        path.write_text("".join(line.rstrip() + "\n" for line in path.read_text().splitlines()))
    for path in [*data.glob("*.copy"), *data.glob("*/*.copy")]:
        path.unlink()
    metadata = data / "t-0" / "partition.metadata"
    metadata.write_text("\n".join(metadata.read_text().splitlines()[:2]))


def test_files_without_a_checksum_are_read_and_get_one(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    without_checksums(data)
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(data)
    assert values_of(log) == EVERYTHING and directory.found[0].topic_id == TOPIC_ID
    assert not caplog.records
    directory.close(clean=True)
    assert "#partition: t-0, crc32c: " in (data / "t-0" / "partition.metadata").read_text()
    assert (data / "t-0" / "partition.metadata.copy").exists()


@pytest.mark.parametrize("checksum", ["with", "without"])
@pytest.mark.parametrize("number", ["21", "5000", "9223372036854775807"])
def test_a_log_start_beyond_the_end_of_the_log_deletes_nothing(
    data: Path, number: str, checksum: str, caplog: pytest.LogCaptureFixture
) -> None:
    if checksum == "without":
        without_checksums(data)
    flip(data / STARTS, b"t 0 2", b"t 0 " + number.encode())
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(data)
    assert values_of(log) == EVERYTHING and log.end_offset == 20
    assert caplog.records
    directory.close(clean=True)


def test_a_log_start_that_only_a_wrong_number_moves_deletes_nothing(data: Path) -> None:
    without_checksums(data)
    flip(data / STARTS, b"t 0 2", b"t 0 15")
    directory, log = reopened_directory(data)
    assert values_of(log) == EVERYTHING
    directory.close(clean=True)


@pytest.mark.parametrize("way", ["emptied", "garbage", "removed"])
def test_deleted_records_do_not_come_back_though_both_copies_of_the_log_start_are_lost(data: Path, way: str) -> None:
    for name in (STARTS, STARTS + ".copy"):
        WAYS[way](data / name)
    directory, log = reopened_directory(data)
    assert values_of(log) == EVERYTHING  # the leader epochs start where the log does
    directory.close(clean=True)


@pytest.mark.parametrize("checksum", ["with", "without"])
def test_a_wrong_recovery_point_does_not_take_an_intact_log_offline(data: Path, checksum: str) -> None:
    if checksum == "without":
        without_checksums(data)
    flip(data / POINTS, b"t 0 20", b"t 0 29")
    directory, log = reopened_directory(data)
    assert log.damaged_at is None and values_of(log) == EVERYTHING
    directory.close(clean=True)


@pytest.mark.parametrize(
    "wrong", ["0\n2\n0 2\n7 10\n", "0\n2\n0 2\n1 3\n", "0\n2\n3 2\n4 10\n", "0\n0\n", "", "\x00\x01\n"]
)
def test_wrong_leader_epochs_do_not_take_an_intact_log_offline(data: Path, wrong: str) -> None:
    path = data / "t-0" / "leader-epoch-checkpoint"
    right = checkpoint.read_epochs(LocalDisk(), str(path))
    path.write_text(wrong)
    directory, log = reopened_directory(data)
    assert log.damaged_at is None and values_of(log) == EVERYTHING
    assert [epoch for epoch, _ in log.epochs.entries] == [epoch for epoch, _ in right]
    assert log.epochs.entries[-1] == right[-1]
    directory.close(clean=True)


@pytest.mark.parametrize("way", ["emptied", "halved", "garbage", "removed", "a directory"])
def test_damaged_leader_epochs_are_read_from_the_batches(data: Path, way: str) -> None:
    WAYS[way](data / "t-0" / "leader-epoch-checkpoint")
    directory, log = reopened_directory(data)
    assert values_of(log) == EVERYTHING
    assert log.epochs.entries[-1] == (1, 10)
    directory.close(clean=True)


@pytest.mark.parametrize("way", ["emptied", "halved", "garbage", "removed", "a directory"])
def test_a_damaged_partition_metadata_is_read_from_its_second_copy(
    data: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = data / "t-0" / "partition.metadata"
    WAYS[way](path)
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(data)
    assert directory.found[0].topic_id == TOPIC_ID and values_of(log) == EVERYTHING
    assert "partition.metadata" in caplog.text
    directory.close(clean=True)
    assert "crc32c" in path.read_text()  # it is repaired


def test_no_flipped_bit_of_partition_metadata_says_another_topic(data: Path) -> None:
    path = data / "t-0" / "partition.metadata"
    body = path.read_bytes()
    for position in range(len(body)):
        for bit in range(8):
            damaged = bytearray(body)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            directory = local_directory(data)
            (found,) = directory.found
            assert (found.topic_id, found.recorded) == (TOPIC_ID, TopicPartition("t", 0)), (position, bit)
            directory.close(clean=False)


def test_partition_metadata_without_a_partition_is_read_as_an_older_release_wrote_it(data: Path) -> None:
    for name in ("partition.metadata", "partition.metadata.copy"):
        path = data / "t-0" / name
        lines = path.read_text().splitlines()
        assert len(lines) == 4 and lines[3].startswith("#")  # a comment for releases that know three lines
        path.write_text("\n".join(lines[:3]))
    directory, log = reopened_directory(data)
    (found,) = directory.found
    assert (found.topic_id, found.recorded) == (TOPIC_ID, None) and values_of(log) == EVERYTHING
    directory.close(clean=True)


def test_without_a_second_copy_a_damaged_partition_metadata_says_nothing_and_the_folder_stays(data: Path) -> None:
    (data / "t-0" / "partition.metadata.copy").unlink()
    flip(data / "t-0" / "partition.metadata", b"AAEC", b"AAFC")
    directory = local_directory(data)
    (found,) = directory.found
    assert found.topic_id is None and "checksum" in found.fault
    assert (data / "t-0").is_dir()
    directory.close(clean=False)


def test_a_file_in_the_place_of_a_partition_is_renamed(data: Path) -> None:
    (data / "x-3").write_bytes(b"something")
    directory, log = reopened_directory(data)
    assert values_of(log) == EVERYTHING
    assert (data / "x-3.aside").read_bytes() == b"something"
    directory.close(clean=True)
