"""Tests of the damages: each changes its file, and single bits reach each field."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.damage.harms import HARMS, applies, bits_of, do

from ottla.records.builder import build_batch
from ottla.records.reader import Record

BATCHES = b"".join(build_batch([Record(0, 1, b"k", b"v" * 50)], base_offset=at) for at in range(5))


@pytest.mark.parametrize("harm", [harm for harm in HARMS if harm != "unreadable"])
def test_a_damage_changes_the_file(harm: str, tmp_path: Path) -> None:
    path, older = tmp_path / "file", tmp_path / "older"
    path.write_bytes(BATCHES)
    older.write_bytes(BATCHES[:100])
    (bit, *_) = bits_of("x.log", BATCHES, Random(1))
    do(harm, path, Random(1), older=older, bit=bit)
    assert not path.is_file() or path.read_bytes() != BATCHES
    if harm == "garbage":
        assert path.stat().st_size == len(BATCHES)
    if harm == "bit":
        changed = [at for at, (old, new) in enumerate(zip(BATCHES, path.read_bytes(), strict=True)) if old != new]
        assert changed == [bit.byte]


def test_an_unreadable_file_has_no_rights(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    do("unreadable", path, Random(1))
    assert path.stat().st_mode & 0o777 == 0


def test_a_directory_is_emptied_removed_or_replaced_whole(tmp_path: Path) -> None:
    older = tmp_path / "earlier"
    older.mkdir()
    (older / "old").write_bytes(b"1")
    for harm, left in (("emptied", []), ("older", ["old"])):
        path = tmp_path / harm
        path.mkdir()
        (path / "new").write_bytes(b"2")
        do(harm, path, Random(1), older=older)
        assert [each.name for each in path.iterdir()] == left
    do("removed", older, Random(1))
    assert not older.exists()


def test_a_damage_that_would_change_nothing_is_no_case(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert [harm for harm in HARMS if applies(harm, path, None)] == ["removed", "unreadable", "directory", "link"]
    path.write_bytes(b"12")
    assert [harm for harm in HARMS if not applies(harm, path, None)] == ["older"]
    assert [harm for harm in HARMS if applies(harm, tmp_path, path)] == ["emptied", "removed", "unreadable", "older"]


def test_bits_of_a_segment_reach_each_field_of_its_first_middle_and_last_batch() -> None:
    found = bits_of("x.log", BATCHES, Random(3))
    size = len(BATCHES) // 5
    where = {bit.stratum: bit.byte for bit in found}
    assert len(where) == len(found) == 3 * 14
    for which, number in (("first", 0), ("middle", 2), ("last", 4)):
        assert 0 <= where[f"base offset of the {which} batch"] - number * size < 8
        assert 12 <= where[f"leader epoch of the {which} batch"] - number * size < 16
        assert 61 <= where[f"records of the {which} batch"] - number * size < size


def test_bits_of_an_index_and_of_a_text_reach_their_entries_and_lines() -> None:
    assert {bit.stratum for bit in bits_of("x.index", bytes(8), Random(1))} == {
        "offset of the last entry",
        "position of the last entry",
    }
    assert len(bits_of("x.timeindex", bytes(36), Random(1))) == 6
    lines = bits_of("leader-epoch-checkpoint", b"0\n1\n0 0\n", Random(1))
    assert [(bit.stratum, bit.byte // 2) for bit in lines[:2]] == [("line 1", 0), ("line 2", 1)]
    assert bits_of("empty.index", b"", Random(1)) == []


def test_bits_of_a_database_reach_what_is_used_of_it() -> None:
    content = bytes(1000) + b"abc" + bytes(1000) + b"def" + bytes(10_000) + b"ghi"
    where = {bit.stratum: bytes([content[bit.byte]]) for bit in bits_of("x.db", content, Random(1))}
    assert list(where) == ["beginning", "middle", "end"]
    assert all(byte in group for byte, group in zip(where.values(), (b"abc", b"def", b"ghi"), strict=True))


def test_a_seed_draws_the_same_bits_again() -> None:
    assert bits_of("x.log", BATCHES, Random(5)) == bits_of("x.log", BATCHES, Random(5))
