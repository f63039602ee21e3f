"""Upkeep of the logs on this broker: retention, checkpoints, and syncs that nobody waits for.

Called by rounds.py at intervals, and at once after a log's start has moved or committed records were cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.log_directories import LogDirectories
    from ottla.broker.replicas.partition import Partition
    from ottla.storage.log import Log

log = logging.getLogger("ottla.log_upkeep")
_NOTE_AGAIN_MS = 1000


class LogUpkeep:
    """Part of `Replicas`."""

    def __init__(
        self,
        around: Environment,
        directories: LogDirectories,
        partitions: Mapping[tuple[bytes, int], Partition],
        remove_later: Callable[[], None],
    ) -> None:
        """`partitions`: those that are here now. `remove_later`: called when files in a directory are to be deleted."""
        self._around = around
        self._directories = directories
        self._partitions = partitions
        self._remove_later = remove_later
        self._to_note: set[Callable[[], None]] = set()
        """Checkpoints for which the disk had no room."""
        self._closed = False

    def close(self) -> None:
        """Stop trying again."""
        self._closed = True

    # --- retention ---

    def apply_retention(self) -> None:
        wall_ms, aged = self._around.clock.wall_ms(), self._around.time.aged
        led = self._led()
        before = {key: partition.log.log_start_offset for key, partition in self._partitions.items()}
        self._directories.each(lambda directory: directory.apply_retention(wall_ms, time_for=aged, leads=led))
        for key, partition in self._partitions.items():
            if partition.log.log_start_offset != before[key]:
                partition.mark()
            partition.log.expire_producers(wall_ms, time_for=aged)
        self._remove_strays()

    def _led(self) -> Callable[[Log], bool]:
        """Tell whether a log is that of a leader, by which age and size of the whole partition are judged.

        A follower whose clock is wrong would else empty a copy that is in sync (rule H3).
        """
        may_lead = self._around.may_lead()
        logs = {id(each.log) for each in self._partitions.values() if each.leader is not None and may_lead}
        return lambda log: id(log) in logs

    def _remove_strays(self) -> None:
        """Remove old strays, by the trusted time (rule B9)."""
        retention_ms = self._around.config.log_stray_retention_ms
        if retention_ms < 0:
            return
        wall_ms, time_ms = self._around.clock.wall_ms(), self._around.time.aged(retention_ms)
        for directory in list(self._directories.online):
            deletions = directory.deletions
            for one in deletions.remove_strays(wall_ms=wall_ms, retention_ms=retention_ms, time_ms=time_ms):
                log.warning("the stray %s is deleted after %d ms: %d bytes, offsets %d to %d", one.path, retention_ms,
                            one.size_bytes, one.start_offset, one.end_offset)  # fmt: skip
                self._remove_later()

    # --- checkpoints ---

    def checkpoint_high_watermarks(self) -> None:
        self._directories.each(LogDirectory.checkpoint_high_watermarks)

    def checkpoint_recovery_points(self) -> None:
        """Move recovery points to the end that was synced with its indexes. Then submit more syncs."""
        self._directories.each(LogDirectory.checkpoint_recovery_points)
        for partition in self._partitions.values():
            if partition.log.move_recovery_point():
                self._around.syncer.submit(partition.log)
        self._directories.each(self._directories.incarnations.note_metadata)

    def checkpoint_log_starts(self) -> None:
        self._directories.each(LogDirectory.checkpoint_log_starts)

    def note_starts(self) -> bool:
        """Write moved log starts at once, as leaders wait for it, or once there is room; True if they are on disk."""
        return self._note(self.checkpoint_log_starts)

    def note_starts_soon(self) -> None:
        """Write log starts in the next turn of the loop: that of a log just opened may stand in no checkpoint.

        Its segments or leader epochs told it then. A follower joins no in-sync set before its start is noted.
        """
        self._around.clock.call_soon(partial(self._note_again, self.checkpoint_log_starts))

    def note_lower_high_watermarks(self) -> None:
        """Write lower high watermarks after committed records were cut off: else the log would look too short later."""
        self._note(self.checkpoint_high_watermarks)

    def _note(self, checkpoint: Callable[[], None]) -> bool:
        try:
            checkpoint()
        except OSError as error:
            if error.errno not in FULL_DISK:
                self._around.disk_failed(error)
            elif checkpoint not in self._to_note:
                self._to_note.add(checkpoint)
                self._around.deadlines.after(_NOTE_AGAIN_MS, lambda: self._note_again(checkpoint))
            return False
        return True

    def _note_again(self, checkpoint: Callable[[], None]) -> None:
        self._to_note.discard(checkpoint)
        if not self._closed:
            self._note(checkpoint)

    # --- syncs ---

    def flush_due(self) -> None:
        """Submit syncs for flush.ms and flush.messages (with write.caching), and of segments that retention sealed."""
        wall_ms = self._around.clock.wall_ms()
        for partition in self._partitions.values():
            if partition.log.flush_due(wall_ms):
                self._around.syncer.submit(partition.log)
