"""A start renames and keeps what it cannot explain: files beside segments, and partitions of unknown topics."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from log_desk import (
    DAY_MS,
    T0,
    TOPIC_ID,
    a_batch,
    local_directory,
    new_log,
    put,
    reopened_directory,
    roll_and_commit,
    values_of,
)

from ottla.kernel.ids import TopicPartition
from ottla.sim.disk import SimDisk
from ottla.storage.directory import strays as strays_module
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FoundPartition, find_partitions
from ottla.storage.directory.strays import BESIDE, Stray, folder_in_words, is_due, remove, stray_folders, strays
from ottla.storage.disk.local import LocalDisk

FIRST = "00000000000000000000.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six records in three segments."""
    directory = local_directory(tmp_path / "data")
    log = new_log(directory)
    for at in range(6):
        put(log, a_batch(b"%d" % at))
        if at in (1, 3):
            roll_and_commit(log)
    directory.close(clean=True)
    return tmp_path / "data"


SIX = [b"%d" % at for at in range(6)]


def asides(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "t-0").iterdir() if path.name.endswith(".aside"))


def test_a_new_log_does_not_begin_in_a_folder_that_holds_records(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = local_directory(data)
    kept = sorted((path.name, path.read_bytes()) for path in (data / "t-0").glob("*.log"))
    with caplog.at_level(logging.WARNING):
        log = new_log(directory, topic_id=bytes(16))
    assert (log.log_start_offset, log.end_offset, values_of(log)) == (0, 0, [])
    directory.close(clean=True)
    (stray,) = strays(LocalDisk(), str(data))
    assert (stray.topic, stray.partition, stray.start_offset, stray.end_offset) == ("t", 0, 0, 6)
    assert sorted((path.name, path.read_bytes()) for path in Path(stray.path).glob("*.log")) == kept
    (line,) = caplog.messages
    assert line.startswith(f"{data}/t-0 is set aside, with all its records: ") and line.endswith(stray.reason)


def test_a_new_log_begins_in_what_a_crash_left_of_its_making(data: Path) -> None:
    directory = local_directory(data)
    (data / "t-1").mkdir()
    (data / "t-1" / FIRST).touch()
    log = new_log(directory, partition=1)
    put(log, a_batch(b"0"))
    assert values_of(log) == [b"0"] and not stray_folders(LocalDisk(), str(data))
    directory.close(clean=True)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda body: b"",
    "halved": lambda body: body[: len(body) // 2],
    "garbage": lambda body: b"\xff" * len(body),
    "one bit": lambda body: body[:-1] + bytes([body[-1] ^ 1]),
}


@pytest.mark.parametrize("way", BROKEN)
def test_a_swap_that_is_not_whole_does_not_replace_a_good_segment(
    data: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = (data / "t-0" / FIRST).read_bytes()
    (data / "t-0" / f"{FIRST}.swap").write_bytes(BROKEN[way](good))
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(data)
    assert values_of(log) == SIX
    assert asides(data) == [f"{FIRST}.swap.{T0}.aside"]
    assert FIRST in caplog.text and "bytes" in caplog.text
    directory.close(clean=True)


def test_a_whole_swap_takes_its_place(data: Path) -> None:
    good = (data / "t-0" / FIRST).read_bytes()
    (data / "t-0" / f"{FIRST}.swap").write_bytes(good)
    directory, log = reopened_directory(data)
    assert values_of(log) == SIX and asides(data) == []
    directory.close(clean=True)


@pytest.mark.parametrize("suffix", [".cleaned", ".fetched"])
def test_a_segment_that_nothing_explains_is_kept_though_its_suffix_says_that_it_may_go(data: Path, suffix: str) -> None:
    body = (data / "t-0" / FIRST).read_bytes()
    (data / "t-0" / FIRST).rename(data / "t-0" / f"{FIRST}{suffix}")
    directory, _ = reopened_directory(data)
    (name,) = asides(data)
    assert name.startswith(FIRST) and (data / "t-0" / name).read_bytes() == body
    directory.close(clean=True)


def test_what_is_left_of_retention_and_of_compaction_goes(data: Path) -> None:
    directory, log = reopened_directory(data)
    log.set_high_watermark(6)
    log.delete_records_before(4)
    directory.checkpoint_log_starts()
    directory.close(clean=True)
    (data / "t-0" / FIRST).rename(data / "t-0" / f"{FIRST}.deleted")
    (data / "t-0" / "00000000000000000004.log.cleaned").write_bytes(b"half of it")
    directory, log = reopened_directory(data)
    assert values_of(log) == SIX[4:] and asides(data) == []
    directory.apply_retention(T0 + DAY_MS)
    assert not list((data / "t-0").glob("*.deleted")) and not list((data / "t-0").glob("*.cleaned"))
    directory.close(clean=True)


# --- partitions ---


def set_aside(directory: LogDirectory, reason: str = "no topic has this id") -> None:
    (found,) = directory.found
    directory.set_strays_aside([(found, reason)], wall_ms=T0)


def the_stray(data: Path) -> Stray:
    (found,) = strays(LocalDisk(), str(data))
    return found


def test_a_stray_partition_is_renamed_as_apache_kafka_does_and_stays_through_restarts(data: Path) -> None:
    directory = local_directory(data)
    set_aside(directory)
    folder = data / f"t-0.{TOPIC_ID.hex()}-stray"
    assert folder.is_dir() and not (data / "t-0").exists()
    while directory.deletions.remove_one():
        pass
    directory.close(clean=True)
    again = local_directory(data)
    assert again.found == [] and not again.deletions.remove_one()
    again.close(clean=True)
    assert folder.is_dir()


def test_a_stray_is_listed_with_all_that_is_known_of_it(data: Path) -> None:
    directory = local_directory(data)
    set_aside(directory)
    found = the_stray(data)
    assert (found.topic, found.partition, found.topic_id) == ("t", 0, "AAECAwQFBgcICQoLDA0ODw")
    assert (found.start_offset, found.end_offset) == (0, 6)
    assert found.since_ms == T0 and found.reason == "no topic has this id"
    assert found.size_bytes == sum(path.stat().st_size for path in Path(found.path).iterdir())
    directory.close(clean=True)


def test_a_stray_that_is_renamed_back_is_whole_and_starts_where_it_did(data: Path) -> None:
    directory, log = reopened_directory(data)
    log.set_high_watermark(6)
    log.delete_records_before(3)
    directory.checkpoint_log_starts()
    directory.close(clean=True)
    again = local_directory(data)
    set_aside(again)
    again.close(clean=True)
    Path(the_stray(data).path).rename(data / "t-0")
    directory, log = reopened_directory(data)
    assert values_of(log) == SIX[3:] and log.log_start_offset == 3
    directory.close(clean=True)


def test_a_second_stray_of_the_same_partition_gets_a_name_of_its_own(data: Path) -> None:
    directory = local_directory(data)
    set_aside(directory)
    new_log(directory)
    directory.close(clean=True)
    again = local_directory(data)
    set_aside(again)
    assert len(stray_folders(LocalDisk(), str(data))) == 2
    again.close(clean=True)


def remove_due(directory: LogDirectory, wall_ms: int, retention_ms: int = 7 * DAY_MS) -> list[str]:
    gone = directory.deletions.remove_strays(wall_ms=wall_ms, retention_ms=retention_ms)
    while directory.deletions.remove_one():
        pass
    return [Path(one.path).name for one in gone]


def test_strays_go_when_their_time_has_passed_and_not_before(data: Path) -> None:
    directory = local_directory(data)
    set_aside(directory)
    assert remove_due(directory, T0 + 6 * DAY_MS) == []
    (name,) = (Path(path).name for path in stray_folders(LocalDisk(), str(data)))
    assert remove_due(directory, T0 + 7 * DAY_MS) == [name]
    assert stray_folders(LocalDisk(), str(data)) == []
    directory.close(clean=True)


def test_a_stray_without_a_note_counts_from_when_it_is_first_seen(data: Path) -> None:
    (data / "t-0").rename(data / f"t-0.{TOPIC_ID.hex()}-stray")
    directory = local_directory(data)
    assert the_stray(data).since_ms is None
    assert remove_due(directory, T0, DAY_MS) == []
    assert the_stray(data).since_ms == T0
    assert len(remove_due(directory, T0 + DAY_MS, DAY_MS)) == 1
    directory.close(clean=True)


def test_a_file_that_was_set_aside_is_listed_and_goes_too(data: Path) -> None:
    (data / "t-0" / f"{FIRST}.swap").write_bytes(b"")
    reopened_directory(data)[0].close(clean=True)
    directory, _ = reopened_directory(data)
    found = the_stray(data)
    assert (found.topic, found.partition, found.since_ms) == ("t", 0, T0)
    assert found.file == f"{FIRST}.swap.{T0}.aside"
    assert remove_due(directory, T0 + 6 * DAY_MS) == []
    assert remove_due(directory, T0 + 7 * DAY_MS) == [found.file]
    assert asides(data) == []
    directory.close(clean=True)


def test_a_file_that_was_set_aside_goes_with_its_partition(data: Path) -> None:
    (data / "t-0" / f"{FIRST}.swap").write_bytes(b"")
    reopened_directory(data)[0].close(clean=True)
    directory, _ = reopened_directory(data)
    assert len(directory.deletions.files_aside) == 1
    directory.delete_logs([TopicPartition("t", 0)])
    assert remove_due(directory, T0 + 100 * DAY_MS) == []


def test_a_folder_that_cannot_be_written_to_has_its_note_beside_it() -> None:
    disk = SimDisk()
    disk.make_directory("/data/t-0")
    disk.open("/data/t-0/" + FIRST, create=True).release()
    disk.fail("create", errno.EACCES, where="/data/t-0/stray")
    found = FoundPartition("t", 0, TOPIC_ID, "/data/t-0")
    known = {"log-start-offset-checkpoint": 3}
    renamed = strays_module.set_aside(disk, "/data", found, reason="because", known=known, wall_ms=T0)
    assert disk.exists(renamed + BESIDE) and not disk.exists("/data/t-0")
    assert folder_in_words(disk, renamed) == (TopicPartition("t", 0), "because")
    assert not is_due(disk, renamed, wall_ms=T0 + 999, retention_ms=1000)
    assert not is_due(disk, renamed, wall_ms=T0 + 1000, retention_ms=1000, time_ms=T0 + 999)
    assert is_due(disk, renamed, wall_ms=T0 + 1000, retention_ms=1000)
    again = find_partitions(disk, "/data")
    assert not again.partitions and disk.exists(renamed + BESIDE), "a start takes the note for nothing else"
    (stray,) = strays(disk, "/data")
    remove(disk, stray)
    assert disk.list("/data") == []
