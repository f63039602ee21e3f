"""Tests of rule C7 on the shared file: its journal, its place, its locks, and polling for lost datagrams."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from coordination_stores import SqliteKind

from ottla.coordination import database, presence
from ottla.coordination.database import JOURNAL, Database
from ottla.coordination.presence import Doorbell, refuse_network_file_system
from ottla.coordination.sqlite import FILE_NAME, SqliteCoordination
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Written


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteKind]:
    kind = SqliteKind(tmp_path / "metadata", "PERSIST")
    yield kind
    kind.close()


@pytest.mark.parametrize("before", [None, "WAL", "TRUNCATE"], ids=["a new file", "written ahead", "truncated"])
def test_the_journal_is_one_that_stays_allocated_and_syncs_are_full(tmp_path, before):
    """Rule C7; docs/decisions/0010-sqlite-journal.md says why. A file that was used in another mode is taken over."""
    path = str(tmp_path / FILE_NAME)
    if before is not None:
        made = Database(path, before)
        assert made.append([b"first"], 0) == Written(1)
        made.close()
    opened = Database(path)
    assert isinstance(opened.append([b"x"], opened.head()), Written)
    connection = opened._connection
    assert connection is not None
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("persist",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    assert [entry.body for entry in opened.read(0, 10)] == [*([] if before is None else [b"first"]), b"x"]
    opened.close()


def test_a_flipped_bit_takes_entries_out_of_a_write_ahead_log_without_an_error(tmp_path):
    """The reason why the store has none: this is SQLite's own way, and a change of it would be worth to know of."""
    found = {}
    for journal in ("WAL", JOURNAL):
        path = tmp_path / journal / FILE_NAME
        path.parent.mkdir()
        made = Database(str(path), journal)
        for version in range(100):
            assert made.append([b"x" * 200], version) == Written(version + 1)
        crashed = tmp_path / f"{journal} after a crash"
        shutil.copytree(path.parent, crashed, ignore=shutil.ignore_patterns("*-shm"))
        made.close()
        written = crashed / (f"{FILE_NAME}-wal" if journal == "WAL" else FILE_NAME)
        content = bytearray(written.read_bytes())
        content[content.index(b"x" * 200, len(content) // 2)] ^= 1
        written.write_bytes(content)
        opened = Database(str(crashed / FILE_NAME), journal)
        found[journal] = opened.head()
        opened.close()
    assert found["WAL"] < 100 == found[JOURNAL]


LOCAL = "/dev/sda1 / ext4 rw 0 0\n"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "afs", "ceph", "fuse.sshfs", "lustre"])
def test_a_place_on_a_network_file_system_is_refused(tmp_path, monkeypatch, kind):
    """Rule C7: its locks cannot be trusted."""
    mounts = f"{LOCAL}server:/export {tmp_path} {kind} rw 0 0\n"
    monkeypatch.setattr(presence, "open", lambda *path, **named: io.StringIO(mounts), raising=False)
    with pytest.raises(OSError, match=f"network file system .{kind}."):
        SqliteCoordination(str(tmp_path / "metadata"), BrokerId(1), queue.SimpleQueue().put)
    assert os.listdir(tmp_path / "metadata") == []


@pytest.mark.parametrize(
    ("mounts", "refused"),
    [
        (LOCAL, False),
        ("server:/ / nfs4 rw 0 0\n", True),
        (LOCAL + "server:/ {parent} nfs4 rw 0 0\n", True),
        (LOCAL + "server:/ {parent} nfs4 rw 0 0\n/dev/sdb1 {place} xfs rw 0 0\n", False),
        (LOCAL + "/dev/sdb1 {place} xfs rw 0 0\nserver:/ {place} nfs4 rw 0 0\n", True),
        (LOCAL + "server:/ {place}2 nfs4 rw 0 0\n", False),
        (LOCAL + "server:/ {place}/below nfs4 rw 0 0\n", False),
    ],
    ids=["local", "all of it", "above", "local in remote", "mounted over", "a longer name", "below"],
)
def test_the_mount_nearest_to_the_place_decides(tmp_path, monkeypatch, mounts, refused):
    """Rule C7; the path may contain a symbolic link or a space."""
    place = tmp_path / "a place"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    written = mounts.format(parent=tmp_path, place=str(place).replace(" ", "\\040"))
    monkeypatch.setattr(presence, "open", lambda *path, **named: io.StringIO(written), raising=False)
    for way in (place, tmp_path / "link"):
        with pytest.raises(OSError, match="network file system") if refused else contextlib.nullcontext():
            refuse_network_file_system(str(way))


def test_what_a_lost_datagram_did_not_tell_is_found_by_a_look_at_the_file(store, monkeypatch):
    """Rule C7: `PRAGMA data_version`, again and again."""
    monkeypatch.setattr(Doorbell, "ring", lambda bell: None)
    one, two = store.open(1), store.open(2)
    assert store.wait_until(lambda: one.live() == two.live() == {1, 2})
    for version in range(3):
        store.wait(two.read(0))
        told: list[frozenset[BrokerId]] = []
        two.on_change(lambda told=told: told.append(two.live()))
        assert isinstance(store.wait(one.append([b"x"], version)), Written)
        assert store.wait_until(lambda told=told: bool(told))
        assert told[0] == {1, 2}, "it was told of the entry, not of a broker that nobody asked for a session"
        assert len(store.wait(two.read(version))) == 1


def test_a_child_that_outlives_its_broker_does_not_keep_the_brokers_lock(store, tmp_path):
    """Rule C7: the child is started by exec, and the lock's descriptor is closed in it even if others are inherited."""
    directory = tmp_path / "metadata"
    survivor = store.open(1)
    source = f"""
import queue, subprocess, sys, time
from ottla.coordination.sqlite import SqliteCoordination
store = SqliteCoordination({str(directory)!r}, 2, queue.SimpleQueue().put)
child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)"],
                         close_fds=False, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""
    broker = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert broker.stdout is not None
    child = int(broker.stdout.readline())
    try:
        assert store.wait_until(lambda: survivor.live() == {1, 2})
        broker.kill()
        broker.wait()
        assert store.wait_until(lambda: survivor.live() == {1})
        os.kill(child, 0)  # it still runs
        store.open(2)
        assert store.wait_until(lambda: survivor.live() == {1, 2})
    finally:
        broker.kill()
        broker.wait()
        broker.stdout.close()
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("lock", ["a writer", "a reader"])
def test_a_file_that_stays_busy_fails_an_append_and_nothing_is_written(store, tmp_path, monkeypatch, lock):
    """Rule C7. Another writer keeps it from beginning, and a reader from committing (with a rollback journal)."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 100)
    broker = store.open(1)
    assert isinstance(store.wait(broker.append([b"before"], 0)), Written)
    with contextlib.closing(sqlite3.connect(tmp_path / "metadata" / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE" if lock == "a writer" else "BEGIN")
        assert other.execute("SELECT count(*) FROM log").fetchone() == (1,)
        with pytest.raises(OSError, match="locked"):
            store.wait(broker.append([b"x", b"y"], 1))
        assert store.wait(broker.read(0)) == [(1, b"before")]
        other.execute("ROLLBACK")
    assert store.wait(broker.append([b"after"], 1)) == Written(2)
    assert store.wait(broker.read(0)) == [(1, b"before"), (2, b"after")]


def test_an_entry_that_comes_while_the_end_of_the_log_is_read_is_not_taken_for_a_cut_log(tmp_path: Path) -> None:
    writer = Database(str(tmp_path / FILE_NAME))
    assert writer.append([b"one"], 0) == Written(1)

    class Watched(Database):
        """A database in which another process appends right after the first look at the head."""

        def _head(self, connection: sqlite3.Connection) -> int:
            if writer.head() == 1:
                connection.commit()
                assert writer.append([b"two"], 1) == Written(2)
            return super()._head(connection)

    reader = Watched(str(tmp_path / FILE_NAME))
    assert [entry.body for entry in reader.read(1, 100)] == [b"two"]
    reader.close()
    writer.close()
