"""The options of a topic that matter before records are written: the size of batches, the age of records."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ottla.cli.connect import admin
from ottla.client.admin.admin import Resource, ResourceType
from ottla.client.produce.run import Run

_MOST_BATCH_BYTES = 500_000
_LEAST_BATCH_BYTES = 1
_KEYS = ("max.message.bytes", "retention.ms", "cleanup.policy", "message.timestamp.type")


@dataclass(slots=True)
class TopicOptions:
    """The options of a topic, as far as they are known; those of one that is made by the first record are not."""

    topic: str
    bootstrap: str
    properties: Mapping[str, str]
    values: dict[str, str] = field(default_factory=dict)
    warned: bool = False

    def ask(self) -> None:
        """Ask the cluster; nothing is known of a topic that is not there yet, or whose options may not be read."""
        resource = Resource(ResourceType.TOPIC, self.topic)
        with admin(self.bootstrap, self.properties) as connected:
            found = connected.describe_configs([resource], keys=_KEYS)[resource]
        if not isinstance(found, Exception):
            self.values = {each.name: each.value for each in found if each.value is not None}

    @property
    def is_known(self) -> bool:
        return bool(self.values)

    @property
    def batch_bytes(self) -> int:
        """A size of batches that the topic takes."""
        given = self.values.get("max.message.bytes", "")
        most = int(given) if given.isdecimal() else _MOST_BATCH_BYTES
        return max(min(most, _MOST_BATCH_BYTES), _LEAST_BATCH_BYTES)

    def look(self, run: Run) -> None:
        """Warn once, before such records are written, where the topic does not keep their times, or not them."""
        if run.timestamps is None or self.warned or not run.values:
            return
        earliest = min(run.timestamps) if isinstance(run.timestamps, list) else run.timestamps
        warning = self._warning(earliest, time.time() * 1000)
        if warning is not None:
            self.warned = True
            sys.stderr.write(f"ottla: warning: {warning}\n")
            sys.stderr.flush()

    def _warning(self, earliest: int, now_ms: float) -> str | None:
        if self.values.get("message.timestamp.type") == "LogAppendTime":
            return (
                f"the topic {self.topic} has message.timestamp.type=LogAppendTime: the broker puts its own time in "
                f"place of the records'; `ottla config set topic {self.topic} message.timestamp.type=CreateTime` "
                "keeps theirs"
            )
        kept = self.values.get("retention.ms", "-1")
        deletes = "delete" in self.values.get("cleanup.policy", "delete")
        if not deletes or not kept.isdecimal() or earliest >= now_ms - int(kept):
            return None
        return (
            f"records of {_day(earliest)} are older than the topic {self.topic} keeps records "
            f"(retention.ms={kept}, {_span(int(kept))}): the broker deletes them soon; "
            f"`ottla config set topic {self.topic} retention.ms=-1` keeps them"
        )


def topic_options(topic: str, bootstrap: str, properties: Mapping[str, str]) -> TopicOptions:
    """The options of a topic, asked for."""
    options = TopicOptions(topic, bootstrap, properties)
    options.ask()
    return options


def _day(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)


def _span(milliseconds: int) -> str:
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        count = milliseconds // size
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{milliseconds} milliseconds"
