"""A warning for records that retention may delete before the lake has them: history with its own timestamps.

Brokers compare `retention.ms` with the records' timestamps. So records of 2015 may go at the next look, however new
they are in the topic.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.admin.admin import Resource, ResourceType
from ottla.client.blocking.admin import Admin
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.rows.plan import OffsetRange
from ottla.rows.survey import Survey

_DAY_MS = 86_400_000


def past_due(ranges: tuple[OffsetRange, ...], survey: Survey, now_ms: int) -> list[str]:
    """A sentence for each topic of a round that holds unloaded records beyond the topic's retention.

    Nothing is said where the brokers do not tell a topic's configuration: the load itself does not need it.
    """
    topics = sorted({span.topic for span in ranges if span.size})
    try:
        kept_ms = _retention_ms(survey, topics) if topics else {}
        times = {span.topic_partition: now_ms - kept_ms[span.topic] for span in ranges if span.topic in kept_ms}
        first_kept = survey.at_times(times)
    except (ApiError, ClientError):
        return []
    counts: dict[str, int] = {}
    for span in ranges:
        partition = span.topic_partition
        if partition in first_kept:
            old = overdue(span, first_kept[partition][0])
            counts[span.topic] = counts.get(span.topic, 0) + old
    return [_sentence(topic, count, kept_ms[topic]) for topic, count in sorted(counts.items()) if count]


def overdue(span: OffsetRange, first_kept: int) -> int:
    """The offsets of a range in front of the first record that is young enough; all of them where none is."""
    return max(0, (span.end if first_kept < 0 else min(first_kept, span.end)) - span.start)


def _sentence(topic: str, count: int, kept_ms: int) -> str:
    days = f"{kept_ms / _DAY_MS:g} days" if kept_ms >= _DAY_MS else f"{kept_ms} ms"
    records, have = ("1 record", "has a timestamp") if count == 1 else (f"{count:,} records", "have timestamps")
    return (
        f"{records} of {topic} not loaded yet {have} older than the topic's retention.ms ({days}): brokers "
        f"may delete them at any time. To keep them: ottla topic alter {topic} --config retention.ms=-1"
    )


def _retention_ms(survey: Survey, topics: list[str]) -> Mapping[str, int]:
    """The retention by time of topics whose old segments are deleted; without an entry there is none."""
    resources = [Resource(ResourceType.TOPIC, topic) for topic in topics]
    found = Admin(cluster=survey.cluster).describe_configs(resources, keys=["retention.ms", "cleanup.policy"])
    kept = {}
    for resource, configs in found.items():
        if isinstance(configs, Exception):
            continue
        values = {config.name: config.value or "" for config in configs}
        retention_ms = int(values.get("retention.ms") or -1)
        if "delete" in values.get("cleanup.policy", "") and retention_ms >= 0:
            kept[resource.name] = retention_ms
    return kept
