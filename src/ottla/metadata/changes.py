"""The parts of the metadata that entries have touched, as a hint for those that follow it."""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.ids import TopicId


class Changes(NamedTuple):
    """The parts touched since the last `take_changes`: a hint where to look; the truth is in the state."""

    topics: frozenset[TopicId]
    brokers: bool
    configs: frozenset[tuple[int, str]]
    everything: bool = False
    """True if a snapshot was loaded: look at everything."""
    features: bool = False
    """True if the cluster uses a feature at another level."""
    quotas: bool = False
    """True if a quota is another one."""
    acls: bool = False
    """True if an ACL was added or removed."""

    @property
    def any(self) -> bool:
        return any(self)
