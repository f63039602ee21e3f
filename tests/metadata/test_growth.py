"""When the metadata log is worth a snapshot."""

from __future__ import annotations

from ottla.metadata.growth import SNAPSHOT_BYTES, SNAPSHOT_ENTRIES, LogGrowth

SMALL = bytes(60)


def entries_until_due(growth: LogGrowth, entry: bytes) -> int:
    count = 0
    while not growth.calls_for_snapshot:
        growth.add(entry)
        count += 1
    return count


def test_small_entries_are_counted():
    assert entries_until_due(LogGrowth(), SMALL) == SNAPSHOT_ENTRIES


def test_large_entries_are_measured():
    entry = bytes(SNAPSHOT_BYTES // 8)
    assert entries_until_due(LogGrowth(), entry) == 8


def test_after_a_snapshot_both_begin_anew():
    growth = LogGrowth()
    entries_until_due(growth, SMALL)
    growth.restart(500)
    assert not growth.calls_for_snapshot
    assert entries_until_due(growth, SMALL) == SNAPSHOT_ENTRIES


def test_a_large_state_is_not_written_again_for_little():
    growth = LogGrowth()
    growth.restart(1_000_000)
    assert entries_until_due(growth, SMALL) == 5_000
    growth.restart(1_000_000)
    assert entries_until_due(growth, bytes(100_000)) == 40, "four times the state"
