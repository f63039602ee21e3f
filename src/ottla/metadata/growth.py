"""Counts the growth of the metadata log behind its last snapshot, and says when the next one is due.

Pure: `broker/metadata_log/metadata_follow.py` counts here the entries that it applies.
"""

from __future__ import annotations

SNAPSHOT_ENTRIES = 1000
SNAPSHOT_BYTES = 1 << 20
_STATES = 4
"""The size of the log, in sizes of the state, at which a snapshot costs less than applying the entries did."""
_TOPIC_BYTES = 200
"""About the size of a topic of one partition in a snapshot: a large state is not written again for a few entries."""


class LogGrowth:
    """Both bounds are in proportion to the state, so that neither the log nor the work for snapshots grows past it.

    Entries alone are no bound: one may give thousands of partitions a new leader epoch, so that a cluster of 10,000
    partitions would write 600 MB before it had written as many entries, and every start would read them.
    """

    def __init__(self) -> None:
        self._entries = 0
        self._bytes = 0
        self._state_bytes = 0
        """The size of the last snapshot that is known here; 0 before the first."""

    def add(self, entry: bytes) -> None:
        """Count an applied entry behind the snapshot."""
        self._entries += 1
        self._bytes += len(entry)

    def restart(self, snapshot_bytes: int) -> None:
        """Note a snapshot of this size, which replaces all applied entries."""
        self._entries, self._bytes, self._state_bytes = 0, 0, snapshot_bytes

    @property
    def calls_for_snapshot(self) -> bool:
        many = self._entries >= max(SNAPSHOT_ENTRIES, self._state_bytes // _TOPIC_BYTES)
        return many or self._bytes >= max(SNAPSHOT_BYTES, self._state_bytes * _STATES)
