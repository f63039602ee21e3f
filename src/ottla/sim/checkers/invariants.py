"""What must hold of a broker at every moment, seen from inside: looked at between the turns of the loop."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.node import Node
from ottla.broker.partition import Partition


class Invariants:
    """Remembers the watermarks and starts of the incarnation it looked at last."""

    def __init__(self) -> None:
        self._node: Node | None = None
        self._watermarks: dict[tuple[bytes, int], int] = {}
        self._starts: dict[tuple[bytes, int], int] = {}

    def broken(self, node: Node) -> Iterator[str]:
        """A sentence for each invariant that does not hold."""
        if node is not self._node:
            self._node, self._watermarks, self._starts = node, {}, {}
        for key, partition in node.replicas.by_id.items():
            yield from self._broken_in(key, partition)

    def _broken_in(self, key: tuple[bytes, int], partition: Partition) -> Iterator[str]:
        log = partition.log
        start, watermark, synced, end = log.log_start_offset, log.high_watermark, log.synced_offset, log.end_offset
        where = f"{partition.topic}-{partition.index}: start {start}, watermark {watermark}, synced {synced}, end {end}"
        if not start <= watermark <= end:
            yield f"{where}: out of order"
        if not synced <= end:
            yield f"{where}: synced beyond the end"
        if watermark > synced and not log.write_caching:
            yield f"{where}: readers see what is not on disk"
        if watermark < self._watermarks.get(key, 0) and partition.leader is not None:
            yield f"{where}: the watermark was at {self._watermarks[key]}"
        if start < self._starts.get(key, 0):
            yield f"{where}: the start was at {self._starts[key]}"
        self._watermarks[key], self._starts[key] = watermark, start
