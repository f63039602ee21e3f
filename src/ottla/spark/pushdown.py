"""Filters as narrower ranges: of topic, partition, offset and timestamp. Only a hint: Spark filters again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ottla.rows.plan import OffsetRange, Offsets

AtTimes = Callable[[Offsets], Offsets]
"""Times per partition -> the first offset at or after each, -1 where there is none."""


def narrowed(ranges: list[OffsetRange], filters: Sequence[Filter], at_times: AtTimes) -> list[OffsetRange]:
    """The ranges without the parts that can hold no row of the filter."""
    for condition in filters:
        column, value = getattr(condition, "attribute", ()), getattr(condition, "value", None)
        if column in (("topic",), ("partition",)):
            ranges = [span for span in ranges if _may_be(condition, getattr(span, column[0]))]
        elif column == ("offset",) and isinstance(value, int):
            ranges = [_by_offset(span, condition, value) for span in ranges]
        elif column == ("timestamp",) and isinstance(condition, GreaterThan | GreaterThanOrEqual | EqualTo):
            since_ms = int(value.timestamp() * 1000) if isinstance(value, datetime) else 0
            if since_ms > 0:  # ListOffsets takes -1 for the end of a log, and refuses other times before 1970
                first = at_times({span.topic_partition: since_ms for span in ranges if span.size > 0})
                ranges = [_since(span, first) for span in ranges]
    return [span for span in ranges if span.size > 0]


def _may_be(condition: Filter, value: Any) -> bool:
    if isinstance(condition, EqualTo):
        return bool(condition.value == value)
    return value in condition.value if isinstance(condition, In) else True


def _by_offset(span: OffsetRange, condition: Filter, value: int) -> OffsetRange:
    match condition:
        case EqualTo():
            return replace(span, start=max(span.start, value), end=min(span.end, value + 1))
        case GreaterThan():
            return replace(span, start=max(span.start, value + 1))
        case GreaterThanOrEqual():
            return replace(span, start=max(span.start, value))
        case LessThan():
            return replace(span, end=min(span.end, value))
        case LessThanOrEqual():
            return replace(span, end=min(span.end, value + 1))
    return span


def _since(span: OffsetRange, first: Offsets) -> OffsetRange:
    offset = first.get(span.topic_partition, span.start)
    return replace(span, start=span.end if offset < 0 else max(span.start, offset))
