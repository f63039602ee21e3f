"""Cases of local lakes alone: file systems, permissions, and a lock that is removed by hand."""

from __future__ import annotations

import os
import shutil

import pytest

from ottla.stores import LakeRefused, StoreUnreachable
from ottla.stores.local import LOCK, LocalStore


def test_a_lake_whose_lock_was_removed_is_lost_to_its_loader(tmp_path):
    store = LocalStore(tmp_path / "lake")
    hold = store.hold("one")
    hold.check()
    (tmp_path / "lake" / LOCK).unlink()
    second = LocalStore(tmp_path / "lake").hold("two")
    with pytest.raises(LakeRefused, match="removed"):
        hold.check()
    second.check()
    hold.release()
    second.check()
    second.release()


def test_data_go_to_the_file_itself_and_are_read_in_place(tmp_path):
    """No Python code runs per write: an executor reads and writes at the operating system's speed."""
    store = LocalStore(tmp_path / "lake")
    output = store.open_output("data/1")
    assert type(output.sink).__name__ == "OSFile"
    output.sink.write(b"rows")
    output.finish()
    with store.open_input("data/1") as file:
        assert type(file).__name__ == "MemoryMappedFile"


def test_a_folder_in_place_of_the_lake_is_an_error_of_the_system(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(NotADirectoryError):
        LocalStore(tmp_path / "file").replace("a", b"")


def test_a_folder_that_goes_while_it_is_known_is_made_again(tmp_path):
    store = LocalStore(tmp_path / "lake")
    store.replace("a/b/1", b"x")
    shutil.rmtree(tmp_path / "lake")
    store.replace("a/b/1", b"y")
    assert store.read("a/b/1") == b"y"


def test_unfinished_files_are_no_entries_and_go_with_their_folder(tmp_path):
    store = LocalStore(tmp_path / "lake")
    output = store.open_output("_ottla/tmp/1/a")
    output.sink.write(b"half")
    assert store.entries("") == []
    assert len(os.listdir(tmp_path / "lake" / "_ottla" / "tmp" / "1")) == 1
    store.remove_folder("_ottla/tmp/")
    assert not (tmp_path / "lake" / "_ottla" / "tmp").exists()


def test_a_full_disk_is_no_passing_fault(tmp_path):
    """/dev/full stands for a full disk: every write to it fails with ENOSPC."""
    store = LocalStore(tmp_path / "lake")
    output = store.open_output("data/1")
    with pytest.raises(OSError, match="No space") as fault, open("/dev/full", "wb", buffering=0) as full:
        os.dup2(full.fileno(), output.sink.fileno())
        output.sink.write(b"rows")
    assert not isinstance(fault.value, StoreUnreachable)
    output.abandon()
    assert store.entries("") == []
