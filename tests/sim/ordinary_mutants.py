"""Sixteen safeguards whose removal ordinary worlds of three brokers must reveal.

The worlds are drawn from seeds and not adapted: `python -m tests.sim.ordinary` counts how many seeds it takes.
"""

from __future__ import annotations

from typing import NamedTuple


class Removal(NamedTuple):
    """The removal of one safeguard, in all its places."""

    safeguard: str
    edits: tuple[tuple[str, str, str], ...]
    """(file, old, new); `old` occurs exactly once in the file."""


_PARTITION = "broker/replicas/partition.py"

REMOVALS = (
    Removal(
        "lease ignored in produce",
        (
            (
                _PARTITION,
                """`committed` waits for the rest of `acks=all`.\"""
        leader = self.leader
        if leader is None or not self._around.may_lead():""",
                """`committed` waits for the rest of `acks=all`.\"""
        leader = self.leader
        if leader is None:""",
            ),
            (
                _PARTITION,
                """        if not self._around.may_lead():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if""",
                "        return ErrorCode.NONE if",
            ),
        ),
    ),
    Removal(
        "lease ignored in fetch",
        (("broker/handlers/fetch.py", "if refused_as or not call.node.may_lead():", "if refused_as:"),),
    ),
    Removal(
        "fetch epoch not compared",
        (
            (
                "broker/handlers/fetch.py",
                "if watch.current_leader_epoch not in (-1, partition.leader_epoch):",
                "if False:",
            ),
        ),
    ),
    Removal(
        "epoch checkpoint not synced",
        (
            (
                "storage/checkpoint.py",
                '    replace_file(disk, path, sealed(["0", str(len(epochs)),',
                """    def not_synced(disk, path, body):
        disk.remove(path + TEMPORARY)
        file = disk.open(path + TEMPORARY, create=True)
        file.write_at(0, [body])
        file.release()
        disk.rename(path + TEMPORARY, path)

    not_synced(disk, path, sealed(["0", str(len(epochs)),""",
            ),
        ),
    ),
    Removal(
        "stale partition epoch applied",
        (
            ("replication/leader.py", "if partition_epoch <= self._partition_epoch:", "if False:"),
            ("broker/replicas/reconcile.py", "if partition.partition_epoch != state.partition_epoch:", "if True:"),
        ),
    ),
    Removal(
        "dead or stale broker may join the in-sync set",
        (
            (
                "cluster/partitions.py",
                "if broker is None or (joins and not may_join) or broker.epoch != replica.broker_epoch:",
                "if broker is None:",
            ),
        ),
    ),
    Removal(
        "old generation may commit",
        (
            (
                "groups/offsets.py",
                "        if generation != group.generation:\n            return ErrorCode.ILLEGAL_GENERATION\n",
                "",
            ),
        ),
    ),
    Removal(
        "cut file not marked dirty",
        (
            (
                "storage/syncing.py",
                "            under_way.candidate = min(under_way.candidate, end_offset)\n"
                "        self._dirty_data = self._dirty_directory = True\n",
                "            under_way.candidate = min(under_way.candidate, end_offset)\n",
            ),
        ),
    ),
    Removal(
        "overtaken follower answer accepted",
        (
            (
                "replication/follower.py",
                "if self.failed is not None or asked != "
                "SentFetch(self.leader, self.epoch, SyncedOffset(end_offset), last_epoch):",
                "if self.failed is not None:",
            ),
        ),
    ),
    Removal(
        "ListOffsets before the epoch's start is known",
        (
            (
                "broker/handlers/list_offsets.py",
                "return partition.leader is not None and partition.leader.knows_committed",
                "return True",
            ),
            ("broker/handlers/list_offsets.py", "    await _settled(call, request)\n", ""),
        ),
    ),
    Removal(
        "older producer epoch accepted",
        (
            (
                "storage/producers/producers.py",
                "            if epoch < state.epoch:\n"
                "                return ErrorCode.INVALID_PRODUCER_EPOCH\n"
                "            if base_sequence != 0:\n",
                "            if base_sequence != 0:\n",
            ),
        ),
    ),
    Removal(
        "high watermark is the leader's own synced end",
        (
            (
                "replication/leader.py",
                "on_every_disk = min(held[broker].through for broker in committed | self._proposed_in_sync)",
                "on_every_disk = held[self.me].through",
            ),
        ),
    ),
    Removal(
        "follower's high watermark not bounded by its own sync",
        (
            (
                "replication/follower.py",
                "committed = min(self.leader_high_watermark, synced_through)",
                "committed = self.leader_high_watermark",
            ),
        ),
    ),
    Removal(
        "producer state not restored from its snapshot",
        (
            (
                "storage/producers/replay.py",
                "        producers.take_over(loaded[1])\n",
                "",
            ),
        ),
    ),
    Removal(
        "truncation leaves the epoch cache",
        (
            ("storage/truncation.py", "        self._cut_epochs(end)\n", ""),
            ("storage/truncation.py", "        self._epochs.cut_end(end_offset)\n", ""),
        ),
    ),
    Removal(
        "receipts kept across incarnations",
        (
            (
                "replication/leader.py",
                "if broker != self.me and registered.get(broker) != self._registered.get(broker):",
                "if False:",
            ),
        ),
    ),
)
