"""A lake topic by topic: loaded, behind, late and dead records, and the time through which it is complete.

Pure but for `cluster_ends`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ottla.client.blocking.cluster import Cluster
from ottla.client.model import EARLIEST, LATEST, ClientSettings
from ottla.client.security import PLAINTEXT, Security
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.lake.columns.windows import Tally
from ottla.lake.notes.history import History
from ottla.lake.notes.plans import Commit, still_whole
from ottla.rows.plan import SourceOffset
from ottla.rows.selection import Selection
from ottla.rows.survey import FetchRetries, Survey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PATIENCE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Ends:
    """The begin and end of the cluster's partitions at a time, uncommitted transactions included."""

    asked_us: int
    """A time before the cluster was asked, in microseconds."""
    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    settled: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The first offset whose record is too young to be due; without an entry all are old enough."""
    truncated: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The ends of partitions' logs at which they lost records that were loaded, perhaps to grow again."""

    def behind(self, partition: TopicPartition, committed: Commit) -> int:
        """The offsets of a partition that are not loaded yet."""
        earliest = self.earliest.get(partition, 0)
        return max(0, self.latest.get(partition, 0) - max(earliest, committed.offsets.get(partition, earliest)))

    def overdue(self, partition: TopicPartition, committed: Commit) -> int:
        """The unloaded offsets of a partition that are old enough to be loaded."""
        latest = self.latest.get(partition, 0)
        settled = min(latest, self.settled.get(partition, latest))  # asked for later, it may lie behind the end
        return max(0, self.behind(partition, committed) - (latest - settled))

    def removed(self, partition: TopicPartition, committed: Commit) -> int:
        """The offsets of a partition that retention, or a deletion of records, took before they were loaded."""
        if partition.topic not in committed.topic_ids:
            return 0
        return max(0, self.earliest.get(partition, 0) - committed.offsets.get(partition, 0))


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """The state of one topic of a lake."""

    topic: str
    rows: int
    """The rows ever loaded."""
    rounds: int
    """The kept rounds that brought records of the topic."""
    behind: int | None
    """The offsets behind; None if the cluster was not asked, or has no such topic."""
    late: int
    """The records of kept rounds for windows that were complete already."""
    dead: int
    complete_through: str | None
    """In UTC; None if a partition has brought nothing and may hold records."""
    filtered: int = 0
    """The records that the filter ever left out."""
    newest_event: str | None = None
    """The greatest event time that was loaded, in UTC: a lake of old events is complete through the present."""


def statuses(history: History, topics: Iterable[str], ends: Ends | None, now_us: int) -> list[TopicStatus]:
    """A line for each topic."""
    committed = history.committed
    late, windows = history.late(), history.windows()
    behind = dict.fromkeys(topics, 0)
    for partition in ends.latest if ends is not None else ():
        if ends is not None and partition.topic in behind:
            behind[partition.topic] += ends.behind(partition, committed)
    rounds = dict.fromkeys(behind, 0)
    for publication in history.rounds:
        for topic in {count.span.topic for count in publication.counts} & set(rounds):
            rounds[topic] += 1
    return [
        TopicStatus(
            topic,
            sum(rows for partition, rows in committed.rows.items() if partition.topic == topic),
            rounds[topic],
            None if ends is None or topic not in ends.topic_ids else behind[topic],
            _records(late.get(topic)),
            sum(windows[topic].dead) if topic in windows else 0,
            utc_text(topic_complete_through(topic, committed, ends, now_us)),
            sum(windows[topic].filtered) if topic in windows else 0,
            utc_text(max((time for each, time in committed.latest.items() if each.topic == topic), default=None)),
        )
        for topic in behind
    ]


def topic_complete_through(topic: str, committed: Commit, ends: Ends | None, now_us: int) -> int | None:
    """The least, over a topic's partitions, of the greatest event time that was loaded, in microseconds.

    A partition that is loaded up to the cluster's end counts as complete up to when the cluster was asked. A time in
    the future counts as now. None where nothing is known of a partition.
    """
    times: dict[TopicPartition, int | None] = {
        partition: committed.latest.get(partition) for partition in committed.offsets if partition.topic == topic
    }
    if ends is None:
        times = {partition: time for partition, time in times.items() if time is not None}
    for partition in ends.latest if ends is not None else ():
        if ends is not None and partition.topic == topic:
            done = not ends.behind(partition, committed) and not ends.removed(partition, committed)
            times[partition] = ends.asked_us if done else committed.latest.get(partition)
    known = [time for time in times.values() if time is not None]
    if not known or len(known) < len(times):
        return None
    return min(now_us, *known)


def cluster_ends(
    bootstrap: str,
    topics: Iterable[str],
    now_us: int,
    *,
    delay_us: int = 0,
    committed: Commit | None = None,
    security: Security = PLAINTEXT,
) -> Ends:
    """Ask a cluster; topics that it has not are left out. Raises ApiError and ClientError.

    With a delay, records of the time since then count as too young to be loaded. With a commit, the cluster is asked
    whether its logs still hold all that was loaded.
    """
    settings = ClientSettings(
        client_id="ottla-lake",
        request_timeout_ms=PATIENCE_MS,
        api_timeout_ms=PATIENCE_MS,
        bootstrap_timeout_ms=PATIENCE_MS,
        security=security,
    )
    with Cluster(bootstrap, settings=settings) as cluster:
        views = cluster.topics()
        known = [views[topic] for topic in topics if topic in views]
        partitions = [TopicPartition(view.name, each) for view in known for each in view.partitions]
        earliest = cluster.list_offsets(partitions, EARLIEST) if partitions else {}
        latest = cluster.list_offsets(partitions, LATEST) if partitions else {}
        settled_ms = max(0, now_us - delay_us) // 1000
        settled = cluster.list_offsets(partitions, settled_ms) if partitions and delay_us else {}
        now = SourceOffset(
            {partition: answer.offset for partition, answer in latest.items()},
            {view.name: TopicId(view.topic_id) for view in known},
            {partition: answer.leader_epoch for partition, answer in latest.items()},
        )
        survey = Survey(cluster, Selection(), read_committed=False, retries=FetchRetries())
        truncated = survey.truncated(still_whole(committed, now), now.epochs) if committed is not None else {}
    return Ends(
        now_us,
        {partition: answer.offset for partition, answer in earliest.items()},
        now.offsets,
        now.topic_ids,
        {partition: answer.offset for partition, answer in settled.items() if answer.offset >= 0},
        truncated,
    )


def utc_text(microseconds: int | None) -> str | None:
    """A time as ISO 8601 in UTC, to the second."""
    if microseconds is None:
        return None
    try:
        when = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def _records(tally: Tally | None) -> int:
    return 0 if tally is None else sum(tally.records)
