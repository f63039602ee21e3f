"""Filters as narrower ranges, without a cluster."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual

from ottla.kernel.ids import TopicPartition
from ottla.rows.plan import OffsetRange
from ottla.spark.pushdown import narrowed

SPAN = OffsetRange("t", 0, 10, 20)
COLUMN = ("timestamp",)
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def test_a_time_narrows_to_the_first_record_that_is_as_late():
    asked = []

    def at_times(times):
        asked.append(times)
        return {TopicPartition("t", 0): 15}

    (span,) = narrowed([SPAN], [GreaterThan(COLUMN, BEGIN + timedelta(milliseconds=70))], at_times)
    assert (span.start, span.end) == (15, 20)
    assert asked == [{TopicPartition("t", 0): 70}]


@pytest.mark.parametrize("condition", [GreaterThan, GreaterThanOrEqual, EqualTo])
@pytest.mark.parametrize("before", [timedelta(milliseconds=1), timedelta(milliseconds=2), timedelta(days=25_000)])
def test_a_time_before_1970_narrows_nothing(condition, before):
    """ListOffsets has other meanings for negative numbers: -1 is the end of the log."""

    def at_times(times):
        raise AssertionError(f"asked for {times}")

    assert narrowed([SPAN], [condition(COLUMN, BEGIN - before)], at_times) == [SPAN]
