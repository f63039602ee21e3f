"""Replicas are made and removed a few in a turn, in the right order, and after a full disk once there is room."""

from __future__ import annotations

import errno
from itertools import pairwise
from typing import Any

import pytest
from replica_desk import AS_OF_A_FULL_DISK, TOPIC, Desk, let_the_next_gathered_sync_fail

PARTITIONS = 100


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_many_new_replicas_are_made_a_few_in_a_turn(desk: Desk) -> None:
    """CreateTopics with thousands of partitions once made all of them in one turn of eight seconds."""
    turns: list[int] = []

    def look() -> None:
        turns.append(len(desk.replicas))
        if len(desk.replicas) < PARTITIONS:
            desk.loop.call_soon(look)

    desk.add(TOPIC, PARTITIONS)
    look()
    desk.loop.run_for(1000)
    assert turns[-1] == PARTITIONS
    assert all(later - earlier <= 32 for earlier, later in pairwise(turns))
    assert all(partition.leader is not None for partition in desk.replicas.all())


def test_a_topic_deleted_while_it_is_made_leaves_nothing_behind(desk: Desk) -> None:
    desk.add(TOPIC, PARTITIONS)
    assert 0 < len(desk.replicas) < PARTITIONS
    desk.delete(TOPIC)
    assert len(desk.replicas) == 0
    desk.loop.run_for(60_000)
    assert len(desk.replicas) == 0
    assert desk.on_disk("") == []


def test_a_topic_made_again_under_its_name_waits_until_the_old_files_are_put_away(desk: Desk) -> None:
    desk.add(TOPIC, PARTITIONS)
    desk.loop.run_for(1000)
    desk.delete(TOPIC)
    desk.add(bytes(15) + b"\2", PARTITIONS)
    desk.loop.run_for(1000)
    assert {partition.topic_id for partition in desk.replicas.all()} == {bytes(15) + b"\2"}
    assert len(desk.replicas) == PARTITIONS
    for index in range(PARTITIONS):
        assert TOPIC.hex() not in str(desk.replicas.by_name["t", index].log.directory)


def test_what_was_dropped_on_a_full_disk_is_deleted_all_the_same(desk: Desk) -> None:
    desk.add(TOPIC, 1)
    desk.replicas.upkeep.checkpoint_recovery_points()
    desk.disk.fail("write", errno.ENOSPC, where="checkpoint")
    desk.delete(TOPIC)
    desk.loop.run_for(500)
    assert desk.on_disk("") == []
    desk.loop.run_for(1000)  # the checkpoints follow when there is room
    assert b"t 0" not in desk.disk.read("/data/recovery-point-offset-checkpoint")
    assert not desk.failed


def test_a_full_disk_puts_off_a_new_replica_until_there_is_room_and_no_other(desk: Desk) -> None:
    desk.disk.fail("write", errno.ENOSPC, where="partition.metadata")
    desk.add(TOPIC, 2)
    assert list(desk.replicas.by_name) == [("t", 1)]
    desk.loop.run_for(900)
    assert list(desk.replicas.by_name) == [("t", 1)]
    desk.loop.run_for(200)
    assert len(desk.replicas) == 2
    assert not desk.failed


def test_of_many_that_find_no_room_a_few_are_tried_again_until_there_is_some(desk: Desk) -> None:
    """Each try costs the loop disk operations, and the loop serves the existing replicas."""
    before, tried = desk.disk.operate, []

    def operate(operation: str, path: str) -> None:
        if operation == "write" and "partition.metadata" in path:
            tried.append(path)
            raise OSError(errno.ENOSPC, "no room", path)
        before(operation, path)

    desk.disk.operate = operate  # type: ignore[method-assign]
    desk.add(TOPIC, PARTITIONS)
    desk.loop.run_for(900)
    assert len(tried) == PARTITIONS
    desk.loop.run_for(10_000)
    assert len(set(tried[PARTITIONS:])) == len(tried[PARTITIONS:]) == 20, "in turn, and two a second"
    del desk.disk.operate  # type: ignore[method-assign]
    desk.loop.run_for(3000)
    assert len(desk.replicas) == PARTITIONS
    assert not desk.failed


def test_the_last_file_descriptors_are_kept_for_the_logs_that_are_here(desk: Desk, monkeypatch: Any) -> None:
    """A broker without a descriptor for its next segment takes the directory offline, so new replicas have to wait."""
    monkeypatch.setattr(desk.disk, "free_files", lambda: 258)
    desk.add(TOPIC, 2)
    desk.loop.run_for(5000)
    assert len(desk.replicas) == 0
    monkeypatch.setattr(desk.disk, "free_files", lambda: 259 - 3 * len(desk.replicas))
    desk.loop.run_for(1000)
    assert len(desk.replicas) == 1, "one log has room"
    monkeypatch.setattr(desk.disk, "free_files", lambda: 262)
    desk.loop.run_for(1000)
    assert len(desk.replicas) == 2
    assert not desk.failed


def test_any_other_fault_of_the_disk_takes_the_directory_offline(desk: Desk) -> None:
    desk.disk.fail("write", errno.EIO, where="partition.metadata")
    desk.add(TOPIC, 2)
    assert [fault.errno for fault in desk.failed] == [errno.EIO]
    assert len(desk.replicas) == 0


@pytest.mark.parametrize("error", AS_OF_A_FULL_DISK)
def test_new_replicas_whose_sync_fails_are_not_taken_for_those_that_found_no_room(
    desk: Desk, error: int, monkeypatch: Any
) -> None:
    """They exist in memory and would not be synced again: a power cut lost records that they had acknowledged."""
    let_the_next_gathered_sync_fail(desk, error, monkeypatch)
    desk.add(TOPIC, 8)
    assert [(fault.errno, fault.filename) for fault in desk.failed] == [(errno.EIO, "/data")]


def test_dropped_files_that_could_not_be_deleted_once_are_deleted_later(desk: Desk) -> None:
    """The descriptors were once used up for a moment, and forty folders stayed until the next start."""
    desk.add(TOPIC, 40)
    desk.loop.run_for(1000)
    desk.disk.fail("remove", errno.EMFILE, where="-delete")
    desk.delete(TOPIC)
    desk.loop.run_for(60_000)
    assert desk.on_disk("") == []
    assert not desk.failed


def test_dropped_files_that_cannot_be_deleted_keep_no_others_and_are_tried_again(desk: Desk) -> None:
    desk.add(TOPIC, 3)
    desk.loop.run_for(1000)
    for _ in range(3):
        desk.disk.fail("remove", errno.EIO, where="/t-0.")
    desk.delete(TOPIC)
    desk.loop.run_for(20_000)
    assert [name.partition(".")[0] for name in desk.on_disk("")] == ["t-0"]
    desk.loop.run_for(60_000)
    assert desk.on_disk("") == []
