"""The place in a table up to which its rows were read, as Confluent's offsets tell it.

Pure: rows come in as their id and their time in microseconds; offsets of records come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.connect.errors import ConfigException


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last row that was read; None where the mode has no such column, or no row was read. 0 is a value."""

    incrementing: int | None = None
    micros: int | None = None

    @classmethod
    def of(cls, offset: Mapping[str, Any] | None) -> Anchor:
        """The anchor that an offset tells; ConfigException for one that cannot be an offset of this connector."""
        if offset is None:
            return cls()
        if strange := sorted(set(offset) - {"incrementing", "timestamp", "timestamp_nanos"}):
            raise ConfigException(
                f"An offset has incrementing, timestamp and timestamp_nanos, not {', '.join(strange)}"
            )
        ms, nanos = _whole(offset, "timestamp"), _whole(offset, "timestamp_nanos")
        if ms is None:
            return cls(_whole(offset, "incrementing"))
        micros = ms * 1000 if nanos is None else ms // 1000 * 1_000_000 + nanos // 1000
        return cls(_whole(offset, "incrementing"), micros)

    def offset(self) -> dict[str, Any] | None:
        """The offset, or None where nothing was read."""
        found: dict[str, Any] = {}
        if self.incrementing is not None:
            found["incrementing"] = self.incrementing
        if self.micros is not None:
            found["timestamp"] = self.micros // 1000
            found["timestamp_nanos"] = self.micros % 1_000_000 * 1000
        return found or None


def _whole(offset: Mapping[str, Any], name: str) -> int | None:
    value = offset.get(name)
    if value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        raise ConfigException(f"The value for the {name!r} key in an offset is a whole number, not {value!r}") from None


class RowOffsets:
    """Gives each row the offset to keep with it.

    With a time alone, rows of one time can only be repeated as a whole. So a row's offset is the time before, until
    all rows of its time were read.
    """

    def __init__(self, anchor: Anchor, *, by_time_alone: bool) -> None:
        self.anchor = anchor
        self._by_time_alone = by_time_alone
        self._safe = anchor

    def row(self, read: Anchor) -> dict[str, Any] | None:
        """The offset of the next row."""
        if not self._by_time_alone:
            self.anchor = read
            return read.offset()
        if read.micros != self.anchor.micros:
            self._safe = self.anchor
        self.anchor = read
        return self._safe.offset()

    def end(self) -> dict[str, Any] | None:
        """The offset of the last row, now that no more are to come before the next poll."""
        self._safe = self.anchor
        return self.anchor.offset()
