"""The partitions and columns that a reader of topics asks for. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ottla.kernel.ids import TopicPartition

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions that a source reads: those of named topics, of matching topics, or these."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def chosen(self, topic: str, *, internal: bool) -> bool:
        if self.pattern:
            return not internal and re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics
