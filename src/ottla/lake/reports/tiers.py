"""Adds up the audit messages of producers, and compares the counts with those of the lake.

Pure but for `read_messages`. Counts of several tiers (producer, mirror, ...) are compared each by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.client.blocking.cluster import Cluster
from ottla.client.model import EARLIEST, LATEST, ClientSettings
from ottla.client.produce.audit_trail import WINDOW_MS, AuditMessage
from ottla.client.security import PLAINTEXT, Security
from ottla.kernel.ids import TopicPartition
from ottla.lake.columns.windows import Tally
from ottla.records.reader import read_run

LAKE_TIER = "lake"
CLOCKS_MS = 3_600_000
"""The time before the first requested window from which on messages are read: clocks of producers may differ."""


class Judgement(Enum):
    """The counts of one window."""

    COMPLETE = "complete"
    MISSING = "missing"
    """The lake has fewer records than a tier counted."""
    MORE = "more"
    """The lake has more records: a producer does not count, or sent records twice."""
    OPEN = "open"
    """Too early to compare."""
    UNKNOWN = "unknown"
    """The lake has fewer records, but not all of its records were counted by window."""


@dataclass(frozen=True, slots=True)
class TierCounts:
    """The counts of one tier for one topic and window."""

    tier: str
    topic: str
    window: int
    count: int


@dataclass(frozen=True, slots=True)
class Compared:
    """One window of one topic: a tier's count, and the lake's."""

    tier: str
    topic: str
    window: int
    told: int
    in_lake: int
    judgement: Judgement


@dataclass(slots=True)
class Messages:
    """Audit messages as read."""

    told: list[TierCounts]
    repeated: int = 0
    unreadable: int = 0


def read_messages(bootstrap: str, topic: str, *, since_ms: int | None, security: Security = PLAINTEXT) -> Messages:
    """All messages of the audit topic, or those sent since about a time; none where there is no such topic."""
    bodies: list[bytes | None] = []
    with Cluster(bootstrap, settings=ClientSettings(security=security)) as cluster:
        view = cluster.topics().get(topic)
        partitions = [TopicPartition(topic, each) for each in view.partitions] if view is not None else []
        if not partitions:
            return Messages([])
        begin = cluster.list_offsets(partitions, EARLIEST if since_ms is None else max(0, since_ms - CLOCKS_MS))
        ends = cluster.list_offsets(partitions, LATEST)
        for partition in partitions:
            first, end = begin[partition].offset, ends[partition].offset
            for piece in cluster.fetch_range(topic, partition.partition, first, end) if 0 <= first < end else ():
                records = read_run(piece.records)
                bodies += [record.value for record in records if first <= record.offset < end]
    return added_up(bodies)


def added_up(bodies: Iterable[bytes | None]) -> Messages:
    """Messages added up by tier, topic and window, each once by its host, service and number."""
    seen: set[tuple[str, str, int]] = set()
    counts: dict[tuple[str, str, int], int] = {}
    found = Messages([])
    for body in bodies:
        try:
            message = AuditMessage.decode(body)
        except ValueError:
            found.unreadable += 1
            continue
        name = (message.host, message.service, message.seq)
        if name in seen:
            found.repeated += 1
            continue
        seen.add(name)
        place = (message.tier, message.topic, message.window_start // WINDOW_MS)
        counts[place] = counts.get(place, 0) + message.count
    found.told = [TierCounts(*place, count) for place, count in sorted(counts.items())]
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rules by which windows are compared."""

    until: Mapping[str, int]
    """From a topic to the first window that it is too early to compare."""
    since: int | None = None
    tolerance: float = 0.0
    """A share of the told records that may be missing, or more."""
    counted: Mapping[str, bool] | None = None
    """From a topic to whether all of its loaded records were counted by window; None if all of all topics were."""


def compare(told: Iterable[TierCounts], lake: Mapping[str, Tally], rules: Comparison) -> list[Compared]:
    """Compare each window that a tier before the lake counted. Dead letters and filtered records count as loaded."""
    loaded = {topic: dict(zip(tally.windows, tally.records, strict=True)) for topic, tally in lake.items()}
    found = []
    for each in told:
        early = rules.since is not None and each.window < rules.since
        if each.tier == LAKE_TIER or each.topic not in rules.until or early:
            continue
        in_lake = loaded.get(each.topic, {}).get(each.window, 0)
        found.append(Compared(each.tier, each.topic, each.window, each.count, in_lake, _judge(each, in_lake, rules)))
    return found


def ratios(compared: Iterable[Compared]) -> dict[tuple[str, str], float]:
    """(topic, tier) -> the share of the told records of windows that can be compared that is in the lake, at most 1."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for each in compared:
        if each.judgement is Judgement.OPEN:
            continue
        place = (each.topic, each.tier)
        wanted, there = sums.get(place, (0, 0))
        sums[place] = (wanted + each.told, there + min(each.told, each.in_lake))
    return {place: there / wanted for place, (wanted, there) in sums.items() if wanted > 0}


def _judge(told: TierCounts, in_lake: int, rules: Comparison) -> Judgement:
    if told.window >= rules.until[told.topic]:
        return Judgement.OPEN
    if abs(in_lake - told.count) <= rules.tolerance * told.count:
        return Judgement.COMPLETE
    if in_lake > told.count:
        return Judgement.MORE
    counted = rules.counted is None or rules.counted.get(told.topic, True)
    return Judgement.MISSING if counted else Judgement.UNKNOWN
