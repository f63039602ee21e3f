"""The readers of one partition: fetch sessions that watch it, and coordinators that listen for its commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class ReaderWatch(Protocol):
    """A reader's watch on the partition: broker/requests/fetch_sessions.py."""

    def mark(self) -> None:
        """Note that something has changed that the reader sees."""


class Readers:
    """`replicas` are the watches of followers, which read uncommitted records too."""

    __slots__ = ("_listeners", "_watches", "replicas")

    def __init__(self) -> None:
        self._watches: dict[ReaderWatch, None] = {}  # not a set: sessions must be told in the same order in every run
        self.replicas: dict[ReaderWatch, None] = {}
        self._listeners: list[Callable[[int], None]] = []

    def add(self, watch: ReaderWatch, *, follows: bool) -> None:
        """Mark this watch when its reader sees a change; `follows` if that is a follower."""
        self._watches[watch] = None
        if follows:
            self.replicas[watch] = None

    def remove(self, watch: ReaderWatch) -> None:
        self._watches.pop(watch, None)
        self.replicas.pop(watch, None)

    def __bool__(self) -> bool:
        """True if fetch sessions watch the partition."""
        return bool(self._watches)

    @property
    def any(self) -> bool:
        """True if anybody is told of commits: fetch sessions or coordinators."""
        return bool(self._watches or self._listeners)

    def mark(self) -> None:
        """Mark all watches: something has changed that readers see."""
        for watch in self._watches:
            watch.mark()

    def when_committed(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with each new high watermark; for the coordinators' shards."""
        self._listeners.append(listener)

    def forget_listener(self, listener: Callable[[int], None]) -> None:
        self._listeners.remove(listener)

    def committed(self, high_watermark: int) -> None:
        """Mark all watches, and tell the listeners of a new high watermark."""
        for watch in self._watches:
            watch.mark()
        for listener in self._listeners:
            listener(high_watermark)
