"""Decides whether a log still takes writes: an I/O error or damage ends them, a full disk refuses one batch."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.storage.values import FULL_DISK


class WriteGate:
    """Closed for good, as the log directory is to be failed, or the log is to be fetched anew."""

    __slots__ = ("closed", "damaged_at")

    def __init__(self) -> None:
        self.closed = False
        """After a failed sync or a failed cut: nothing is written any more."""
        self.damaged_at: int | None = None
        """The log was to be cut at this offset, behind damage: nothing from here on is served (rule A7)."""

    def close(self) -> None:
        """Nothing is written from now on."""
        self.closed = True

    def close_at_damage(self, offset: int) -> None:
        """The log cannot be cut at `offset`, as there is damage below."""
        self.damaged_at = offset
        self.closed = True

    def emptied(self) -> None:
        """Nothing is left that could be damaged."""
        self.damaged_at = None

    def refuse(self, fault: OSError) -> ErrorCode:
        """A full disk refuses the batch and nothing more; any other error is the directory's end."""
        if fault.errno in FULL_DISK:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.closed = True
        raise fault
