"""Shows on stderr how far replicas have moved: one line, overwritten, on a terminal; elsewhere a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.client.admin.broker_table import amount
from ottla.client.admin.placement import Placement
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.replicas import Reassignment
    from ottla.client.blocking.admin import Admin

_ON_TERMINAL_S, _ELSEWHERE_S = 0.5, 5.0


class MoveProgress:
    """Counts the bytes that have arrived; nothing is shown if all is done before the first look is due."""

    def __init__(self, admin: Admin, planned: Placement) -> None:
        self._admin = admin
        self._planned = planned
        self._terminal = sys.stderr.isatty()
        self._every_s = _ON_TERMINAL_S if self._terminal else _ELSEWHERE_S
        self._next_s = time.monotonic()
        self._shown = ""

    def __enter__(self) -> MoveProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._terminal:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def show(self, moving: Mapping[TopicPartition, Reassignment]) -> None:
        """Print the progress if it is time to and something has changed."""
        if time.monotonic() < self._next_s:
            return
        text = f"{self._sizes(moving)}, {len(self._planned) - len(moving)} of {len(self._planned)} partitions moved"
        if text != self._shown:
            line = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r\x1b[2K{line}" if self._terminal else f"{text}\n")
            sys.stderr.flush()
        self._shown = text
        self._next_s = time.monotonic() + self._every_s

    def _sizes(self, moving: Mapping[TopicPartition, Reassignment]) -> str:
        """The bytes of the replicas on their way, and those that their partitions have."""
        sizes: dict[TopicPartition, dict[int, int]] = {}
        for broker, place, size in self._replicas(moving):
            sizes.setdefault(place, {})[broker] = size
        copied = wanted = 0
        for place, found in sizes.items():
            adding = moving[place].adding
            copied += sum(found.get(broker, 0) for broker in adding)
            wanted += len(adding) * max(found.values())
        return f"copying: {amount(copied)} of {amount(wanted)} bytes"

    def _replicas(self, moving: Collection[TopicPartition]) -> Iterator[tuple[int, TopicPartition, int]]:
        for broker, directories in self._admin.describe_log_dirs(partitions=list(moving)).items():
            for found in [] if isinstance(directories, Exception) else directories:
                for topic in found.topics:
                    for part in topic.partitions:
                        if not part.is_future_key:
                            yield broker, TopicPartition(topic.name, part.partition_index), part.partition_size
