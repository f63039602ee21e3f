"""The start offset of each leader epoch, kept in a synced checkpoint: followers truncate by it (KIP-101)."""

from __future__ import annotations

import posixpath

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.seams import Disk
from ottla.storage.checkpoint import LEADER_EPOCHS, BadCheckpoint, clear_the_way, parse_epochs, read_small, write_epochs
from ottla.storage.values import EpochEnd


class LeaderEpochs:
    """The epochs of one log, oldest first; every change is on disk before it returns (rule B2)."""

    __slots__ = ("_disk", "_entries", "_path", "latest", "owed")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = posixpath.join(directory, LEADER_EPOCHS)
        self._entries: list[tuple[int, int]] = []
        self.latest = -1
        self.owed = False
        """True while the checkpoint still has epochs that hold nothing."""

    def relocate(self, directory: str) -> None:
        self._path = posixpath.join(directory, LEADER_EPOCHS)

    def load(self) -> str:
        """Read the checkpoint; return "", or the fault for which the log's batches are read instead (`replace`).

        The batches of the log are its second copy: each carries its epoch.
        """
        found: list[tuple[int, int]] = []
        fault = f"{self._path} is missing or empty"
        try:
            body = read_small(self._disk, self._path)
            if body is not None:
                found, _ = parse_epochs(self._path, body)
        except BadCheckpoint as bad:
            fault = str(bad)
            clear_the_way(self._disk, self._path)
        self._take(found)
        return "" if found else fault

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(self._entries)

    def between(self, start_offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        """The entries for the offsets from one to another, the epoch that covers the first one among them."""
        before = [entry for entry in self._entries if entry[1] <= start_offset]
        return (*before[-1:], *(entry for entry in self._entries if start_offset < entry[1] < end_offset))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin `epoch` at `start_offset`; entries of epochs that turn out to hold nothing are dropped."""
        if epoch <= self.latest:
            return
        kept = [entry for entry in self._entries if entry[1] < start_offset]
        self._write([*kept, (epoch, start_offset)])

    def end_of(self, epoch: int, end_offset: int) -> EpochEnd | None:
        """The largest epoch at or below `epoch`, and the offset where it ends; None for one newer than any here.

        An epoch older than all known ones ends where the first known one starts.
        """
        if epoch < 0 or epoch > self.latest:
            return None
        if epoch == self.latest:
            return EpochEnd(epoch, end_offset)
        found = epoch
        for known, start in self._entries:
            if known > epoch:
                return EpochEnd(found, start)
            found = known
        raise InvariantBroken(f"epoch {epoch} is below the latest, {self.latest}, and no later one is known")

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; -1 before the first."""
        found = -1
        for epoch, start in self._entries:
            if start > offset:
                break
            found = epoch
        return found

    def cut_end(self, end_offset: int, *, at_once: bool = True) -> None:
        """The log now ends at `end_offset`: drop the epochs that start there or above.

        With `at_once=False` the checkpoint keeps the dropped epochs until the next cut or the next epoch, either of
        which comes before any record. A clean start with thousands of logs need not write it twice (bench/starts.py).
        """
        kept = [entry for entry in self._entries if entry[1] < end_offset]
        if at_once:
            if kept != self._entries or self.owed:
                self._write(kept)
        elif kept != self._entries:
            self._take(kept)
            self.owed = True

    def cut_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`: the epoch that covers it starts there."""
        before = [entry for entry in self._entries if entry[1] <= start_offset]
        if not before or (len(before) == 1 and before[0][1] == start_offset):
            return
        kept = [(before[-1][0], start_offset)] + [entry for entry in self._entries if entry[1] > start_offset]
        if kept != self._entries:
            self._write(kept)

    def replace(self, entries: list[tuple[int, int]]) -> None:
        if entries != self._entries:
            self._write(entries)

    def _write(self, entries: list[tuple[int, int]]) -> None:
        write_epochs(self._disk, self._path, entries)
        self.owed = False
        self._take(entries)

    def _take(self, entries: list[tuple[int, int]]) -> None:
        self._entries = entries
        self.latest = entries[-1][0] if entries else -1
