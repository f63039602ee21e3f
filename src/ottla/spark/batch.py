"""A batch query planned on the driver; executors read its ranges by reader.py.

Comes from source.py. Here and in stream.py nothing heavy is imported before it is needed: Spark starts a new Python for
every step of planning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.rows.plan import DataLoss, OffsetRange, split
from ottla.rows.survey import Survey
from ottla.spark.options import SourceOptions
from ottla.spark.plainly import said_plainly

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

log = logging.getLogger("ottla.spark")


class RangePartition(InputPartition):
    """One task's ranges: one, or several small ones of a micro-batch."""

    def __init__(self, *spans: OffsetRange) -> None:
        super().__init__(spans)
        self.spans = spans

    def read(self, options: SourceOptions) -> Iterator[pa.RecordBatch]:
        """Read the ranges; on the executor."""
        from ottla.spark.reader import read_ranges
        from ottla.spark.workers import hurry_answers

        hurry_answers()
        with said_plainly():
            yield from read_ranges(self.spans, options)


class OttlaBatchReader(DataSourceReader):
    """Plans a batch on the driver; the copy that executors get only reads."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._filters: list[Filter] = []

    @said_plainly()
    def partitions(self) -> list[InputPartition]:
        ranges = split(
            plan_batch(self.options.survey(), self.options, self._filters),
            min_partitions=self.options.min_partitions,
            max_records=self.options.max_records_per_partition,
        )
        return [RangePartition(span) for span in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark's stand-in where there is nothing to read
        return partition.read(self.options)


class OttlaFilteringReader(OttlaBatchReader):
    """Takes filters too.

    A class of its own: while its switch for filters is off, Spark refuses every reader that could take them.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Narrow the ranges; Spark applies every filter again, so the narrowing need not be exact."""
        self._filters = filters
        return filters


def plan_batch(survey: Survey, options: SourceOptions, filters: list[Filter]) -> list[OffsetRange]:
    """The ranges of a batch query.

    The partitions' ends are asked for last: records that come meanwhile must not leave an ending beyond them.
    """
    assigned = survey.assigned()
    starts = survey.limit(options.starting, assigned, option="startingOffsets", starting=True)
    ends = survey.limit(options.ending, assigned, option="endingOffsets", starting=False)
    latest, epochs = survey.latest(assigned, {})
    ranges = []
    for partition, start in sorted(starts.items()):
        end = ends[partition]
        if end > latest[partition]:
            reason = f"Partition {partition} ends at {latest[partition]}, before the ending offset {end}."
            if options.fail_on_data_loss:
                raise DataLoss(reason)
            log.warning("%s", reason)
            end = latest[partition]
        if start > end:
            raise ValueError(
                f"The resolved start offset {start} is greater than the resolved end offset {end} for topic "
                f"{partition.topic} partition {partition.partition}."
            )
        epoch = epochs.get(partition, -1)
        ranges.append(OffsetRange(partition.topic, partition.partition, start, end, assigned[partition], epoch))
    if not filters:
        return ranges
    from ottla.spark.pushdown import narrowed

    return narrowed(ranges, filters, lambda times: {each: at for each, (at, _) in survey.at_times(times).items()})
