"""The client's half of a fetch session (KIP-227): a request names only changes. Pure; one per leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition

_INT32_MAX = 2**31 - 1


class WantedPartition(NamedTuple):
    """One partition in a Fetch request."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int
    last_epoch: int = -1
    """The leader epoch of the batch before the offset; -1 where it is not known."""


class SessionRequest(NamedTuple):
    """The content of the next Fetch request."""

    session_id: int
    epoch: int
    partitions: dict[TopicPartition, WantedPartition]
    forgotten: dict[TopicPartition, bytes]
    """Partition -> topic id."""


class FetchSession:
    """Remembers which of our wishes the broker knows."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._known: dict[TopicPartition, WantedPartition] = {}

    def next(self, wanted: Mapping[TopicPartition, WantedPartition]) -> SessionRequest:
        """The request for exactly `wanted`: everything in a new session, else the difference."""
        if self._epoch == 0:
            self._known = dict(wanted)
            return SessionRequest(0, 0, dict(wanted), {})
        changed = {partition: want for partition, want in wanted.items() if self._known.get(partition) != want}
        forgotten = {
            partition: known.topic_id
            for partition, known in self._known.items()
            if partition not in wanted or wanted[partition].topic_id != known.topic_id
        }
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """Take an answer without a session error: the broker keeps our wishes under this id (0: it does not)."""
        if session_id == 0:
            self.failed()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= _INT32_MAX else self._epoch + 1

    def failed(self) -> None:
        """Forget the session after a lost answer or a session error."""
        self._id = 0
        self._epoch = 0
        self._known = {}
