"""No damaged byte of a metadata store is read as valid, and each gives an error message."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from small_store import TOPICS, fill, read

from ottla.coordination.database import Database, DatabaseFailure
from ottla.coordination.zookeeper_log import Head, SnapshotName, decode_head
from ottla.kernel.seams import StoreDamaged
from ottla.metadata.seal import SEALED_ENTRIES
from ottla.metadata.snapshot import take_snapshot

BIT = 0x40
TABLES = {"log": 0, "snapshot": 2}


def rows(path: Path, table: str) -> list[tuple[int, bytes]]:
    with closing(sqlite3.connect(path)) as opened:
        return opened.execute(f"SELECT version, body FROM {table} ORDER BY version").fetchall()


def write(path: Path, table: str, version: int, body: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute(f"UPDATE {table} SET body = ? WHERE version = ?", (body, version))


@pytest.mark.parametrize(("table", "snapshots"), TABLES.items())
def test_a_flipped_byte_of_an_entry_or_a_snapshot_is_found_and_named(tmp_path: Path, table: str, snapshots: int):
    path = tmp_path / "metadata.db"
    fill(path, snapshots=snapshots)
    sound = rows(path, table)[-TOPICS:] if table == "log" else rows(path, table)[-1:]
    flipped = 0
    for version, body in sound:
        for at in range(len(body)):
            write(path, table, version, body[:at] + bytes([body[at] ^ BIT]) + body[at + 1 :])
            with pytest.raises(StoreDamaged, match=rf"version {version}\b|entry {version}\b") as found:
                read(path)
            assert str(path) in str(found.value)
            assert "put back a backup" in str(found.value)
            flipped += 1
        write(path, table, version, body)
    assert flipped > 100
    assert read(path)


def test_the_first_entries_of_a_cluster_are_guarded_too(tmp_path: Path):
    path = tmp_path / "metadata.db"
    fill(path)
    for version, body in rows(path, "log")[:3]:
        for at in range(len(body)):
            write(path, "log", version, body[:at] + bytes([body[at] ^ BIT]) + body[at + 1 :])
            with pytest.raises(StoreDamaged, match=rf"entry {version}\b"):
                read(path)
        write(path, "log", version, body)


@pytest.mark.parametrize("body", ["text", 7, b"", b"\0" * 24])
@pytest.mark.parametrize("table", TABLES)
def test_a_row_that_holds_something_else_is_named(tmp_path: Path, table: str, body: object):
    path = tmp_path / "metadata.db"
    fill(path, snapshots=TABLES[table])
    version, _ = rows(path, table)[-1]
    write(path, table, version, body)
    with pytest.raises(StoreDamaged, match=rf"version {version}\b|entry {version}\b"):
        read(path)


def test_entries_that_changed_places_are_found(tmp_path: Path):
    path = tmp_path / "metadata.db"
    fill(path)
    (one, first), (other, second) = rows(path, "log")[4], rows(path, "log")[7]
    write(path, "log", one, second)
    write(path, "log", other, first)
    with pytest.raises(StoreDamaged, match=rf"entry {one}\b.*checksum"):
        read(path)


@pytest.mark.parametrize("version", [1, 5, 14])
def test_an_entry_that_is_missing_is_named(tmp_path: Path, version: int):
    path = tmp_path / "metadata.db"
    fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute("DELETE FROM log WHERE version = ?", (version,))
    with pytest.raises((StoreDamaged, LookupError), match=rf"entry {version}\b|cut below 2"):
        read(path)


@pytest.mark.parametrize("snapshots", [0, 2])
def test_no_damaged_byte_of_the_file_changes_what_is_read(tmp_path: Path, snapshots: int):
    """Flip every byte that is not zero, and every sixteenth zero: those between rows are mostly unused."""
    path = tmp_path / "metadata.db"
    expected = take_snapshot(fill(path, snapshots=snapshots)).body
    sound = path.read_bytes()
    found = refused = 0
    for at in range(len(sound)):
        if not sound[at] and at % 16:
            continue
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(sound[:at] + bytes([sound[at] ^ BIT]) + sound[at + 1 :])
        try:
            assert read(path) == expected
        except StoreDamaged as damage:
            found += 1
            assert str(path) in str(damage)
        except DatabaseFailure as failure:
            refused += 1
            assert str(path) in str(failure)
    assert found > 500
    assert refused <= 4, "a layout that a newer release might have"


@pytest.mark.parametrize("snapshots", [0, 2])
def test_what_an_older_release_wrote_without_checksums_is_read(tmp_path: Path, snapshots: int):
    path = tmp_path / "metadata.db"
    state = fill(path, snapshots=snapshots, level=SEALED_ENTRIES - 1)
    assert read(path) == take_snapshot(state).body
    assert all(body[2:4] == b"\0\0" for _, body in rows(path, "log")), "in the form that it knows"


def test_damage_without_a_checksum_is_a_sentence_too(tmp_path: Path):
    """An invalid topic id is found when the entry is applied; other bytes cannot be checked without a checksum."""
    path = tmp_path / "metadata.db"
    expected = take_snapshot(fill(path, level=SEALED_ENTRIES - 1)).body
    version, body = rows(path, "log")[-1]
    write(path, "log", version, body[:30] + bytes([body[30] ^ BIT]) + body[31:])
    with pytest.raises(StoreDamaged, match=rf"entry {version} .*does not fit what precedes it"):
        read(path)
    write(path, "log", version, body)
    assert read(path) == expected


@pytest.mark.parametrize("look", [Database.head, Database.load_snapshot, lambda database: database.read(0, 10)])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, look: Callable[[Database], object]):
    path = tmp_path / "metadata.db"
    fill(path)
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises((StoreDamaged, DatabaseFailure), match=f"{path}.*not a database"):
        look(Database(str(path)))


def test_the_head_in_zookeeper_carries_a_checksum_and_older_ones_are_read():
    head = Head(2104, 1001, (SnapshotName(1000, "ab", 1), SnapshotName(2000, "cd", 2)))
    encoded = head.encoded()
    assert decode_head(encoded) == head
    for at in range(len(encoded)):
        damaged = encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :]
        try:
            assert decode_head(damaged) == head
        except (StoreDamaged, OSError) as found:
            assert "head" in str(found)
    without = encoded.rpartition(b', "crc"')[0] + b"}"
    assert decode_head(without) == head
