"""Replicas and log directories that refuse writes are told to `ottla doctor`."""

from __future__ import annotations

import errno
import json
import os

from harmed_start import with_one_killed

from ottla.broker.troubles import as_json, refusal
from ottla.storage.disk.memory import MemoryDisk


class NotOurs(MemoryDisk):
    """A disk on which this process may write nowhere."""

    def refuse_unwritable(self, path: str) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)


class WithoutInodes(MemoryDisk):
    """A disk with room for bytes and for no file."""

    def open(self, path: str, *, create: bool = False):  # type: ignore[no-untyped-def]
        if create and not self.exists(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path)


def test_a_sound_directory_is_left_as_it_was() -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    assert refusal(disk, "/data") is None
    assert disk.list("/data") == []


def test_a_directory_without_rights_or_inodes_says_so_before_a_write_fails() -> None:
    for disk, reason, advice in (
        (NotOurs(), "Permission denied", "the right to write"),
        (WithoutInodes(), "not for another file", "inodes"),
    ):
        disk.make_directory("/data")
        told = refusal(disk, "/data")
        assert told is not None and reason in told.reason and advice in told.advice


def test_a_leader_with_too_few_replicas_in_sync_says_that_it_refuses() -> None:
    cluster = with_one_killed(3)
    cluster.kill(2)
    cluster.loop.run_for(60_000)
    node = cluster.node(1)
    told = [one for one in json.loads(as_json(node.replicas, node.metadata)) if one["topic"] == "t"]
    assert [one["partition"] for one in told] == [0, 1]
    assert all("1 of 2 replicas are in sync" in one["reason"] and one["advice"] for one in told)
