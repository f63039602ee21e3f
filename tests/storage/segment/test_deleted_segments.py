"""The name `.deleted` alone moves no log start and deletes nothing; the stub of a deletion on a full disk does."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from log_desk import (
    T0,
    a_batch,
    a_directory,
    local_directory,
    new_log,
    put,
    reopened_directory,
    roll_and_commit,
    values_of,
)

from ottla.records.header import HEADER_SIZE
from ottla.sim.disk import SimDisk
from ottla.storage.log import Log

BASES = (0, 2, 4)
SIX = [b"%d" % at for at in range(6)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six records in three segments, after a clean stop; the checkpoint says that the log starts at 0."""
    directory = local_directory(tmp_path / "data")
    log = new_log(directory)
    for at in range(6):
        put(log, a_batch(b"%d" % at))
        if at in (1, 3):
            roll_and_commit(log)
    log.set_high_watermark(6)
    directory.close(clean=True)
    return tmp_path / "data" / "t-0"


def segment(folder: Path, base: int, suffix: str = "") -> Path:
    return folder / f"{base:020d}.log{suffix}"


def logs(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def warnings(caplog: pytest.LogCaptureFixture, of: str) -> list[str]:
    return [record.message for record in caplog.records if of in record.message]


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("renamed", [(0,), (2,), (4,), (0, 2)])
def test_a_whole_segment_whose_deletion_was_not_noted_down_is_put_back(
    folder: Path, renamed: tuple[int, ...], stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    for base in renamed:
        segment(folder, base).rename(segment(folder, base, ".deleted"))
    if stop == "killed":
        (folder.parent / ".kafka_cleanshutdown").unlink()
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(folder.parent)
    assert (log.log_start_offset, values_of(log), logs(folder)) == (0, SIX, list(BASES))
    assert not log.damage and not list(folder.glob("*.deleted")) and not list(folder.glob("*.aside"))
    assert len(warnings(caplog, "it is renamed to")) == len(renamed)
    directory.close(clean=True)


def test_a_segment_in_which_the_log_starts_is_put_back_too(folder: Path) -> None:
    directory, log = reopened_directory(folder.parent)
    log.set_high_watermark(6)
    log.delete_records_before(3)
    directory.close(clean=True)
    segment(folder, 2).rename(segment(folder, 2, ".deleted"))
    directory, log = reopened_directory(folder.parent)
    assert (log.log_start_offset, values_of(log)) == (3, SIX[3:])
    directory.close(clean=True)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda body: b"",
    "halved": lambda body: body[: len(body) // 2],
    "one bit": lambda body: body[:-1] + bytes([body[-1] ^ 1]),
    "garbage of a stub's size": lambda body: b"\xff" * HEADER_SIZE,
}


@pytest.mark.parametrize("way", BROKEN)
def test_a_renamed_segment_that_is_not_whole_is_kept_and_moves_no_start(folder: Path, way: str) -> None:
    body = BROKEN[way](segment(folder, 0).read_bytes())
    segment(folder, 0).unlink()
    segment(folder, 0, ".deleted").write_bytes(body)
    directory, log = reopened_directory(folder.parent)
    assert log.log_start_offset == 0 and log.damage.covers(0) and log.damage.covers(1)
    assert values_of(log, start=2) == SIX[2:]
    (aside,) = folder.glob("*.aside")
    assert aside.read_bytes() == body
    directory.close(clean=True)


@pytest.mark.parametrize("way", ["empty", "whole", "stub"])
@pytest.mark.parametrize("base", [2, 3])
def test_a_renamed_file_beside_whole_segments_deletes_none_of_them(folder: Path, base: int, way: str) -> None:
    body = segment(folder, 2).read_bytes()
    left = {"empty": b"", "whole": body, "stub": body[:HEADER_SIZE]}[way]
    segment(folder, base, ".deleted").write_bytes(left)
    for _ in range(2):
        directory, log = reopened_directory(folder.parent)
        assert (log.log_start_offset, values_of(log), logs(folder)) == (0, SIX, list(BASES))
        directory.apply_retention(T0)
        directory.close(clean=True)
    (aside,) = folder.glob("*.aside")
    assert aside.read_bytes() == left


def as_stub(folder: Path, base: int, suffix: str = ".deleted") -> None:
    body = segment(folder, base).read_bytes()
    segment(folder, base).unlink()
    segment(folder, base, suffix).write_bytes(body[:HEADER_SIZE])


def test_a_stub_says_that_the_segments_below_were_deleted_until_that_is_noted_down(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    segment(folder, 0).unlink()
    as_stub(folder, 2)
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            directory, log = reopened_directory(folder.parent)
        assert (log.log_start_offset, values_of(log)) == (4, SIX[4:]) and not log.damage
        (said,) = warnings(caplog, "starts at offset 4, not 0")
        assert f"{2:020d}.log.deleted" in said
        directory.close(clean=False)
    directory, log = reopened_directory(folder.parent)
    directory.apply_retention(T0 + log.config.file_delete_delay_ms)
    assert not list(folder.glob("*.deleted"))
    directory.close(clean=False)
    directory, log = reopened_directory(folder.parent)
    assert log.log_start_offset == 4 and not log.damage
    directory.close(clean=True)


def test_a_segment_below_a_stub_is_deleted_by_retention(folder: Path) -> None:
    as_stub(folder, 2)
    directory, log = reopened_directory(folder.parent)
    assert log.log_start_offset == 4 and segment(folder, 0).exists()
    directory.apply_retention(T0 + log.config.file_delete_delay_ms)
    assert logs(folder) == [4]
    directory.close(clean=True)


def test_a_start_that_only_the_leader_epochs_raise_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    starts = folder.parent / "log-start-offset-checkpoint"
    older = starts.read_bytes()
    directory, log = reopened_directory(folder.parent)
    log.set_high_watermark(6)
    log.delete_records_before(2)
    directory.close(clean=True)
    segment(folder, 0).unlink()
    for path in (starts, starts.with_name(starts.name + ".copy")):
        path.write_bytes(older)
    with caplog.at_level(logging.WARNING):
        directory, log = reopened_directory(folder.parent)
    assert (log.log_start_offset, values_of(log)) == (2, SIX[2:]) and not log.damage
    (said,) = warnings(caplog, "starts at offset 2")
    assert "0 was written down" in said
    directory.close(clean=True)


def test_a_stub_that_was_set_aside_proves_nothing(folder: Path) -> None:
    as_stub(folder, 0, f".deleted.{T0}.aside")
    directory, log = reopened_directory(folder.parent)
    assert log.log_start_offset == 0 and log.damage.covers(0)
    directory.close(clean=True)


def test_retention_on_a_full_disk_keeps_a_stub_of_the_last_segment_whose_time_has_come(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    log = new_log(directory, file_delete_delay_ms=1000)
    for at in range(6):
        put(log, a_batch(b"%d" % at))
        if at in (1, 3):
            roll_and_commit(log)
    log.set_high_watermark(6)
    delete_on_full_disk(log, 2, T0)
    delete_on_full_disk(log, 4, T0 + 500)
    log.purge(T0 + 1000, one_by_one=True)
    folder = tmp_path / "data" / "t-0"
    assert segment(folder, 0, ".deleted").stat().st_size == HEADER_SIZE
    assert segment(folder, 2, ".deleted").stat().st_size > HEADER_SIZE
    log.purge(T0 + 1500, one_by_one=True)
    assert not segment(folder, 0, ".deleted").exists()
    assert segment(folder, 2, ".deleted").stat().st_size == HEADER_SIZE
    log.purge(T0 + 2000)
    assert not list(folder.glob("*.deleted"))
    directory.close(clean=True)


def test_a_socket_sends_the_segment_as_it_was_though_a_stub_has_taken_its_place(tmp_path: Path) -> None:
    """sendfile() lends the socket pages of the cache: a cut in place writes zeros into the rest of the first one."""
    directory = local_directory(tmp_path / "data")
    log = new_log(directory, file_delete_delay_ms=0)
    put(log, a_batch(b"x" * 5000))
    roll_and_commit(log)
    put(log, a_batch(b"y"))
    path = segment(tmp_path / "data" / "t-0", 0)
    body = path.read_bytes()
    ours, peer = socket.socketpair()
    with path.open("rb") as reader, ours, peer:
        assert os.sendfile(ours.fileno(), reader.fileno(), 0, len(body)) == len(body)
        delete_on_full_disk(log, 1, T0)
        assert segment(path.parent, 0, ".deleted").read_bytes() == body[:HEADER_SIZE]
        assert peer.recv(len(body), socket.MSG_WAITALL) == body
        assert reader.read() == body
    directory.close(clean=True)


@pytest.mark.parametrize(
    ("operation", "where", "skip"),
    [("create", ".log.deleted.tmp", 0), ("write", ".log.deleted.tmp", 0), ("rename", ".log.deleted", 1)],
)
def test_without_room_for_a_stub_the_segment_itself_becomes_one(operation: str, where: str, skip: int) -> None:
    disk = SimDisk()
    log = new_log(a_directory(disk), file_delete_delay_ms=0)
    put(log, a_batch(b"x"))
    roll_and_commit(log)
    put(log, a_batch(b"y"))
    renamed = f"/data/t-0/{0:020d}.log.deleted"
    disk.fail(operation, errno.ENOSPC, where=where, skip=skip)
    body = disk.read(f"/data/t-0/{0:020d}.log")
    log.delete_records_before(1)
    log.apply_retention(T0)
    log.purge(T0, one_by_one=True)
    assert disk.to_fail == 0
    assert disk.read(renamed) == body[:HEADER_SIZE]
    assert not [name for name in disk.list("/data/t-0") if name.endswith(".tmp")]


def delete_on_full_disk(log: Log, offset: int, wall_ms: int) -> None:
    log.delete_records_before(offset)
    log.apply_retention(wall_ms)
    log.purge(wall_ms, one_by_one=True)
