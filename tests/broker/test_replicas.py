"""On a full disk a deleted topic still gives its room back, and one attempt at a time is made to go on."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.node import Node
from ottla.broker.replicas import Replicas
from ottla.broker.rounds import Rounds
from ottla.broker.waiting import Deadlines
from ottla.sim.loop import SimLoop
from ottla.storage.memory_disk import MemoryDisk

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_what_was_dropped_on_a_full_disk_is_deleted_all_the_same() -> None:
    loop = SimLoop(1)
    removed: list[str] = []

    def delete_log(topic: str, index: int) -> None:
        raise FULL  # set aside already, but the checkpoints could not be written without it

    node: Any = SimpleNamespace(deadlines=Deadlines(loop), stopped_leading=lambda partition: None)
    replicas = Replicas(node, MemoryDisk(), "/data")
    replicas.directory = SimpleNamespace(delete_log=delete_log, remove_one=lambda: removed.append("one"))  # type: ignore[assignment]
    partition: Any = SimpleNamespace(topic="t", index=0, topic_id=bytes(16), leader=None, resign=lambda error: None)
    replicas.by_id[(bytes(16), 0)] = replicas.by_name[("t", 0)] = partition
    with pytest.raises(OSError, match="No space"):
        replicas.reconcile([], [bytes(16)])
    loop.run_for(1000)
    assert removed == ["one"]


def test_changes_that_find_no_room_are_tried_again_once_a_second_not_each_by_itself() -> None:
    loop = SimLoop(1)
    node: Any = Node.__new__(Node)
    node.deadlines = Deadlines(loop)
    node._again = None
    tries: list[int] = []

    def reconcile(changes: object) -> None:
        tries.append(loop.mono_ms())
        node._cannot_reconcile(FULL)

    node._reconcile = reconcile
    for _ in range(10):
        node._cannot_reconcile(FULL)
    loop.run_for(5500)
    assert len(tries) == 5


def test_a_round_that_fails_by_a_fault_of_its_own_comes_again() -> None:
    loop = SimLoop(1)
    node: Any = SimpleNamespace(deadlines=Deadlines(loop))
    rounds = Rounds(node)
    came: list[int] = []

    def work() -> None:
        came.append(loop.mono_ms())
        raise ZeroDivisionError

    rounds._every("test", lambda: 100, work)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            loop.run_for(100)
    assert len(came) == 3
