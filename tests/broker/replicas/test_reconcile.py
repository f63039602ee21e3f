"""Leaderships follow the metadata, also where the disk of one replica is full or fails."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from replica_desk import AS_OF_A_FULL_DISK, TOPIC, Desk, let_the_next_gathered_sync_fail

from ottla.kernel.ids import NO_LEADER


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_leadership_that_a_full_disk_refused_is_taken_when_there_is_room(desk: Desk) -> None:
    desk.add(TOPIC, 1)
    desk.topics[TOPIC].partitions[0].leader_epoch = 1
    desk.disk.fail("write", errno.ENOSPC, where="leader-epoch-checkpoint")
    desk.replicas.reconcile([desk.topics[TOPIC]], ())
    desk.loop.run_for(1100)
    assert desk.replicas.by_name["t", 0].leader_epoch == 1
    assert not desk.failed


def test_a_full_disk_that_keeps_one_from_leading_keeps_no_other_from_resigning(desk: Desk) -> None:
    desk.add(TOPIC, 2)
    first, second = desk.topics[TOPIC].partitions
    first.leader_epoch = second.leader_epoch = 1
    second.leader = NO_LEADER
    desk.disk.fail("write", errno.ENOSPC, where="t-0/leader-epoch-checkpoint")
    desk.replicas.reconcile([desk.topics[TOPIC]], ())
    assert desk.replicas.by_name["t", 1].leader is None
    desk.loop.run_for(1100)
    assert desk.replicas.by_name["t", 0].leader_epoch == 1
    assert not desk.failed


@pytest.mark.parametrize("error", AS_OF_A_FULL_DISK)
def test_new_leaders_whose_sync_fails_are_not_taken_for_those_that_found_no_room(
    desk: Desk, error: int, monkeypatch: Any
) -> None:
    desk.add(TOPIC, 8)
    desk.loop.run_for(1000)
    for state in desk.topics[TOPIC].partitions:
        state.leader_epoch = 5
    let_the_next_gathered_sync_fail(desk, error, monkeypatch)
    desk.replicas.reconcile([desk.topics[TOPIC]], ())
    assert [(fault.errno, fault.filename) for fault in desk.failed] == [(errno.EIO, "/data")]
