"""The range of a partition that a backup copies, given the backup before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.backup.increment import SMALL_BYTES, PartitionNow, PartitionPlan, planned
from ottla.backup.manifest import BackupFile, PartitionCopy


def a_file(first: int, end: int, size: int = SMALL_BYTES) -> BackupFile:
    return BackupFile(f"data/t/0/{first}", first, end, size, "")


BEFORE = PartitionCopy(0, 30, (a_file(0, 10), a_file(10, 30)), (29, 77), 2 * SMALL_BYTES)
NOW = PartitionNow(
    0, 40, is_same_topic=True, holds_last_batch=True, is_compacted=False, tombstones_gone=False
)  # fmt: skip


def test_only_what_is_new_is_copied() -> None:
    assert planned(BEFORE, NOW) == PartitionPlan(30, BEFORE.files)
    assert planned(None, NOW) == PartitionPlan(0)


def test_files_of_records_that_the_cluster_has_deleted_are_left_behind() -> None:
    assert planned(BEFORE, replace(NOW, earliest=10)) == PartitionPlan(30, BEFORE.files[1:])
    assert planned(BEFORE, replace(NOW, earliest=35)) == PartitionPlan(35, ())


def test_a_small_last_file_is_written_anew_with_what_follows_if_anything_does() -> None:
    small = replace(BEFORE, files=(BEFORE.files[0], a_file(10, 30, 5)))
    assert planned(small, NOW) == PartitionPlan(30, small.files[:1], small.files[1])
    assert planned(small, replace(NOW, end=30)) == PartitionPlan(30, small.files)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (replace(NOW, is_same_topic=False), "made anew"),
        (replace(NOW, end=29), "cut back from offset 30 to 29"),
        (replace(NOW, holds_last_batch=False), "other records"),
        (replace(NOW, is_compacted=True, tombstones_gone=True), "delete.retention.ms"),
    ],
)
def test_a_partition_that_does_not_go_on_where_its_copy_ends_is_copied_as_a_whole(
    now: PartitionNow, reason: str
) -> None:
    plan = planned(BEFORE, now)
    assert plan.is_whole and plan.start == 0 and reason in plan.reason


def test_a_compacted_topic_is_copied_as_a_whole_once_its_copies_have_outgrown_it() -> None:
    compacted = replace(NOW, is_compacted=True)
    assert not planned(BEFORE, compacted).is_whole
    grown = replace(BEFORE, files=tuple(a_file(at, at + 1, 40 << 20) for at in range(30)), whole_bytes=40 << 20)
    assert "compaction" in planned(grown, compacted).reason
