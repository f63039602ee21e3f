"""The incarnation of a log directory: two files, which no crash, full disk or bad byte can both destroy."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from log_desk import local_directory

from ottla.kernel.seams import Disk, OpenFile
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.storage.checkpoint import CLEAN_SHUTDOWN, SYNC_FAILED
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.incarnation import (
    FILES,
    DirectoryIncarnation,
    Witness,
    read_incarnation,
    write_incarnation,
)
from ottla.storage.directory.page_cache import leave_note, was_kept
from ottla.storage.disk.local import LocalDisk

ONE, TWO, THREE = "A" * 22, "B" * 22, "C" * 22
SAID = DirectoryIncarnation(ONE, 7, metadata_version=9, metadata_crc=11)


def a_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


class WithRights(LocalDisk):
    """A disk that refuses files without permissions to root too."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self._refuse(path)
        return super().open(path, create=create)

    def read(self, path: str) -> bytes:
        self._refuse(path)
        return super().read(path)

    def _refuse(self, path: str) -> None:
        if self.exists(path) and not os.stat(path).st_mode & 0o777:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def opened(disk: Disk, registering: str = "", path: str = "/data") -> LogDirectory:
    return LogDirectory.open(disk, path, cluster_id="c", node_id=1, new_directory_id="D" * 22, registering=registering)


def test_what_is_written_is_read_and_grows_in_number(tmp_path: Path) -> None:
    disk = LocalDisk()
    full = DirectoryIncarnation(
        ONE, 1 << 50, True, tuple(str(at) * 22 for at in range(8)), 1 << 50, (1 << 32) - 1, True
    )
    first = write_incarnation(disk, str(tmp_path), full)
    second = write_incarnation(disk, str(tmp_path), first)
    assert read_incarnation(disk, str(tmp_path)) == (full._replace(number=2), True, ())
    assert second.number == 2
    assert {(tmp_path / name).stat().st_size for name in FILES} == {512}


def test_every_legal_crash_state_holds_the_old_or_the_new() -> None:
    steps = 0
    while True:
        disk = a_disk()
        before = write_incarnation(disk, "/data", SAID)
        disk.cut_after = disk.operations + steps
        try:
            after = write_incarnation(disk, "/data", before.registered(TWO, 20))
        except PowerCut:
            pass
        else:
            break
        for state in disk.legal_states():
            found = read_incarnation(state, "/data").incarnation
            assert found is not None
            assert (found.incarnation, found.number) in ((ONE, 1), (TWO, 2))
        steps += 1
    assert steps >= 4
    assert after.attempts == ()


@pytest.mark.parametrize("name", FILES)
def test_every_bit_of_one_file_may_flip(tmp_path: Path, name: str) -> None:
    disk = LocalDisk()
    written = write_incarnation(disk, str(tmp_path), SAID)
    path = tmp_path / name
    body = path.read_bytes()
    for bit in range(len(body) * 8):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        found = read_incarnation(disk, str(tmp_path))
        assert found.incarnation == written
        assert found.faults == (f"{path} does not match its checksum",)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["removed", "emptied", "halved", "a directory", "unreadable"])
def test_one_file_is_enough_and_the_other_is_written_anew(tmp_path: Path, name: str, harm: str) -> None:
    disk = WithRights()
    written = write_incarnation(disk, str(tmp_path), SAID)
    path = tmp_path / name
    body = path.read_bytes()
    path.unlink()
    if harm == "a directory":
        path.mkdir()
        (path / "kept").touch()
    elif harm == "unreadable":
        path.write_bytes(body)
        path.chmod(0)
    elif harm != "removed":
        path.write_bytes(body[: len(body) // 2] if harm == "halved" else b"")
    found = read_incarnation(disk, str(tmp_path))
    assert found.incarnation == written and len(found.faults) == 1
    write_incarnation(disk, str(tmp_path), written)
    assert read_incarnation(disk, str(tmp_path)).faults == ()
    assert (tmp_path / f"{name}.aside" / "kept").exists() == (harm == "a directory")


def test_both_gone_is_told_from_both_damaged(tmp_path: Path) -> None:
    disk = LocalDisk()
    assert read_incarnation(disk, str(tmp_path)) == (None, False, ())
    for name in FILES:
        (tmp_path / name).write_bytes(b"x" * 512)
    found = read_incarnation(disk, str(tmp_path))
    assert found.incarnation is None and found.present and len(found.faults) == 2


def test_a_full_disk_keeps_no_directory_from_being_noted_again() -> None:
    disk = a_disk()
    opened(disk, ONE).close(clean=False)
    disk.capacity_bytes = disk.used_bytes()
    directory = opened(disk, TWO)
    directory.witness.registered(TWO, 20, version=21, crc=None)
    found = read_incarnation(disk, "/data").incarnation
    assert found is not None and (found.incarnation, found.broker_epoch, found.metadata_version) == (TWO, 20, 21)


def test_a_directory_in_which_nothing_could_be_noted_yet_is_used_without() -> None:
    disk = a_disk()
    opened(disk).close(clean=False)
    disk.capacity_bytes = disk.used_bytes()
    directory = opened(disk, ONE)
    assert directory.witness.on_disk is None
    assert directory.witness.faults == ["no room to note down the incarnation of /data"]


def test_a_failed_sync_leaves_the_mark_for_the_next_recovery() -> None:
    disk = a_disk()
    opened(disk, ONE).close(clean=False)
    disk.fail("sync", errno.EIO, where=FILES[1])
    with pytest.raises(OSError, match="sync"):
        opened(disk, TWO)
    assert disk.exists(f"/data/{SYNC_FAILED}")


# -- the mark of a clean stop ---


def closed_by(disk: SimDisk, incarnation: str, epoch: int, marked: int) -> None:
    """Run and close a directory once; its mark of a clean stop names an epoch."""
    directory = opened(disk, incarnation)
    directory.witness.registered(incarnation, epoch, version=epoch, crc=None)
    directory.close(clean=True, broker_epoch=marked)


def test_a_clean_stop_is_believed_of_the_incarnation_that_is_noted() -> None:
    disk = a_disk()
    closed_by(disk, ONE, 7, marked=7)
    directory = opened(disk, TWO)
    assert directory.clean and directory.witness.faults == []
    assert directory.witness.on_disk is not None and directory.witness.on_disk.closed
    assert not disk.exists(f"/data/{CLEAN_SHUTDOWN}")


@pytest.mark.parametrize(
    "body",
    [
        b'{"version":0,"brokerEpoch":"6"}',
        b"",
        b"\0" * 31,
        b"[]",
        b'{"version":8,"brokerEpoch":"7"}',
        b'{"version":0,"br',
    ],
)
def test_a_mark_of_another_incarnation_is_no_proof_of_a_clean_stop(body: bytes) -> None:
    disk = a_disk()
    closed_by(disk, ONE, 7, marked=7)
    file = disk.open(f"/data/{CLEAN_SHUTDOWN}")
    file.truncate(0)
    file.write_at(0, [body])
    file.release()
    directory = opened(disk, TWO)
    assert not directory.clean
    assert directory.witness.on_disk is not None and not directory.witness.on_disk.closed
    assert len(directory.witness.faults) == 1 and "all logs are checked" in directory.witness.faults[0]
    assert not disk.exists(f"/data/{CLEAN_SHUTDOWN}")


@pytest.mark.parametrize("harm", ["unreadable", "a directory"])
def test_a_mark_that_cannot_be_read_is_no_proof_of_a_clean_stop(tmp_path: Path, harm: str) -> None:
    disk, path = WithRights(), str(tmp_path / "data")
    directory = opened(disk, ONE, path)
    directory.witness.registered(ONE, 7, version=7, crc=None)
    directory.close(clean=True, broker_epoch=7)
    mark = tmp_path / "data" / CLEAN_SHUTDOWN
    if harm == "unreadable":
        mark.chmod(0)
    else:
        mark.unlink()
        mark.mkdir()
    directory = opened(disk, TWO, path)
    assert not directory.clean and not mark.exists()
    assert len(directory.witness.faults) == 1 and str(mark) in directory.witness.faults[0]
    assert (mark.parent / f"{CLEAN_SHUTDOWN}.aside").is_dir() == (harm == "a directory")
    directory.close(clean=True, broker_epoch=7)


@pytest.mark.parametrize(("body", "clean"), [(b"", True), (b'{"version":0,"brokerEpoch":"3"}', True), (b"\x91", False)])
def test_a_mark_from_before_incarnations_is_believed_unless_it_is_damaged(body: bytes, clean: bool) -> None:
    disk = a_disk()
    opened(disk).close(clean=False)
    file = disk.open(f"/data/{CLEAN_SHUTDOWN}", create=True)
    file.write_at(0, [body])
    file.release()
    directory = opened(disk, ONE)
    assert directory.clean == clean and len(directory.witness.faults) == (not clean)


def test_that_it_was_closed_is_known_after_a_start_that_did_not_come_to_register() -> None:
    disk = a_disk()
    closed_by(disk, ONE, 7, marked=7)
    steps = 0
    while True:
        trial = next(iter(disk.legal_states()))
        trial.cut_after = trial.operations + steps
        try:
            opened(trial, TWO)
        except PowerCut:
            pass
        else:
            break
        for state in trial.legal_states():
            found = opened(state, THREE).witness.on_disk
            assert found is not None and found.closed and found.incarnation == ONE
        steps += 1
    assert steps > 4


def test_registrations_that_were_begun_are_remembered_until_one_succeeds() -> None:
    disk = a_disk()
    for incarnation in (ONE, TWO, THREE):
        opened(disk, incarnation).close(clean=False)
    directory = opened(disk, ONE)
    assert directory.witness.on_disk is not None and directory.witness.on_disk.attempts == (TWO, THREE, ONE)
    directory.witness.registered(ONE, 30, version=30, crc=None)
    assert directory.witness.on_disk.attempts == ()


def test_what_was_seen_of_the_metadata_only_grows() -> None:
    witness = Witness(a_disk(), "/data")
    witness.begin(ONE, "/data/no-mark")
    witness.seen(5, 55)
    witness.seen(4, 44)
    assert witness.on_disk is not None and (witness.on_disk.metadata_version, witness.on_disk.metadata_crc) == (5, 55)


@pytest.mark.parametrize(("older", "newer"), [(0, 1), (1, 0)])
def test_a_copy_that_is_older_than_the_other_is_said(tmp_path: Path, older: int, newer: int) -> None:
    disk, path = LocalDisk(), tmp_path / FILES[older]
    before = write_incarnation(disk, str(tmp_path), SAID)
    body = path.read_bytes()
    last = write_incarnation(disk, str(tmp_path), write_incarnation(disk, str(tmp_path), before))
    assert read_incarnation(disk, str(tmp_path)).faults == ()
    path.write_bytes(body)
    read = read_incarnation(disk, str(tmp_path))
    assert read.incarnation == last
    assert read.faults == (f"{path} is older than {tmp_path / FILES[newer]}, which is taken",)


def test_a_note_of_the_page_cache_that_cannot_be_opened_is_made_anew(tmp_path: Path) -> None:
    disk = WithRights()
    disk.make_directory(str(tmp_path / "data"))
    note = tmp_path / "data" / ".page-cache"
    leave_note(disk, str(tmp_path / "data"))
    body = note.read_bytes()
    note.chmod(0)
    assert not was_kept(disk, str(tmp_path / "data"))
    leave_note(disk, str(tmp_path / "data"))
    assert note.read_bytes() == body
    assert was_kept(disk, str(tmp_path / "data")) == bool(body)


def test_a_note_of_the_page_cache_that_cannot_be_read_is_made_anew() -> None:
    """A simulated broker of three (seed 310278) ended when one read of the note failed."""
    disk = SimDisk()
    disk.make_directory("/data")
    leave_note(disk, "/data")
    disk.fail("read", errno.EIO, where=".page-cache")
    leave_note(disk, "/data")
    assert was_kept(disk, "/data")


def test_a_link_to_nothing_in_place_of_the_page_caches_note_stops_no_start(tmp_path: Path) -> None:
    local_directory(tmp_path).close(clean=True)
    (tmp_path / ".page-cache").unlink()
    (tmp_path / ".page-cache").symlink_to("/nothing/is/here")
    again = local_directory(tmp_path)
    assert not again.cache_kept and not (tmp_path / ".page-cache").is_symlink()
    again.close(clean=True)
