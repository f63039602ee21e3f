"""Windows as the user names them, in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.streams.errors import TopologyError


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows [start, start + size) that begin at every multiple of `advance_ms`; tumbling ones by default."""

    size_ms: int
    advance_ms: int = 0
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _positive("size_ms", self.size_ms)
        if not self.advance_ms:
            object.__setattr__(self, "advance_ms", self.size_ms)
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(f"advance_ms={self.advance_ms} must be between 1 and the size, {self.size_ms}")
        not_negative("grace_ms", self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """A window is kept for this long after it begins."""
        return self.size_ms + self.grace_ms


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows of records no further apart than `difference_ms`; both ends belong to them."""

    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _positive("difference_ms", self.difference_ms)
        not_negative("grace_ms", self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """A window is kept for this long after it begins."""
        return 2 * self.difference_ms + self.grace_ms


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions of records no further apart than `gap_ms`."""

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _positive("gap_ms", self.gap_ms)
        not_negative("grace_ms", self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """A session is kept for this long after it ends."""
        return self.gap_ms + self.grace_ms


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The right record's time may lie `before_ms` before the left one's to `after_ms` after it, both included."""

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        not_negative("grace_ms", self.grace_ms)
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"the window ends before it begins: before_ms={self.before_ms}, after_ms={self.after_ms}"
            )

    @classmethod
    def of(cls, difference_ms: int, *, grace_ms: int = 0) -> JoinWindows:
        """A window as wide in both directions."""
        return cls(difference_ms, difference_ms, grace_ms)

    @property
    def retention_ms(self) -> int:
        """A record is kept for this long."""
        return self.before_ms + self.after_ms + self.grace_ms


def _positive(name: str, value: int) -> None:
    if value <= 0:
        raise TopologyError(f"{name}={value} must be above 0")


def not_negative(name: str, value: int) -> int:
    """The value; TopologyError if it is below 0."""
    if value < 0:
        raise TopologyError(f"{name}={value} must not be negative")
    return value
