"""The topics that a member of a group wants: by name or by a pattern, and how many partitions each has."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.kernel.errors import ErrorCode

log = logging.getLogger("ottla.client")

Wanted = Collection[str] | re.Pattern[str]

_MISSING_TOPIC_MS = 1_000
_NEVER_THERE = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class WantedTopics:
    """The topics given to `subscribe`, and their partition counts by the last metadata."""

    def __init__(self, plan: ClusterPlan, settings: ConsumerSettings) -> None:
        self.plan = plan
        self.settings = settings
        self.names: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._counts: dict[str, int] = {}
        self._looked_ms = float("-inf")
        self._absent: set[str] = set()
        """The topics, or the pattern, of which the log says that there is no such topic."""

    def __bool__(self) -> bool:
        """True if something was subscribed to, though no topic may match."""
        return bool(self.names) or self._pattern is not None

    def choose(self, wanted: Wanted) -> None:
        """Want these topics, or all that a pattern matches, from now on; ValueError for text and for none at all."""
        listed = [] if isinstance(wanted, str | re.Pattern) else list(wanted)
        if not isinstance(wanted, re.Pattern) and (not listed or not all(isinstance(name, str) for name in listed)):
            raise ValueError(f"subscribe takes a list of topics or a compiled pattern, not {wanted!r}")
        self._pattern = wanted if isinstance(wanted, re.Pattern) else None
        self.names = [] if isinstance(wanted, re.Pattern) else sorted(set(listed))
        self._looked_ms = float("-inf")

    async def look(self) -> bool:
        """Refresh metadata that is old or lacks a topic; True if topics or partitions changed.

        Raises `ApiError` for a topic that never will be there: its name is not valid, or it may not be read.
        """
        age_ms = self.plan.now_ms() - self._looked_ms
        missing = self.plan.metadata.missing(self.names)
        if age_ms < (_MISSING_TOPIC_MS if missing else self.plan.settings.metadata_max_age_ms):
            return False
        self._looked_ms = self.plan.now_ms()
        if self._pattern is None:
            await self.plan.refresh(self.names, create=self.settings.allow_auto_create_topics)
            self._require_readable()
        else:
            await self.plan.refresh(None)
            self.names = sorted(
                topic.name
                for topic in self.plan.metadata.topics.values()
                if self._pattern.fullmatch(topic.name)
                and not (topic.is_internal and self.settings.exclude_internal_topics)
            )
        self._tell_absent()
        return self.note_counts()

    def note_counts(self) -> bool:
        """Take the partition counts as metadata has them; True if they differ from those before."""
        before, self._counts = self._counts, self.counts(self.names)
        return self._counts != before

    def counts(self, topics: Collection[str]) -> dict[str, int]:
        """The number of partitions of each of these topics that exists."""
        views = {topic: self.plan.metadata.topics.get(topic) for topic in topics}
        return {topic: len(view.partitions) for topic, view in views.items() if view is not None and not view.error}

    def _tell_absent(self) -> None:
        """Say once of a topic that it does not exist: it is read once it does, and a consumer does not create it."""
        absent = {topic for topic in self.names if self._is_absent(topic)}
        if self._pattern is not None and not self.names:
            absent = {self._pattern.pattern}
        for name in sorted(absent - self._absent):
            missing = f"topic {name!r} does not exist" if self._pattern is None else f"no topic matches {name!r}"
            log.warning("%s: nothing is read of it; the consumer goes on looking for it", missing)
        self._absent = absent

    def _is_absent(self, topic: str) -> bool:
        view = self.plan.metadata.topics.get(topic)
        return view is None or view.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _require_readable(self) -> None:
        for topic in self.names:
            view = self.plan.metadata.topics.get(topic)
            if view is not None and view.error in _NEVER_THERE:
                raise refused(view.error, f"topic {topic!r}")
