"""Names of mirrored topics, as MirrorMaker 2's replication policies make them, and the topics that are not mirrored.

Pure. Source: KIP-382, KIP-690; Apache Kafka's DefaultReplicationPolicy, IdentityReplicationPolicy, DefaultTopicFilter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HEARTBEATS: Final = "heartbeats"


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """Renames topics: `us.orders` at the target is `orders` of the cluster `us`."""

    separator: str = "."
    internal_separator: str = "."
    """The separator in the names of MirrorMaker's own topics."""
    keeps_names: bool = False
    """True for the identity policy: only the topic of heartbeats gets a prefix."""
    source: str = ""
    """The alias that the identity policy answers for topics whose names say nothing."""

    def remote_topic(self, source: str, topic: str) -> str:
        """The name at the target of a topic of the source."""
        if self.keeps_names and not self._looks_like_heartbeats(topic):
            return topic
        return f"{source}{self.separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was mirrored from; None for a topic that its name says is no mirror."""
        if self.keeps_names and not self._looks_like_heartbeats(topic):
            return self.source or None
        alias, separator, _ = topic.partition(self.separator)
        return alias if separator else None

    def upstream_of(self, topic: str) -> str | None:
        """The topic's name one cluster up; None for a topic that is no mirror."""
        if self.keeps_names and not self._looks_like_heartbeats(topic):
            return topic
        _, separator, rest = topic.partition(self.separator)
        return rest if separator else None

    def passed_through(self, topic: str, alias: str) -> bool:
        """True if a topic's name says that it was in the cluster of this alias before: a mirror to there is a loop."""
        if self.keeps_names and not self._looks_like_heartbeats(topic):
            return False
        rest: str | None = topic
        while rest:
            if self.source_of(rest) == alias:
                return True
            rest = self.upstream_of(rest)
        return False

    def is_heartbeats(self, topic: str) -> bool:
        """True for the topic of heartbeats, of this cluster or mirrored."""
        return self._looks_like_heartbeats(topic)

    def is_internal(self, topic: str) -> bool:
        """True for topics that are never mirrored: Kafka's own, Connect's, MirrorMaker's."""
        return (
            topic.startswith(("__", "."))
            or topic.endswith(("-internal", ".internal"))
            or topic.endswith(f"{self.internal_separator}internal")
            or topic.endswith(f"{self.internal_separator}checkpoints{self.internal_separator}internal")
        )

    def offset_syncs_topic(self, alias: str) -> str:
        """The topic of offset syncs: `alias` is the cluster at the other end of where it lies."""
        return self._internal("mm2-offset-syncs", alias)

    def checkpoints_topic(self, source: str) -> str:
        """The topic of checkpoints, on the target."""
        return f"{source}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def map_topic(self, source: str) -> str:
        """The topic on the target that holds places and the exact map of offsets, which is ottla's own."""
        return self._internal("mm2-ottla-map", source)

    def _internal(self, name: str, alias: str) -> str:
        return f"{name}{self.internal_separator}{alias}{self.internal_separator}internal"

    def _looks_like_heartbeats(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")


class NameFilter:
    """Names that one of some patterns matches wholly and no other of some does: the second ones come first."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        """ValueError for a pattern that is not a regular expression."""
        self._include, self._exclude = _joined(include), _joined(exclude)

    def takes(self, name: str) -> bool:
        """True if the name is included, and not excluded."""
        return bool(self._include.fullmatch(name)) and not self._exclude.fullmatch(name)


def _joined(patterns: Sequence[str]) -> re.Pattern[str]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as fault:
            raise ValueError(f"{pattern!r} is not a regular expression: {fault}") from None
    return re.compile("|".join(f"(?:{each})" for each in patterns) if patterns else r"(?!)")
