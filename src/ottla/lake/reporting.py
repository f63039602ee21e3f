"""What a loader tells others after each commit. Nothing here fails a load: a fault is a warning in the log."""

from __future__ import annotations

from ottla.lake.plans import Commit, Publication
from ottla.lake.report_options import Reports
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.plan import SourceOffset
from ottla.spark.publish import Publisher as GroupOffsets


class Reporter:
    """Tells how far a loader is, from its start to `close`."""

    def __init__(self, reports: Reports, kafka: KafkaSettings, name: str, committed: Commit) -> None:
        self._group = GroupOffsets(kafka, reports.group or f"ottla-lake-{name}")
        self._offsets = _position(committed)

    def committed(self, publication: Publication, after: Commit) -> None:
        """A round is visible and committed."""
        self._offsets = _position(after)
        self._group.publish(self._offsets, wait=False)

    def caught_up(self, latest: SourceOffset) -> None:
        """The loader has loaded all up to `latest`: what others are told shall be there before it goes on."""
        self._group.publish(self._offsets, wait=True)


def _position(commit: Commit) -> SourceOffset:
    return SourceOffset(commit.offsets, commit.topic_ids)
