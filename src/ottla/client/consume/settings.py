"""Settings of a consumer."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.client.consume.assignors import COOPERATIVE_STICKY, RANGE, Assignor
from ottla.client.consume.fetching import FetchSettings

NO_RESET = "none"
_RESETS = ("earliest", "latest", NO_RESET)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Settings of a consumer; names and defaults follow Kafka's consumer options."""

    group_id: str | None = None
    """None: no group; partitions are assigned by hand and nothing is committed."""
    instance_id: str | None = None
    """Makes a static member: it keeps its partitions through a restart that is shorter than the session timeout."""
    assignors: tuple[Assignor, ...] = (RANGE, COOPERATIVE_STICKY)
    """The group chooses one that all members offer. If all here are cooperative, partitions are kept while joining."""
    session_timeout_ms: int = 45_000
    """The group goes on without a member whose heartbeats were missing for so long."""
    heartbeat_interval_ms: int = 3_000
    """The time between two heartbeats."""
    max_poll_interval_ms: int = 300_000
    """A member leaves the group when `poll` was not called for so long; the group waits as long for members to join."""
    max_poll_records: int = 500
    """The most records of one `poll`."""
    enable_auto_commit: bool = True
    """Commit the positions in `poll`, before joining again, and in `close`."""
    auto_commit_interval_ms: float = 5_000
    """The time between two automatic commits."""
    auto_offset_reset: str = "latest"
    """earliest, latest, or none: raise where there is no committed offset. Others are a ValueError."""
    allow_auto_create_topics: bool = True
    """Ask the broker to make subscribed topics that do not exist."""
    exclude_internal_topics: bool = True
    """A pattern does not match topics such as `__consumer_offsets`."""
    fetch: FetchSettings = field(default_factory=FetchSettings)

    def __post_init__(self) -> None:
        if self.auto_offset_reset not in _RESETS:
            raise ValueError(f"auto_offset_reset is {', '.join(_RESETS[:-1])} or none, not {self.auto_offset_reset!r}")
        if self.max_poll_records < 1:
            raise ValueError(f"max_poll_records is at least 1, not {self.max_poll_records}")
