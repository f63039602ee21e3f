"""`--rename`: the fields of topics that were renamed, by the options and by earlier loads of the lake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.formats.renames import Rename, Renames
from ottla.stores.base import LakeRefused

_TOPIC = re.compile(r"([A-Za-z0-9._-]+):(.*)", re.DOTALL)
EVERY = ""
"""The key under which renames for all topics are kept."""


@dataclass(frozen=True, slots=True)
class TopicRenames:
    """Renames by topic."""

    by_topic: Mapping[str, tuple[Rename, ...]] = field(default_factory=dict)

    def of(self, topic: str) -> Renames:
        """The renames of one topic; LakeRefused if they contradict one another."""
        try:
            return Renames.of((*self.by_topic.get(topic, ()), *self.by_topic.get(EVERY, ())))
        except ValueError as fault:
            raise LakeRefused(f"--rename {fault}; topic {topic}") from fault

    def after(self, told: Mapping[str, tuple[str, ...]]) -> TopicRenames:
        """These renames with the earlier ones of a lake, by topic: renames are for good."""
        known = {topic: tuple(Rename.parse(text) for text in texts) for topic, texts in told.items()}
        topics = {*known, *self.by_topic}
        return TopicRenames({each: (*known.get(each, ()), *self.by_topic.get(each, ())) for each in topics})

    def texts(self, topics: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The renames of these topics, as a lake notes them."""
        return {topic: texts for topic in sorted(set(topics)) if (texts := self.of(topic).texts())}

    def all(self) -> list[Rename]:
        """The renames of all topics."""
        return [rename for renames in self.by_topic.values() for rename in renames]


def parse_renames(texts: Iterable[str]) -> TopicRenames:
    """Parse `--rename OLD=NEW` and `--rename TOPIC:OLD=NEW`; LakeRefused for a text of another form."""
    found: dict[str, list[Rename]] = {}
    for text in texts:
        named = _TOPIC.fullmatch(text)
        topic, rename = (named[1], named[2]) if named is not None else (EVERY, text)
        try:
            found.setdefault(topic, []).append(Rename.parse(rename))
        except ValueError as fault:
            raise LakeRefused(f"--rename {text}: {fault}") from fault
    renames = TopicRenames({topic: tuple(each) for topic, each in found.items()})
    for topic in found:
        renames.of(topic)
    return renames
