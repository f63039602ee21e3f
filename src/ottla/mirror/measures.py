"""Metrics of mirrors, under the names that exporters give MirrorMaker 2's, and those that it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.kernel.ids import TopicPartition
from ottla.metrics.metric import Metric, Sample
from ottla.mirror.copying import LaneCopying
from ottla.mirror.groups import Groups
from ottla.mirror.lane import Copied
from ottla.mirror.options import FlowSettings

_PREFIX = "kafka_connect_mirror_mirrorsourceconnector_"
_LABELS = ("source", "target", "topic", "partition")
RECORDS = Metric(f"{_PREFIX}record_count", "counter", "Records that were copied.", _LABELS)
BYTES = Metric(f"{_PREFIX}byte_count", "counter", "Bytes of batches that were copied.", _LABELS)
AGE = Metric(f"{_PREFIX}record_age_ms", "gauge", "The age of the newest record when its batch landed.", _LABELS)
LAG = Metric("ottla_mirror_lag_records", "gauge", "Offsets of the source that are not copied.", _LABELS)
STOPPED = Metric("ottla_mirror_partition_stopped", "gauge", "1 for a partition that is not mirrored on.", _LABELS)
GROUPS_WITH_MEMBERS = Metric(
    "ottla_mirror_groups_with_members", "gauge", "Groups not synced, as they have members there.", ("source", "target")
)
_Place = tuple[str, str, TopicPartition]


class Measures:
    """Counts of all flows."""

    def __init__(self) -> None:
        self._flows: dict[str, tuple[FlowSettings, LaneCopying, Groups]] = {}
        self._records: dict[_Place, int] = {}
        self._bytes: dict[_Place, int] = {}

    def began(self, settings: FlowSettings, copying: LaneCopying, groups: Groups) -> None:
        """Show this attempt of a flow from now on."""
        self._flows[settings.name] = settings, copying, groups

    def copied(self, settings: FlowSettings, target: TopicPartition, copied: Copied) -> None:
        """Count a batch."""
        place = settings.source.alias, settings.target.alias, target
        self._records[place] = self._records.get(place, 0) + copied.count
        self._bytes[place] = self._bytes.get(place, 0) + copied.size

    def samples(self) -> Iterator[Sample]:
        """All that is known now."""
        for metric, counts in ((RECORDS, self._records), (BYTES, self._bytes)):
            for (source, target, mirror), count in counts.items():
                yield Sample(metric, (source, target, mirror.topic, str(mirror.partition)), count)
        for settings, copying, groups in self._flows.values():
            names = settings.source.alias, settings.target.alias
            for partition, lane in copying.lanes.items():
                labels = (*names, lane.target.topic, str(lane.target.partition))
                if partition in copying.ages_ms:
                    yield Sample(AGE, labels, copying.ages_ms[partition])
                if (lag := copying.lag(partition)) is not None:
                    yield Sample(LAG, labels, lag)
                yield Sample(STOPPED, labels, int(lane.stopped is not None))
            yield Sample(GROUPS_WITH_MEMBERS, names, groups.with_members)
