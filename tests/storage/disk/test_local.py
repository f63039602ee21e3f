"""The real disk adds the path to an error, tells failed syncs from full disks, and lists a directory once."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from ottla.storage.disk.local import LocalDisk, LocalFile, refuse_unwritable_to_owner

_AS_OF_A_FULL_DISK = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE]


def failing(error: int) -> Callable[..., Never]:
    """A function that fails as a call on a descriptor does: with an OSError without a path."""

    def fail(*arguments: object, **options: object) -> Never:
        raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize("error", _AS_OF_A_FULL_DISK)
def test_a_gathered_sync_that_fails_is_an_error_of_the_disk_and_names_the_directory(tmp_path, monkeypatch, error):
    synced: list[str] = []

    def sync(path: str) -> None:
        synced.append(path)
        if path.endswith("a"):
            raise OSError(error, os.strerror(error), path)

    monkeypatch.setattr("ottla.storage.disk.local.sync_file_system", sync)
    disk, paths = LocalDisk(), [str(tmp_path / "a"), str(tmp_path / "b")]
    with pytest.raises(OSError, match=os.strerror(error)) as caught, disk.gathered(*paths):
        disk.sync_directory(str(tmp_path))
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, paths[0])
    assert synced == paths


@pytest.mark.parametrize("error", [errno.EIO, *_AS_OF_A_FULL_DISK])
def test_a_file_system_that_has_a_failure_to_tell_of_has_lost_writes(tmp_path, monkeypatch, error):
    disk = LocalDisk()
    assert not disk.lost_writes(str(tmp_path))
    monkeypatch.setattr("ottla.storage.disk.local.sync_file_system", failing(error))
    assert disk.lost_writes(str(tmp_path))


def test_gathered_syncs_of_several_disks_that_fail_are_an_error_of_none_of_them_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("ottla.storage.disk.local.sync_file_system", failing(errno.ENOSPC))
    disk = LocalDisk()
    with pytest.raises(OSError, match=r"several disks: .*/a.*/b") as caught, disk.gathered("/a", "/b"):
        disk.sync_directory(str(tmp_path))
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, None)


@pytest.mark.parametrize("error", [errno.EIO, *_AS_OF_A_FULL_DISK])
def test_a_files_and_a_directorys_sync_that_fail_are_errors_of_the_disk_and_name_the_path(tmp_path, monkeypatch, error):
    disk, path = LocalDisk(), str(tmp_path / "f")
    file = disk.open(path, create=True)
    monkeypatch.setattr("os.fdatasync", failing(error), raising=False)
    monkeypatch.setattr("os.fsync", failing(error))
    with pytest.raises(OSError, match=os.strerror(error)) as caught:
        file.sync()
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, path)
    with pytest.raises(OSError, match=os.strerror(error)) as caught:
        disk.sync_directory(str(tmp_path))
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path))
    file.release()


def test_a_directory_that_cannot_be_opened_for_its_sync_is_not_taken_for_a_failed_sync(tmp_path):
    with pytest.raises(FileNotFoundError):
        LocalDisk().sync_directory(str(tmp_path / "gone"))


def test_whatever_fails_on_an_open_file_names_its_path(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    low = os.open(path, os.O_RDWR | os.O_CREAT)
    # A number far above those in use: what another thread opens meanwhile is not given it.
    file = LocalFile(path, fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 900))
    os.close(low)
    os.close(file.fileno())
    for call in (
        file.size,
        file.sync,
        lambda: file.truncate(1),
        lambda: file.read_at(0, 1),
        lambda: file.write_at(0, [b"x"]),
        file.release,
    ):
        with pytest.raises(OSError, match=path) as caught:
            call()
        assert caught.value.filename == path


def test_a_file_that_opens_and_cannot_be_read_is_named() -> None:
    with pytest.raises(OSError, match="mem") as caught:
        LocalDisk().read("/proc/self/mem")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, "/proc/self/mem")


def test_a_tree_that_cannot_be_removed_is_named_with_its_place(tmp_path, monkeypatch):
    tree = tmp_path / "t-0.x-delete"
    tree.mkdir()
    (tree / "f").touch()
    monkeypatch.setattr("os.unlink", failing(errno.EIO))
    with pytest.raises(OSError, match="t-0") as caught:
        LocalDisk().remove_tree(str(tree))
    assert caught.value.filename == str(tree)


@pytest.mark.parametrize("call", ["fcntl.lockf", "os.fstat"])
def test_a_lock_that_cannot_be_taken_names_its_path_and_leaves_nothing_open(tmp_path, monkeypatch, call):
    path, closed = str(tmp_path / ".lock"), []
    close = os.close
    monkeypatch.setattr(call, failing(errno.ENOLCK))
    monkeypatch.setattr("os.close", lambda fd: (closed.append(fd), close(fd)))
    with pytest.raises(OSError, match="lock") as caught:
        LocalDisk().lock(path)
    monkeypatch.undo()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOLCK, path)
    assert len(closed) == 1
    held = LocalDisk().lock(path)
    assert held is not None
    held.release()


def test_what_a_disk_cannot_look_up_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk, path = LocalDisk(), str(tmp_path / "file" / "below")
    assert not disk.exists(path)
    (tmp_path / "file").write_text("")
    assert not disk.exists(path)
    assert not disk.is_directory(path)
    assert disk.is_directory(str(tmp_path))
    assert not disk.is_directory(str(tmp_path / "file"))

    def fail(path: str) -> Never:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(os, "stat", fail)
    for ask in (disk.exists, disk.is_directory):
        with pytest.raises(OSError, match="Input/output") as caught:
            ask(path)
        assert caught.value.filename == path


# -- one listing for many looks


def test_names_are_known_by_one_listing_until_one_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, here = LocalDisk(), str(tmp_path)
    (tmp_path / "a").touch()
    listed, listdir = [], os.listdir

    def counted(path: str) -> list[str]:
        listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", counted)
    changes = [
        (lambda: disk.open(f"{here}/b", create=True).release(), ["a", "b"]),
        (lambda: disk.rename(f"{here}/b", f"{here}/c"), ["a", "c"]),
        (lambda: disk.make_directory(f"{here}/d"), ["a", "c", "d"]),
        (lambda: disk.remove(f"{here}/a"), ["c", "d"]),
        (lambda: disk.remove_tree(f"{here}/d"), ["c"]),
    ]
    with disk.alone_in(here):
        for number, (change, names) in enumerate(changes):
            change()
            for _ in range(3):
                assert disk.list(here) == names
                assert [name for name in "abcd" if disk.exists(f"{here}/{name}")] == names
            assert len(listed) == number + 1


def test_one_listing_says_nothing_of_other_directories_nor_of_later(tmp_path: Path) -> None:
    disk, here = LocalDisk(), tmp_path / "t-0"
    (here / "below").mkdir(parents=True)
    (here / "below" / "a").touch()
    (tmp_path / "t-00").mkdir()
    with disk.alone_in(str(here)):
        assert disk.list(str(here)) == ["below"]
        assert disk.exists(f"{here}/below/a") and disk.exists(f"{here}") and disk.exists(f"{here}0")
        assert disk.list(str(here / "below")) == ["a"]
        disk.list(str(here)).append("nobody's")
        assert not disk.exists(f"{here}/nobody's")
        (here / "b").touch()
    assert disk.list(str(here)) == ["b", "below"] and disk.exists(f"{here}/b")


def test_a_directory_that_cannot_be_listed_is_an_error_inside_too(tmp_path: Path) -> None:
    disk = LocalDisk()
    with disk.alone_in(str(tmp_path / "none")):
        assert not disk.exists(str(tmp_path / "none" / "a"))
        with pytest.raises(FileNotFoundError):
            disk.list(str(tmp_path / "none"))


@pytest.mark.parametrize("mode", [0o444, 0o555])
def test_a_path_that_its_owner_may_not_write_is_refused_to_the_owner_of_the_directory(
    tmp_path: Path, mode: int
) -> None:
    """A test that runs as root sees what another user would be refused."""
    path = tmp_path / "it"
    path.mkdir() if mode == 0o555 else path.touch()
    if os.geteuid() == 0:
        os.chown(tmp_path, 65534, 65534)
        os.chown(path, 65534, 65534)
    refuse_unwritable_to_owner(str(path), str(tmp_path))
    path.chmod(mode)
    with pytest.raises(PermissionError) as caught:
        refuse_unwritable_to_owner(str(path), str(tmp_path))
    assert caught.value.filename == str(path)
    if os.geteuid() == 0:
        os.chown(tmp_path, 0, 0)
        refuse_unwritable_to_owner(str(path), str(tmp_path))
        LocalDisk().refuse_unwritable(str(path))
    else:
        with pytest.raises(PermissionError):
            LocalDisk().refuse_unwritable(str(path))
