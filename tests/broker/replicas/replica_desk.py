"""Replicas of one broker over a simulated disk, without a node around them."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

from ottla.broker.replicas.reconcile import Care, Replicas
from ottla.broker.waiting import Deadlines
from ottla.config.topic import TopicConfig
from ottla.sim.disk import SimDisk
from ottla.sim.loop import SimLoop

TOPIC = bytes(15) + b"\1"
AS_OF_A_FULL_DISK = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE]


class Desk:
    """Replicas over a directory of their own, and a metadata state that lists the topics."""

    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.disk = SimDisk()
        self.topics: dict[bytes, Any] = {}
        self.failed: list[OSError] = []
        registered: dict[int, Any] = {}
        around: Any = SimpleNamespace(
            broker=1,
            clock=self.loop,
            deadlines=Deadlines(self.loop),
            config=SimpleNamespace(producer_id_expiration_ms=1000),
            metadata=SimpleNamespace(topics=self.topics, brokers=registered, version=1),
            follow=SimpleNamespace(incarnation=bytes(16), entry_crc=lambda: None),
            options=SimpleNamespace(topic_config=lambda topic: TopicConfig()),
            disk_failed=self.failed.append,
        )
        coordinating: Any = SimpleNamespace(
            started_leading=lambda partition, before: None, stopped_leading=lambda partition: None
        )
        nothing: Any = None
        self.replicas = Replicas(
            around,
            self.disk,
            ["/data"],
            needed="/data",
            peers=nothing,
            throttle=nothing,
            coordinating=coordinating,
            care=Care(is_compacting=nothing, suspect=nothing, repair=nothing),
        )
        self.replicas.open("cluster", lambda: "A" * 22, None)
        registered[1] = SimpleNamespace(epoch=1)

    def add(self, topic_id: bytes, partitions: int) -> None:
        states = [
            SimpleNamespace(
                partition=index,
                replicas=(1,),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                in_sync=(1,),
                arriving=0,
                adding=(),
            )
            for index in range(partitions)
        ]
        self.topics[topic_id] = SimpleNamespace(topic_id=topic_id, name="t", partitions=states)
        self.replicas.reconcile([self.topics[topic_id]], ())

    def delete(self, topic_id: bytes) -> None:
        del self.topics[topic_id]
        self.replicas.reconcile([], (topic_id,))

    def on_disk(self, ending: str) -> list[str]:
        return [name for name in self.disk.list("/data") if name.startswith("t-") and name.endswith(ending)]


def let_the_next_gathered_sync_fail(desk: Desk, error: int, monkeypatch: Any) -> None:
    operate, errors = desk.disk.operate, [error]

    def fail(operation: str, path: str) -> None:
        if (operation, path) == ("sync", "/data") and errors:
            raise OSError(errors.pop(), "simulated failure", path)
        operate(operation, path)

    monkeypatch.setattr(desk.disk, "operate", fail)
