"""File calls on the real disk sync like those on the simulated one, which test_local_power_cuts.py uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.stores.base import FinishedFile
from ottla.stores.local import LocalStore
from ottla.stores.local_files import RealFiles


class Synced(NamedTuple):
    """A file or folder at the moment of its fsync."""

    inode: int
    size: int
    names: tuple[str, ...]
    """The names of the folder's files."""


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Synced]:
    """All files and folders that are synced, in order; the operating system syncs them too."""
    seen: list[Synced] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        found = os.fstat(descriptor)
        folder = os.path.realpath(f"/proc/self/fd/{descriptor}")
        names = tuple(sorted(os.listdir(folder))) if os.path.isdir(folder) else ()
        fsync(descriptor)
        seen.append(Synced(found.st_ino, found.st_size, names))

    monkeypatch.setattr(os, "fsync", watched)
    return seen


def sizes(synced: list[Synced], path: Path) -> list[int]:
    """The sizes at which a file was synced."""
    return [each.size for each in synced if each.inode == path.stat().st_ino]


def names(synced: list[Synced], folder: Path) -> list[tuple[str, ...]]:
    """The visible names in a folder at each of its syncs."""
    found = [each.names for each in synced if each.inode == folder.stat().st_ino]
    return [tuple(name for name in each if not name.startswith(".")) for each in found]


def test_a_file_is_synced_when_all_of_it_is_written(tmp_path, synced):
    RealFiles().write(tmp_path / "a", b"body")
    assert sizes(synced, tmp_path / "a") == [4]


def test_a_file_of_a_sink_is_synced_whole(tmp_path, synced):
    sink = RealFiles().sink(tmp_path / "a")
    sink.write(b"x" * 100_000)
    sink.close()
    assert RealFiles().sync(tmp_path / "a") == 100_000
    assert sizes(synced, tmp_path / "a") == [100_000]


def test_a_folder_is_synced_with_its_names(tmp_path, synced):
    (tmp_path / "a").touch()
    RealFiles().sync_folder(tmp_path)
    assert names(synced, tmp_path) == [("a",)]


def put(name: str) -> Callable[[LocalStore], object]:
    return lambda store: getattr(store, name)("_ottla/plan", b"body")


@pytest.mark.parametrize("name", ["create", "replace"])
def test_a_state_file_and_then_its_name_are_synced(tmp_path, synced, name):
    put(name)(LocalStore(tmp_path / "lake"))
    assert sizes(synced, tmp_path / "lake" / "_ottla" / "plan") == [4]
    assert names(synced, tmp_path / "lake" / "_ottla") == [("plan",)]
    assert synced[-1].inode == (tmp_path / "lake" / "_ottla").stat().st_ino
    assert names(synced, tmp_path / "lake") == [("_ottla",)]
    assert names(synced, tmp_path)[-1] == ("lake",)


def test_revealed_names_are_synced_before_the_temporary_ones_go_and_after(tmp_path, synced):
    store, move = LocalStore(tmp_path / "lake"), FinishedFile("_ottla/tmp/7/a", "topic=a/part-0", 4)
    output = store.open_output(move.temporary)
    output.sink.write(b"rows")
    output.finish()
    final, temporary = tmp_path / "lake" / move.final, tmp_path / "lake" / move.temporary
    assert sizes(synced, temporary) == [4] and names(synced, temporary.parent) == [("a",)]
    store.reveal([move])
    assert names(synced, final.parent) == [("part-0",)]
    assert names(synced, temporary.parent) == [("a",), ()]
    order = [each.inode for each in synced]
    assert order.index(final.parent.stat().st_ino) < len(order) - 1 == order.index(temporary.parent.stat().st_ino, -1)
