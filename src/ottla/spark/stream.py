"""Micro-batches: one long-lived object on the driver plans the ranges of each batch; executors read them by reader.py.

Spark asks in this order: `latestOffset(start, limit)`, `reportLatestOffset`, `commit(end of the batch before)`,
`partitions(start, end)`. When `latestOffset` is called, all records up to its `start` have been processed: the
consumer group shows that offset, as the last batch's `commit` and `stop` are never called under Trigger.AvailableNow.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.rows.plan import (
    DataLoss,
    Offsets,
    RangeOptions,
    SourceOffset,
    added_partitions,
    between,
    nested,
    recreated,
    share_limit,
    should_wait,
    true_start,
)
from ottla.rows.publish import OffsetCommitter
from ottla.rows.survey import Survey
from ottla.spark.batch import RangePartition
from ottla.spark.options import SourceOptions
from ottla.spark.plainly import said_plainly

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ottla.spark")

SMALL = 20_000
"""Offsets that one task of a micro-batch reads from several partitions, unless minPartitions is given: for Spark a
Python task costs some 50 ms, and small ranges of their own would make small files too."""


class RefusedStreamReader(DataSourceStreamReader):
    """Takes the place of a reader whose options are refused; it raises the reason when Spark asks for an offset."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal

    @said_plainly()
    def initialOffset(self) -> dict[str, object]:
        raise ValueError(self._refusal)

    @said_plainly()
    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        raise ValueError(self._refusal)

    @said_plainly()
    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        raise ValueError(self._refusal)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise ValueError(self._refusal)


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver; the copy that executors get only reads."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._survey: Survey | None = None
        self._publisher: OffsetCommitter | None = None
        self._target: SourceOffset | None = None
        self._reported: Offsets = {}
        self._last_trigger = 0.0

    def __reduce__(self) -> tuple[type[OttlaStreamReader], tuple[SourceOptions]]:
        return OttlaStreamReader, (self.options,)

    @property
    def survey(self) -> Survey:
        if self._survey is None:
            self._survey = self.options.survey()
        return self._survey

    @said_plainly()
    def initialOffset(self) -> dict[str, object]:
        assigned = self.survey.assigned()
        offsets = self.survey.limit(self.options.starting, assigned, option="startingOffsets", starting=True)
        _, epochs = self.survey.latest(assigned, {})
        return SourceOffset(offsets, _ids(assigned), epochs, uuid.uuid4().hex, initial=offsets).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Note the second limit: a Python source may name one limit only."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @said_plainly()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest(SourceOffset({}), missing_is_fine=True)

    @said_plainly()
    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        begin = SourceOffset.from_json(start)
        latest = self._latest(begin) if self._target is None else self._capped_target(begin)
        self._reported = latest.offsets
        end = self._limited(begin, latest, limit)
        unmoved = end.offsets == begin.offsets and not any(recreated(topic, begin, end) for topic in end.topic_ids)
        self._publish(begin, wait=unmoved)
        if unmoved and begin.query:
            return start
        added = added_partitions(begin, end)
        begins = self.survey.earliest(added) if added else {}
        initial = begin.initial if begin.layout is None else None
        return replace(end, layout=self._layout, begins=begins, initial=initial).to_json()

    def reportLatestOffset(self) -> dict[str, object] | None:
        return nested(self._reported) if self._reported else None

    @said_plainly()
    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        until = SourceOffset.from_json(end)
        begin = true_start(SourceOffset.from_json(start), until)
        unknown = [partition for partition in added_partitions(begin, until) if partition not in until.begins]
        plan = between(begin, until, {**(self.survey.earliest(unknown) if unknown else {}), **until.begins})
        self._report(plan.losses)
        return [RangePartition(*spans) for spans in (until.layout or self._layout).tasks(plan.ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return partition.read(self.options)

    def commit(self, end: dict[str, object]) -> None:
        self._publish(SourceOffset.from_json(end), wait=False)

    def stop(self) -> None:
        if self._survey is not None:
            self._survey.cluster.close()

    def _latest(self, begin: SourceOffset, *, missing_is_fine: bool = False) -> SourceOffset:
        """The present ends of the partitions. One that has not moved keeps its epoch: offsets are compared as text."""
        assigned = self.survey.assigned(missing_is_fine=missing_is_fine or bool(begin.offsets))
        now = SourceOffset({}, _ids(assigned))
        known = {each: at for each, at in begin.offsets.items() if not recreated(each.topic, begin, now)}
        offsets, epochs = self.survey.latest(assigned, known)
        self._report_truncated(begin, epochs)
        latest = SourceOffset(offsets, _ids(assigned), epochs, begin.query or uuid.uuid4().hex)
        for partition, offset in offsets.items():
            unmoved = begin.offsets.get(partition) == offset and not recreated(partition.topic, begin, latest)
            if unmoved and partition in begin.epochs:
                epochs[partition] = begin.epochs[partition]
        return latest

    def _capped_target(self, begin: SourceOffset) -> SourceOffset:
        """The end noted when AvailableNow began, or where a checkpoint is beyond it the present one up to there."""
        target = self._target
        assert target is not None
        self._report_truncated(begin, target.epochs)
        offsets = dict(target.offsets)
        beyond = [
            partition
            for partition, offset in offsets.items()
            if begin.offsets.get(partition, 0) > offset and not recreated(partition.topic, begin, target)
        ]
        if beyond:
            latest = self._latest(begin).offsets
            for partition in beyond:
                offsets[partition] = min(begin.offsets[partition], latest.get(partition, offsets[partition]))
        return SourceOffset(offsets, target.topic_ids, target.epochs, begin.query or target.query)

    def _report_truncated(self, begin: SourceOffset, epochs: Offsets) -> None:
        losses = self.survey.truncated(begin, epochs)
        self._report([f"Partition {each} was truncated to offset {end}." for each, end in losses.items()])

    def _limited(self, begin: SourceOffset, latest: SourceOffset, limit: ReadLimit) -> SourceOffset:
        if isinstance(limit, ReadAllAvailable):
            return latest
        added = added_partitions(begin, latest)
        start = {**begin.offsets, **(self.survey.earliest(added) if added else {})}
        start = {partition: start[partition] for partition in latest.offsets}
        least = limit.min_rows if isinstance(limit, ReadMinRows) else self.options.min_offsets_per_trigger
        now = time.monotonic()
        # AvailableNow does not wait for more records: fewer than the minimum are read all the same.
        if least is not None and self._target is None:
            waited_ms = int((now - self._last_trigger) * 1000) if self._last_trigger else self._delay_ms
            if should_wait(least, start, latest.offsets, waited_ms=waited_ms, max_delay_ms=self._delay_ms):
                return begin
        self._last_trigger = now
        if not isinstance(limit, ReadMaxRows):
            return latest
        shared = share_limit(limit.max_rows, start, latest.offsets)
        return SourceOffset(shared, latest.topic_ids, latest.epochs, latest.query)

    @property
    def _layout(self) -> RangeOptions:
        least = self.options.min_partitions
        return RangeOptions(least, self.options.max_records_per_partition, SMALL if least is None else 0)

    @property
    def _delay_ms(self) -> int:
        return self.options.max_trigger_delay_ms

    def _publish(self, offset: SourceOffset, *, wait: bool) -> None:
        if not self.options.publish_offsets or not offset.query:
            return
        if self._publisher is None:
            group = self.options.publish_group or f"{self.options.group_id_prefix}-{offset.query}"
            self._publisher = OffsetCommitter(self.options.kafka, group)
        self._publisher.publish(offset, wait=wait)

    def _report(self, losses: list[str]) -> None:
        if losses and self.options.fail_on_data_loss:
            raise DataLoss(" ".join(losses))
        for loss in losses:
            log.warning("%s Some data may have been lost; failOnDataLoss is false, so the query goes on.", loss)


def _ids(assigned: dict[TopicPartition, TopicId]) -> dict[str, TopicId]:
    return {partition.topic: topic_id for partition, topic_id in assigned.items()}
