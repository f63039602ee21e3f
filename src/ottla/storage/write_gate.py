"""Decides whether a log still takes writes: an I/O error or damage ends them, a full disk refuses one batch."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.storage.values import FULL_DISK


class WriteGate:
    """Closed for good when the log directory is to be failed, or the log is to be fetched anew."""

    __slots__ = ("closed", "damaged_at")

    def __init__(self) -> None:
        self.closed = False
        """True after a failed sync or a failed cut: nothing is written any more."""
        self.damaged_at: int | None = None
        """The offset, behind damage, at which the log was to be cut: nothing from here on is served (rule A7)."""

    def close(self) -> None:
        """Refuse all writes from now on."""
        self.closed = True

    def close_at_damage(self, offset: int) -> None:
        """Refuse all writes: the log cannot be cut at `offset`, as there is damage below it."""
        self.damaged_at = offset
        self.closed = True

    def emptied(self) -> None:
        """Forget the damage, as the log was emptied."""
        self.damaged_at = None

    def refuse(self, fault: OSError) -> ErrorCode:
        """Refuse one batch if the disk is full; raise any other error, which fails the directory."""
        if fault.errno in FULL_DISK:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.closed = True
        raise fault
