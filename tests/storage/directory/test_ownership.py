"""A start checks the small files of a log directory; each refusal names the file and says what to do."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.storage.directory.ownership import DirectoryRefused, UnusableFile, opened_lock, refuse_foreign
from ottla.storage.disk.local import LocalDisk

WHOLE = b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n"
LINES = "version=1, cluster.id=, node.id= and directory.id=.*copy it from another log directory"


@pytest.fixture
def as_nobody(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Give root's process the rights of another user, who owns the folder."""
    libc = ctypes.CDLL(None)
    uid = os.geteuid()

    def become() -> None:
        if uid == 0:
            for folder in (tmp_path, *tmp_path.parents):
                if not folder.stat().st_mode & 0o001:
                    folder.chmod(folder.stat().st_mode | 0o711)
            os.chown(tmp_path, 65534, -1)
            libc.setfsuid(65534)

    yield become
    libc.setfsuid(uid)


@pytest.mark.parametrize("body", [WHOLE, b"version=0\nbroker.id=1\ncluster.id=c\n"])
def test_properties_with_their_lines_are_taken(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "meta.properties").write_bytes(body)
    refuse_foreign(LocalDisk(), str(tmp_path), ())


@pytest.mark.parametrize("body", [b"", WHOLE[:24], b"\x93" * 60, WHOLE.replace(b"node", b"nodf"), b"version=1\n"])
def test_damaged_properties_are_refused_with_the_lines_that_they_must_hold(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(body)
    with pytest.raises(DirectoryRefused, match=f"{path} is damaged.*{LINES}"):
        refuse_foreign(LocalDisk(), str(tmp_path), ())
    assert path.read_bytes() == body


@pytest.mark.parametrize("ours", ["incarnation", "incarnation.second", "log-start-offset-checkpoint.copy"])
def test_a_log_directory_without_its_properties_is_not_told_to_be_emptied(tmp_path: Path, ours: str) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / ours).write_bytes(b"")
    with pytest.raises(DirectoryRefused, match=f"holds data and its meta.properties is missing.*{LINES}"):
        refuse_foreign(LocalDisk(), str(tmp_path), ())


def test_a_directory_of_something_else_is_told_to_be_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_bytes(b"")
    with pytest.raises(DirectoryRefused, match=r"letter\.txt.*Give the broker an empty directory"):
        refuse_foreign(LocalDisk(), str(tmp_path), ())


def test_properties_that_are_a_directory_are_refused_as_a_failed_disk_would_be(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.mkdir()
    with pytest.raises(UnusableFile, match=f"{path} is a directory.*{LINES}") as refused:
        refuse_foreign(LocalDisk(), str(tmp_path), ())
    assert refused.value.errno == errno.EISDIR and refused.value.filename == str(path)


def test_properties_that_may_not_be_read_are_named(tmp_path: Path, as_nobody: Callable[[], None]) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(WHOLE)
    path.chmod(0)
    as_nobody()
    with pytest.raises(UnusableFile, match=rf"{path} cannot be opened \(Permission denied\).*{LINES}"):
        refuse_foreign(LocalDisk(), str(tmp_path), ())


def test_a_lock_that_cannot_be_opened_may_be_removed(tmp_path: Path, as_nobody: Callable[[], None]) -> None:
    path = tmp_path / ".lock"
    path.mkdir()
    with pytest.raises(UnusableFile, match=f"{path} is a directory.*remove it and start again"):
        opened_lock(LocalDisk().lock, str(path))
    path.rmdir()
    path.touch(0)
    as_nobody()
    with pytest.raises(UnusableFile, match=f"{path} cannot be opened.*remove it and start again"):
        opened_lock(LocalDisk().lock, str(path))
    os.unlink(path)
    held = opened_lock(LocalDisk().lock, str(path))
    assert held is not None
    held.release()


def test_a_version_that_its_other_lines_contradict_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "meta.properties").write_bytes(WHOLE.replace(b"version=1", b"version=0"))
    refuse_foreign(LocalDisk(), str(tmp_path), ())
    assert "meta.properties says version 0 and holds the lines of version 1" in caplog.text


def test_a_directory_without_rights_is_named_with_what_to_do(tmp_path: Path, as_nobody: Callable[[], None]) -> None:
    place = tmp_path / "data"
    place.mkdir(mode=0)
    as_nobody()
    with pytest.raises(UnusableFile, match=r"data cannot be opened \(Permission denied\)\. Give it to the user"):
        refuse_foreign(LocalDisk(), str(place), ())
