"""Times of day and durations as text for people."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000))


def utc_text(time_ms: int) -> str:
    """In UTC, to the second; times that no calendar has in milliseconds."""
    try:
        return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms after 1970"


def duration_text(milliseconds: int) -> str:
    """In the largest unit of which there are two."""
    for unit, length in _UNITS:
        if milliseconds >= 2 * length:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds / 1000:.0f} seconds"
