"""One log's start, high watermark, synced offset and end: these offsets change here, and nowhere else.

Each transition keeps the order, or raises InvariantBroken: start <= high watermark <= end, and recovery point <= on
disk <= end.
"""

from __future__ import annotations

from ottla.kernel.errors import InvariantBroken


class LogBounds:
    """The offsets of one log. Everybody may read them; they are plain attributes, as each append and read does.

    `synced` is `on_disk`, except with write.caching=true, where it equals `end`.
    """

    __slots__ = ("_caching", "end", "high_watermark", "on_disk", "recovery_point", "start", "synced")

    def __init__(self) -> None:
        self._caching = False
        self.start = 0
        """The first offset that may be read."""
        self.high_watermark = 0
        """Everything below is committed."""
        self.recovery_point = 0
        """Everything below is on disk with its indexes; the recovery-point checkpoint holds this offset."""
        self.on_disk = 0
        """Everything below is on disk, also where write.caching is on."""
        self.synced = 0
        """Everything below counts as on disk."""
        self.end = 0
        """The offset after the last record."""

    def __repr__(self) -> str:
        return (
            f"LogBounds(start={self.start}, high_watermark={self.high_watermark}, end={self.end}, "
            f"recovery_point={self.recovery_point}, on_disk={self.on_disk}, synced={self.synced})"
        )

    # --- at a start ---

    def opened(self, start: int, end: int) -> None:
        """Recovery has found the log from `start` to `end`. None of it counts as on disk or committed yet."""
        self.start = self.high_watermark = start
        self.end = end
        self.recovery_point = self.on_disk = self.synced = 0
        self._check_order()

    def settled(self) -> None:
        """Recovery has put on disk all that it found."""
        self.recovery_point = self.on_disk = self.synced = self.end

    def caching(self, on: bool) -> None:
        """write.caching was set."""
        self._caching = on
        self.synced = self.end if on else self.on_disk

    # --- at the end ---

    def appended(self, end: int) -> None:
        """Records were written; the log now ends at `end`."""
        if end < self.end:
            raise InvariantBroken(f"an append moves the end of a log back to {end}: {self}")
        self.end = end
        if self._caching:
            self.synced = end

    def disk_holds(self, end: int) -> bool:
        """A sync has put on disk everything below `end`; whether `synced` rose by it."""
        if end <= self.on_disk:
            return False
        if end > self.end:
            raise InvariantBroken(f"a sync covers offsets up to {end}, behind the end of the log: {self}")
        self.on_disk = end
        if self._caching:
            return False
        self.synced = end
        return True

    def recovery_point_raised(self, offset: int) -> None:
        """The indexes are on disk too up to `offset`."""
        if not self.recovery_point <= offset <= self.on_disk:
            raise InvariantBroken(f"the recovery point of a log cannot rise to {offset}: {self}")
        self.recovery_point = offset

    def recovery_point_lowered(self, offset: int) -> None:
        """The log is about to be cut at `offset`."""
        self.recovery_point = min(self.recovery_point, offset)

    def truncated(self, end: int) -> None:
        """The log was cut, and now ends at `end`. The start and the high watermark come down with it."""
        if end > self.end:
            raise InvariantBroken(f"a log is cut at {end}, behind its end: {self}")
        self.end = end
        self.start = min(self.start, end)
        self.high_watermark = min(self.high_watermark, end)
        self.recovery_point = min(self.recovery_point, end)
        self.on_disk = min(self.on_disk, end)
        self.synced = end if self._caching else self.on_disk
        self._check_order()

    def restarted(self, offset: int) -> None:
        """The log was emptied, and begins again at `offset`."""
        self.start = self.high_watermark = self.end = offset
        self.recovery_point = self.on_disk = self.synced = offset
        self._check_order()

    # --- in between ---

    def committed(self, offset: int) -> None:
        """The replicas in sync hold everything below `offset`; a follower may hear of more than it has.

        What was committed stays so: only a cut, a new beginning or an unclean leader takes it back.
        """
        if offset < self.high_watermark:
            raise InvariantBroken(f"the high watermark of a log cannot fall to {offset}: {self}")
        self.high_watermark = offset if offset < self.end else self.end

    def overruled(self, offset: int) -> None:
        """An unclean leader holds only what lies below `offset`: the records from there on are committed no more.

        They are still in the log until it is cut, which a full disk may put off.
        """
        if not self.start <= offset <= self.high_watermark:
            raise InvariantBroken(f"the high watermark of a log cannot be taken back to {offset}: {self}")
        self.high_watermark = offset

    def start_raised(self, offset: int) -> None:
        """Everything below `offset` is deleted; it was committed."""
        if not self.start <= offset <= self.end:
            raise InvariantBroken(f"the start of a log cannot rise to {offset}: {self}")
        self.start = offset
        self.high_watermark = max(self.high_watermark, offset)

    def took_place_of(self, other: LogBounds) -> None:
        """Take over the start and the high watermark of the copy in the other directory, which this copy replaces."""
        if self.end != other.end:
            raise InvariantBroken(f"a copy of a log ends elsewhere than the log: {self}, {other}")
        self.start = other.start
        self.high_watermark = other.high_watermark
        self._check_order()

    def _check_order(self) -> None:
        if not (
            0 <= self.start <= self.high_watermark <= self.end
            and self.recovery_point <= self.on_disk <= self.synced <= self.end
        ):
            raise InvariantBroken(f"the offsets of a log are out of order: {self}")
