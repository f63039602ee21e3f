"""The shared file: opening it, noticing deaths, full disks, and kills."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coordination_stores import SqliteKind

from ottla.coordination.database import Database, DatabaseFailure
from ottla.coordination.presence import AlreadyRunning, Doorbell, Presence
from ottla.coordination.sqlite import SqliteCoordination
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, StoredSnapshot, Unknown, Written


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteKind]:
    kind = SqliteKind(tmp_path / "metadata", "PERSIST")
    yield kind
    kind.close()


def a_process(directory: Path, broker_id: int, then: str) -> subprocess.Popen[str]:
    """Another broker's process; it prints a line once it has opened the store."""
    source = f"""
import queue, sys, time
from ottla.coordination.sqlite import SqliteCoordination
callbacks = queue.SimpleQueue()
store = SqliteCoordination({str(directory)!r}, {broker_id}, callbacks.put)
def wait(slot):
    while not slot.full:
        callbacks.get()()
    return slot.result()
print("open", flush=True)
{then}
"""
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_a_second_process_of_one_broker_is_refused_by_name(store, tmp_path):
    store.open(1)
    with pytest.raises(AlreadyRunning, match=f"broker 1 is running already .*process {os.getpid()}"):
        SqliteCoordination(str(tmp_path / "metadata"), BrokerId(1), queue.SimpleQueue().put)


def test_the_lock_is_free_again_after_a_close(store):
    store.open(1).close()
    assert store.wait(store.open(1).head()) == 0


def test_a_killed_broker_is_seen_gone_without_waiting_for_its_session(store, tmp_path):
    survivor = _patient(tmp_path / "metadata", 1, store.callbacks)  # it would wait ten minutes for a session
    process = a_process(tmp_path / "metadata", 2, "time.sleep(600)")
    try:
        assert store.wait_until(lambda: survivor.live() == {1, 2})
        process.kill()
        assert store.wait_until(lambda: survivor.live() == {1})
    finally:
        process.kill()
        process.wait()
        survivor.close()


def test_a_stopped_broker_is_seen_gone_when_its_heartbeat_is_older_than_a_session(tmp_path):
    directory = str(tmp_path)
    one = Presence(directory, BrokerId(1), session_timeout_ms=60_000)
    two = Presence(directory, BrokerId(2), session_timeout_ms=60_000)
    now_ms = time.monotonic_ns() // 1_000_000
    two.beat(now_ms - 200)
    assert one.look() == {1, 2}
    two.beat(now_ms - 61_000)
    assert one.look() == {1}
    one.close()
    two.close()


def test_a_store_that_is_asked_nothing_lets_its_heartbeat_grow_old(tmp_path):
    callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    hung = SqliteCoordination(str(tmp_path), BrokerId(2), callbacks.put, session_timeout_ms=200)
    watcher = Presence(str(tmp_path / "brokers"), BrokerId(1), session_timeout_ms=200)
    deadline = time.monotonic() + 300
    while (seen := watcher.look()) != {1} and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen == {1}, "its loop turned no more, and its worker thread alone is no sign of life"
    while (seen := watcher.look()) != {1, 2} and time.monotonic() < deadline:
        hung.head()
        time.sleep(0.02)
    assert seen == {1, 2}
    hung.close()
    watcher.close()


def test_what_was_appended_survives_a_kill_at_any_moment(store, tmp_path):
    """Each version that the child printed was appended, and no append is torn."""
    directory = tmp_path / "metadata"
    process = a_process(
        directory,
        2,
        "\n".join(
            [
                "version = 0",
                "while True:",
                "    version = wait(store.append([b'e%d' % (version + 1), b'e%d' % (version + 2)], version)).version",
                "    print(version, flush=True)",
            ]
        ),
    )
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(40)]
    process.send_signal(signal.SIGKILL)
    printed += process.stdout.readlines()
    process.wait()
    acknowledged = int([line for line in printed if line.endswith("\n")][-1])
    broker = store.open(1)
    entries = store.wait(broker.read(0))
    assert len(entries) >= acknowledged
    assert len(entries) % 2 == 0
    assert entries == [(version, b"e%d" % version) for version in range(1, len(entries) + 1)]


def test_two_processes_write_one_log(store, tmp_path):
    broker = store.open(1)
    process = a_process(
        tmp_path / "metadata",
        2,
        "\n".join(
            [
                "done = 0",
                "while done < 30:",
                "    head = wait(store.head())",
                "    done += type(wait(store.append([b'theirs'], head))).__name__ == 'Written'",
            ]
        ),
    )
    ours = 0
    while ours < 30:
        outcome = store.wait(broker.append([b"ours"], store.wait(broker.head())))
        assert isinstance(outcome, Written | Conflict)
        ours += isinstance(outcome, Written)
    assert process.wait(timeout=30) == 0
    entries = store.wait(broker.read(0))
    assert [entry.version for entry in entries] == list(range(1, 61))
    assert sum(entry.body == b"ours" for entry in entries) == 30


@pytest.mark.parametrize("journal", ["PERSIST", "WAL"])
def test_a_store_opens_while_another_broker_writes_its_first_entries(tmp_path, journal):
    path = tmp_path / "metadata.db"
    writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    end = threading.Timer(0.3, lambda: writer.execute("ROLLBACK"))
    end.start()
    database = Database(str(path), journal)
    assert database.append([b"first"], 0) == Written(1)
    end.join()
    writer.close()
    database.close()


def test_tables_that_another_broker_makes_meanwhile_are_not_taken_for_damage(tmp_path):
    path = str(tmp_path / "metadata.db")
    reader, writer = Database(path, "WAL"), Database(path, "WAL")
    assert reader.head() == writer.head() == 0
    connection = reader._connection
    assert connection is not None

    def write_once(statement: str) -> None:
        if "sqlite_master" in statement and writer.head() == 0:
            assert writer.append([b"first"], 0) == Written(1)

    connection.set_trace_callback(write_once)
    assert reader.head() == 0  # as of the moment at which it began to read
    connection.set_trace_callback(None)
    assert [entry.body for entry in reader.read(0, 10)] == [b"first"]
    reader.close()
    writer.close()


def filled(path: Path, journal: str) -> Database:
    """A database whose file may not grow any more, as on a full disk, and whose reserve is in place."""
    database = Database(str(path / "metadata.db"), journal)
    assert isinstance(database.append([b"first"], 0), Written)
    database._opened_ms -= 10_000
    database.tend()
    connection = database._connection
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return database


@pytest.mark.parametrize("journal", ["PERSIST", "TRUNCATE"])
def test_on_a_full_disk_metadata_goes_on_with_the_reserve(tmp_path, journal):
    database = filled(tmp_path, journal)
    version = 1
    for _ in range(100):
        outcome = database.append([b"x" * 1000], version)
        assert isinstance(outcome, Written)
        version = outcome.version
    assert [entry.version for entry in database.read(0, 1000)] == list(range(1, 102))
    database.close()


@pytest.mark.root
def test_metadata_goes_on_where_others_have_filled_the_file_system(tmp_path):
    """Room for pages and journal is reserved: no other file can take it."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)], check=True)
    try:
        database = Database(str(place / "metadata.db"), "PERSIST")
        assert isinstance(database.append([b"x" * 3000] * 10, 0), Written)
        database._opened_ms -= 10_000
        database.tend()
        with open(place / "others", "wb", buffering=0) as others, pytest.raises(OSError, match="No space"):
            while True:
                others.write(bytes(4096))
        version = 10
        for _ in range(100):
            outcome = database.append([b"y" * 3000], version)
            assert isinstance(outcome, Written)
            version = outcome.version
        assert len(database.read(0, 1000)) == version
        database.close()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_when_the_reserve_is_used_up_an_append_fails_and_writes_nothing(tmp_path):
    database = filled(tmp_path, "PERSIST")
    version = 1
    with pytest.raises(DatabaseFailure, match="full"):
        for _ in range(10):
            outcome = database.append([b"x" * 200_000], version)
            assert isinstance(outcome, Written)
            version = outcome.version
    assert version > 1
    assert database.head() == version
    assert len(database.read(0, 1000)) == version
    database.close()


def test_the_reserve_is_made_again_when_there_is_room(tmp_path):
    database = filled(tmp_path, "PERSIST")
    database.append([b"x" * 100_000], 1)
    connection = database._connection
    assert connection is not None
    assert connection.execute("SELECT count(*) FROM reserve").fetchone()[0] == 0
    connection.execute("PRAGMA max_page_count = 1000000")
    database._opened_ms -= 10_000
    database.tend()
    assert connection.execute("SELECT count(*) FROM reserve").fetchone()[0] == 1
    database.close()


def test_a_store_of_a_later_release_is_refused_with_a_sentence(tmp_path):
    database = Database(str(tmp_path / "metadata.db"))
    database.append([b"x"], 0)
    assert database._connection is not None
    database._connection.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(DatabaseFailure, match="written by a newer release"):
        Database(str(tmp_path / "metadata.db")).head()


def test_the_doorbell_rings_in_a_directory_whose_path_is_longer_than_a_sockets_may_be(tmp_path):
    directory = str(tmp_path / ("long" * 40))
    one, two = Doorbell(directory, BrokerId(1)), Doorbell(directory, BrokerId(2))
    one.ring()
    assert two.socket.recv(16) == b"\0"
    with pytest.raises(BlockingIOError):
        one.socket.recv(16)
    two.close()
    one.ring()  # no broker listens: no error
    one.close()


def test_a_closed_store_answers_with_an_error(store):
    broker = store.open(1)
    broker.close()
    slot = broker.save_snapshot(StoredSnapshot(1, b""))
    with pytest.raises(OSError, match="closed"):
        slot.result()


def test_who_comes_upon_a_death_by_another_call_tells_the_others_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket may have 107 bytes
    monkeypatch.setattr("ottla.coordination.sqlite.POLL_MS", 600_000)
    callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    first, second, third = (_patient(tmp_path, number, callbacks) for number in (1, 2, 3))
    second.look_now()
    while not (first.live() == second.live() == {1, 2, 3}):
        time.sleep(0.001)
    third.close()
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as bell:
        bell.sendto(b"\0", "brokers/1.sock")  # an entry was written; no death is suspected
    while not (first.live() == second.live() == {1, 2}):
        time.sleep(0.001)
    first.close()
    second.close()


def _patient(directory, number, callbacks) -> SqliteCoordination:
    return SqliteCoordination(str(directory), BrokerId(number), callbacks.put, session_timeout_ms=600_000)


def test_who_suspects_a_death_finds_it_at_once_and_tells_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("ottla.coordination.sqlite.POLL_MS", 600_000)  # no broker polls by itself
    callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    first, second, third = (_patient(tmp_path, number, callbacks) for number in (1, 2, 3))
    first.look_now()
    second.look_now()
    heard: list[str] = []
    while not (first.live() == second.live() == {1, 2, 3}):
        time.sleep(0.001)
    first.on_change(lambda: heard.append("first"))
    second.on_change(lambda: heard.append("second"))
    third.close()
    first.look_now()
    while not (first.live() == second.live() == {1, 2}):  # polls come too late for this test
        time.sleep(0.001)
    while not {"first", "second"} <= set(heard):
        callbacks.get(timeout=60)()
    first.close()
    second.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_is_removed_or_replaced_takes_and_tells_nothing_more(tmp_path, replaced):
    """Otherwise brokers with the old file open would go on, while a new broker would begin another store."""
    path = tmp_path / "metadata.db"
    database = Database(str(path))
    assert database.append([b"one"], 0) == Written(1)
    copy = path.read_bytes()
    path.unlink()
    if replaced:
        path.write_bytes(copy)
    what = "replaced by another file" if replaced else f"removed .*/proc/{os.getpid()}/fd/"
    for use in (lambda: database.append([b"two"], 1), database.head, lambda: database.read(0, 1)):
        with pytest.raises(DatabaseFailure, match=f"{path} was {what}"):
            use()
    assert path.exists() == replaced
    database.close()


def test_a_store_that_is_removed_while_an_append_is_on_its_way_acknowledges_nothing(tmp_path, monkeypatch):
    path = tmp_path / "metadata.db"
    database = Database(str(path))
    assert database.append([b"one"], 0) == Written(1)
    append = Database._append

    def then_removed(*arguments):
        outcome = append(*arguments)
        path.unlink()
        return outcome

    monkeypatch.setattr(Database, "_append", then_removed)
    assert isinstance(database.append([b"two"], 1), Unknown)
    with pytest.raises(DatabaseFailure, match="was removed"):
        database.head()
    database.close()
    with pytest.raises(DatabaseFailure, match="was removed"):
        database.head()
    assert not path.exists()
