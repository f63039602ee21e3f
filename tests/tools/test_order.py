"""A run begins with long test files, and no room of long tests has all its files at the end."""

from __future__ import annotations

from tests.conftest import LONG_ROOMS, ROOT, begin_with_long_rooms

FILES = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py"))]


def is_long(file: str) -> bool:
    return any(f"/tests/{room}/" in file for room in LONG_ROOMS)


def test_every_file_is_there_once_and_long_ones_come_first():
    order = begin_with_long_rooms(FILES)
    assert sorted(order) == sorted(FILES)
    kinds = [is_long(file) for file in order]
    assert kinds == sorted(kinds, reverse=True)
    assert 0 < sum(kinds) < len(kinds)


def test_long_rooms_come_in_turn():
    order = begin_with_long_rooms(
        ["/tests/lake/1", "/tests/lake/2", "/tests/wire/1", "/tests/server/1", "/tests/server/2"]
    )
    assert order == ["/tests/lake/1", "/tests/server/1", "/tests/lake/2", "/tests/server/2", "/tests/wire/1"]


def test_each_long_room_is_one_of_ours():
    assert all((ROOT / "tests" / room).is_dir() for room in LONG_ROOMS)
