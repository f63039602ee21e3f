"""Appends a mirror's own records: offset syncs, checkpoints, heartbeats. Written twice, they mean the same as once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from ottla.client.aio.cluster import Cluster
from ottla.records.builder import build_batch
from ottla.records.reader import Record

_AT_ONCE: Final = 2_000


async def put(cluster: Cluster, topic: str, partition: int, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Append keys with values, some thousands at once."""
    for at in range(0, len(records), _AT_ONCE):
        now_ms = int(time.time() * 1000)
        part = records[at : at + _AT_ONCE]
        await cluster.produce(topic, partition, build_batch([Record(0, now_ms, key, value) for key, value in part]))
