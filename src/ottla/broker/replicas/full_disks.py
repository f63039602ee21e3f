"""Logs when a full log directory begins to refuse records, and when it takes them again.

handlers/produce.py reports each refusal. Successful appends cost nothing: a timer checks whether a refused log has
grown since. If none has, as they were deleted to make room, say, the end is a time without refusals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.waiting import Deadlines

if TYPE_CHECKING:
    from ottla.storage.log import Log

log = logging.getLogger("ottla.replicas")
LOOK_MS = 5_000
QUIET_MS = 10_000
"""Small batches may still fit on a full disk: its end is logged after this time without a refusal."""
AGAIN_MS = 600_000


class _Full:
    """One directory while it is full."""

    __slots__ = ("ends", "last_ms", "refused", "said_ms", "since_ms")

    def __init__(self, now_ms: int) -> None:
        self.since_ms = self.last_ms = self.said_ms = now_ms
        self.refused = 0
        self.ends: dict[Log, int] = {}
        """The end of each log when it was last refused."""


class FullDisks:
    """The log directories without room, by their paths."""

    def __init__(self, deadlines: Deadlines, path_of: Callable[[Log], str]) -> None:
        self._deadlines = deadlines
        self._path_of = path_of
        self._full: dict[str, _Full] = {}

    def refused(self, refused: Log) -> None:
        """A produce to this log was refused as its disk is full."""
        path, now_ms = self._path_of(refused), self._deadlines.now_ms()
        full = self._full.get(path)
        if full is None:
            full = self._full[path] = _Full(now_ms)
            log.warning(
                "the log directory %s is full: produces to it are refused (KAFKA_STORAGE_ERROR) until there is room, "
                "the first of them to %s-%d at offset %d", path, refused.topic, refused.partition, refused.end_offset,
            )  # fmt: skip
            self._deadlines.after(LOOK_MS, partial(self._look, path))
        full.refused += 1
        full.last_ms = now_ms
        full.ends[refused] = refused.end_offset

    def _look(self, path: str) -> None:
        full, now_ms = self._full[path], self._deadlines.now_ms()
        if now_ms - full.last_ms >= QUIET_MS and any(one.end_offset > end for one, end in full.ends.items()):
            del self._full[path]
            log.warning("the log directory %s has room again: %s", path, _told(full))
            return
        if now_ms - full.last_ms >= AGAIN_MS:
            del self._full[path]
            quiet = f"has refused nothing for {AGAIN_MS // 60_000} minutes"
            log.warning("the log directory %s %s: %s", path, quiet, _told(full))
            return
        if now_ms - full.said_ms >= AGAIN_MS and full.last_ms > full.said_ms:
            full.said_ms = now_ms
            log.warning("the log directory %s is still full: %s", path, _told(full))
        self._deadlines.after(LOOK_MS, partial(self._look, path))


def _told(full: _Full) -> str:
    took_s = (full.last_ms - full.since_ms) / 1000
    return f"{full.refused} produces to {len(full.ends)} partitions were refused within {took_s:.0f} s"
