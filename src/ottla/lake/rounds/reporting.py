"""A loader's reports to others: lag, audit messages, markers, metrics. A fault here is a warning and fails no load."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from urllib.parse import unquote

from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.windows import Tallies, added_by_topic, window_of
from ottla.lake.notes.plans import Commit, Publication
from ottla.lake.notes.state import LakeRecords
from ottla.lake.reports.exporter import ExportedCounts, Exporter
from ottla.lake.reports.lake_tier import LakeTier
from ottla.lake.reports.markers import LoaderMarkers
from ottla.lake.reports.status import Ends
from ottla.lake.reports.tiers import Comparison, compare, ratios, read_messages
from ottla.lake.rounds.settings import Reports
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import Offsets, SourceOffset
from ottla.rows.publish import OffsetCommitter as GroupOffsets
from ottla.stores.base import LakeRefused

log = logging.getLogger("ottla.spark")

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
RATIO_US = 24 * 3_600_000_000
"""Ratios are those of the windows of a day."""
RATIO_EVERY_US = 60_000_000


class Reporter:
    """Reports the progress of a loader, from its start to `close`. LakeRefused if the metrics' port is taken."""

    def __init__(
        self,
        reports: Reports,
        kafka: KafkaSettings,
        shape: LakeShape,
        records: LakeRecords,
        name: str,
        committed: Commit,
    ) -> None:
        self._kafka = kafka
        self._audit_topic = reports.audit_topic
        self._committed = committed
        self._group = GroupOffsets(kafka, reports.group or group_name(records.store.url, name))
        self._tier = LakeTier(kafka, reports.audit_topic, name, _now_ms) if reports.audit_topic else None
        self._counts = ExportedCounts(committed)
        self._exporter: Exporter | None = None
        self._markers: LoaderMarkers | None = None
        self._recent: Tallies = {}
        self._next_ratio_us = 0
        if reports.metrics_port is not None:
            self._exporter = Exporter(reports.metrics_port, self._counts.samples)
        if reports.markers or (reports.audit_topic and self._exporter is not None):
            history = records.history()
            self._markers = LoaderMarkers(records.store, shape, history) if reports.markers else None
            self._recent = history.windows()
        if self._tier is not None:
            self._last_round_again(self._tier, records)

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics."""
        return None if self._exporter is None else self._exporter.port

    def committed(self, publication: Publication, before: Commit, after: Commit) -> None:
        """Report a round that is visible and committed."""
        self._committed = after
        self._counts.take(publication, before, after)
        self._group.publish(SourceOffset(after.offsets, after.topic_ids), wait=False)
        if self._tier is not None:
            tier = self._tier
            self._try("audit messages", lambda: tier.send(publication))
        if self._markers is not None:
            self._markers.committed(publication)
        if self._audit_topic and self._exporter is not None:
            self._recent = added_by_topic([self._recent, publication.windows])

    def asked(self, latest: Offsets, earliest: Offsets) -> None:
        """Note where the cluster's topics begin and end."""
        self._counts.ends(Ends(0, earliest, latest))

    def caught_up(self, asked_us: int) -> None:
        """Note that the lake holds all that the cluster had when it was asked."""
        self._group.publish(SourceOffset(self._committed.offsets, self._committed.topic_ids), wait=True)
        if self._tier is not None:
            self._try("audit messages", self._tier.send_waiting)
        if self._markers is not None:
            markers, committed = self._markers, self._committed
            self._try("markers of complete periods", lambda: markers.caught_up(committed, asked_us))
        if self._exporter is not None and self._audit_topic and asked_us >= self._next_ratio_us:
            self._next_ratio_us = asked_us + RATIO_EVERY_US
            self._try("completeness ratios", lambda: self._compare(asked_us))

    def close(self) -> None:
        """Report the last offsets, and stop serving metrics."""
        self._group.publish(SourceOffset(self._committed.offsets, self._committed.topic_ids), wait=True)
        if self._exporter is not None:
            self._exporter.close()

    def _last_round_again(self, tier: LakeTier, records: LakeRecords) -> None:
        """Send the messages of the last round again: its loader may have been killed after the commit, before them."""
        last = records.publication(self._committed.number)
        if last is not None:
            self._try("audit messages", lambda: tier.send(last))

    def _compare(self, asked_us: int) -> None:
        since = window_of(asked_us - RATIO_US)
        self._recent = {topic: tally.since(since) for topic, tally in self._recent.items()}
        since_ms, kafka = (asked_us - RATIO_US) // 1000, self._kafka
        told = read_messages(
            kafka.bootstrap_servers, self._audit_topic, since_ms=since_ms, security=kafka.security
        ).told
        until = dict.fromkeys({each.topic for each in self._committed.offsets}, window_of(asked_us) - 1)
        self._counts.ratios(ratios(compare(told, self._recent, Comparison(until, since))))

    def _try(self, what: str, tell: Callable[[], object]) -> None:
        try:
            tell()
        except (ApiError, ClientError, OSError, LakeRefused) as fault:
            self._counts.fault()
            log.warning("%s of this loader could not be reported: %s", what, fault)


def group_name(url: str, loader: str) -> str:
    """The group of a lake's loaders: the name of the lake's directory, and the beginning of the loader's name."""
    lake = _NOT_IN_NAMES.sub("-", unquote(url.rstrip("/").rpartition("/")[2])).strip("-")
    return "-".join(part for part in ("ottla-lake", lake, loader[:8]) if part)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
