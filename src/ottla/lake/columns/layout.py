"""The folder of each row: by time and by fields. Pure; works on whole Arrow tables.

A group is the rows of one folder; its values are those of the partition columns, in order, as text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.columns.json_columns import EVENT_TIME, RESERVED
from ottla.rows.arrow import all_numbers, indices, null_mask, numbers
from ottla.stores.base import LakeRefused

TIME_UNITS = ("month", "day", "hour")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""A missing value, as Hive, Spark and readers of their folders write it."""
MOST_GROUPS = 10_000
"""The most folders that one task may fill in one round."""
MOST_OF_A_NAME = 255
"""The most bytes in the name of one folder, on all disks and stores in use."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The first and the last microsecond of the calendar: years 1 to 9999."""
_HOUR_US = 3_600_000_000

_SPECIAL = re.compile(r"(?![A-Za-z0-9_. -])[\x00-\x7f]")  # deltalake looks for ~ under %7E when it compacts

Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The division of a lake into folders."""

    partition_by: tuple[str, ...] = ("day",)
    """At most one of TIME_UNITS, and names of fields; empty for one folder a topic."""
    time_zone: str = "UTC"
    event_time: str = ""
    """The field whose time counts; empty for the record's own timestamp."""

    @property
    def time_unit(self) -> str:
        return next((each for each in self.partition_by if each in TIME_UNITS), "")

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(each for each in self.partition_by if each not in TIME_UNITS)

    @property
    def columns(self) -> tuple[str, ...]:
        """The partition columns: `hour` is two of them, `date` and `hour`."""
        return tuple(column for each in self.partition_by for column in _COLUMNS.get(each, (each,)))


_COLUMNS = {"day": ("date",), "month": ("month",), "hour": ("date", "hour")}


def parse_layout(partition_by: str, *, time_zone: str, event_time: str, json: bool) -> Layout:
    """The layout of `--partition-by`, `--time-zone` and `--event-time`; LakeRefused where they make no sense."""
    names = [each.strip() for each in partition_by.split(",")]
    if names == ["none"]:
        names = []
    if any(not name or name == "none" for name in names):
        raise LakeRefused(f"--partition-by {partition_by}: write none, or month, day, hour and fields with commas")
    if sum(name in TIME_UNITS for name in names) > 1 or len(set(names)) != len(names):
        raise LakeRefused(f"--partition-by {partition_by}: name one of month, day, hour, and each field once")
    layout = Layout(tuple(names), time_zone, event_time)
    if taken := [name for name in layout.fields if name.casefold() in RESERVED]:
        raise LakeRefused(f"--partition-by {partition_by}: the lake has a column {taken[0]} of its own")
    if not json and (layout.fields or event_time):
        raise LakeRefused("fields to partition by and --event-time need values with columns, e.g. --json")
    try:
        ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, like Europe
        raise LakeRefused(f"--time-zone {time_zone}: there is no such zone; write e.g. Europe/Berlin") from None
    return layout


def folder_of(topic: str) -> str:
    """A topic's folder in a lake of plain Parquet, ending with a slash."""
    return f"topic={topic}/"


def folder(topic: str, layout: Layout, values: Values) -> str:
    """A group's folder in a lake of plain Parquet, ending with a slash."""
    return f"{folder_of(topic)}{partition_path(layout, values)}"


def partition_path(layout: Layout, values: Values) -> str:
    """`date=2013-01-01/carrier=UA/`: the path below the topic's folder; empty where the lake is not divided."""
    pairs = zip(layout.columns, values, strict=True)
    return "".join(f"{_segment(name, text)}/" for name, text in pairs)


def _segment(name: str, text: str | None) -> str:
    """`carrier=UA`, escaped as Hive does it: only within ASCII, since Spark takes `%C3%BC` for two characters."""
    return f"{_escaped(name)}={NO_VALUE if text is None else _escaped(text)}"


def placed(table: pa.Table, layout: Layout, columns: dict[str, str]) -> np.ndarray:
    """A mask of the rows whose values can be the name of a folder."""
    kept = np.ones(table.num_rows, dtype=np.bool_)
    for name in layout.fields:
        column = columns.get(name)
        if column is None or not table.num_rows or not pa.types.is_string(table.column(column).type):
            continue
        values = table.column(column)
        if 3 * ((pc.max(pc.binary_length(values)).as_py() or 0) + len(name.encode())) < MOST_OF_A_NAME:
            continue
        kept &= [len(_segment(name, text).encode()) <= MOST_OF_A_NAME for text in values.to_pylist()]
    return kept


def readable(table: pa.Table, layout: Layout, columns: dict[str, str]) -> np.ndarray:
    """A mask of the rows whose values are text where bytes divide the lake: others name no folder."""
    kept = np.ones(table.num_rows, dtype=np.bool_)
    for name in layout.fields:
        column = columns.get(name)
        if column is not None and pa.types.is_binary(table.column(column).type):
            kept &= np.array([_is_text(value) for value in table.column(column).to_pylist()], dtype=np.bool_)
    return kept


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


def groups(
    table: pa.Table, layout: Layout, columns: dict[str, str], *, exact: bool = False
) -> Iterator[tuple[Values, pa.Table]]:
    """The rows of each group, in the order in which they came; groups in the order of their times and values.

    A folder's name cannot tell an empty text, or the one that stands for a missing value, from a missing value. With
    `exact` they make groups of their own: Iceberg takes a file's values from its rows, which must be the same.
    `columns` names the table's column of each field that the layout divides by; a field without one is missing.
    LakeRefused where there are more groups than MOST_GROUPS.
    """
    keys, texts = _keys(table, layout, columns, exact)
    if len(texts) == 1:
        yield texts[0], table
        return
    if len(texts) > MOST_GROUPS:
        raise LakeRefused(
            f"--partition-by {','.join(layout.partition_by)} makes {len(texts):,} folders of {table.num_rows:,} rows; "
            f"at most {MOST_GROUPS:,} are sensible"
        )
    if not bool((keys[1:] >= keys[:-1]).all()):
        order = np.argsort(keys, kind="stable")
        keys, table = keys[order], table.combine_chunks().take(indices(order))
    edges = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
    for begin, end in itertools.pairwise(edges):
        yield texts[int(keys[begin])], table.slice(begin, end - begin)


def _keys(table: pa.Table, layout: Layout, columns: dict[str, str], exact: bool) -> tuple[np.ndarray, list[Values]]:
    """Each row's group as a number, and each number's values."""
    keys = np.zeros(table.num_rows, dtype=np.int64)
    texts: list[Values] = [()]
    for each in layout.partition_by:
        if each in TIME_UNITS:
            codes, named = _time_codes(table, layout)
        else:
            codes, named = _field_codes(table, columns.get(each), exact)
        if len(named) == 1:  # most often all rows are of one day: nothing to sort
            texts = [(*text, *named[0]) for text in texts]
            continue
        combined = keys * len(named) + codes
        present, keys = np.unique(combined, return_inverse=True)
        texts = [(*texts[code // len(named)], *named[code % len(named)]) for code in present.tolist()]
    return keys, texts


def _time_codes(table: pa.Table, layout: Layout) -> tuple[np.ndarray, list[Values]]:
    name = EVENT_TIME if layout.event_time else "timestamp"
    times = np.clip(all_numbers(table.column(name)), _FIRST_US, _LAST_US)
    if layout.time_zone != "UTC":
        zoned = indices(times).cast(pa.timestamp("us", layout.time_zone))
        # In a zone the first or the last hours of the calendar may lie on the day before or after it.
        times = np.clip(numbers(pc.local_timestamp(zoned)), _FIRST_US, _LAST_US)
    each = times // _HOUR_US
    if len(each) and each.min() == each.max():
        hours, codes = each[:1], np.zeros(len(each), dtype=np.int64)
    else:
        hours, codes = np.unique(each, return_inverse=True)
    names = [_time_text(_EPOCH + timedelta(hours=hour), layout.time_unit) for hour in hours.tolist()]
    distinct = sorted(set(names))
    place = {name: position for position, name in enumerate(distinct)}
    return np.array([place[name] for name in names], dtype=np.int64)[codes], list(distinct)


def _time_text(when: datetime, unit: str) -> tuple[str, ...]:
    if unit == "month":
        return (f"{when.year:04d}-{when.month:02d}",)
    day = when.date().isoformat()
    return (day,) if unit == "day" else (day, f"{when.hour:02d}")


def _field_codes(table: pa.Table, column: str | None, exact: bool) -> tuple[np.ndarray, list[Values]]:
    if column is None or column not in table.column_names:
        return np.zeros(table.num_rows, dtype=np.int64), [(None,)]
    values = table.column(column)
    if pa.types.is_nested(values.type):
        raise LakeRefused(f"--partition-by {column}: a field of objects or arrays cannot divide a lake")
    texts = values.cast(pa.string())
    if not exact:
        filled = pc.fill_null(texts, "")
        texts = pc.if_else(pc.or_(pc.equal(filled, ""), pc.equal(filled, NO_VALUE)), None, texts)
    coded = texts.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    names = coded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=lambda place: _order(names[place], exact))
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[order] = np.arange(len(names))
    return ranks[numbers(coded.indices, np.int32)], [(names[place],) for place in order]


def _order(name: str | None, exact: bool) -> tuple[bool, str]:
    """Missing values have the place of their folder's name; where they have no folder, they come first."""
    return (name is not None, name or "") if exact else (True, NO_VALUE if name is None else name)


def in_calendar(times: np.ndarray) -> np.ndarray:
    """A mask of the times, in microseconds, that have a date in the calendar: years 1 to 9999."""
    mask: np.ndarray = (times >= _FIRST_US) & (times <= _LAST_US)
    return mask


def event_times(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """A field's values as microseconds of the epoch in UTC, and which rows have such a time.

    Text is ISO 8601 (without a zone: UTC); a number is milliseconds since 1970, as Kafka's own timestamps are.
    """
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    if pa.types.is_timestamp(whole.type):
        return _from_times(whole.cast(pa.timestamp("us", whole.type.tz), safe=False))
    if pa.types.is_integer(whole.type) or pa.types.is_floating(whole.type):
        return _from_numbers(whole)
    if pa.types.is_string(whole.type):
        return _from_texts(whole)
    return np.zeros(len(whole), dtype=np.int64), np.zeros(len(whole), dtype=np.bool_)


def _from_times(times: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    return numbers(pc.fill_null(times.cast(pa.int64()), 0)), ~null_mask(times)


def _from_numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    milliseconds = numbers(pc.fill_null(column.cast(pa.float64(), safe=False), float("nan")), np.float64)
    good = (milliseconds >= _FIRST_US / 1000) & (milliseconds < (_LAST_US + 1) / 1000)
    return np.clip((np.where(good, milliseconds, 0.0) * 1000).astype(np.int64), _FIRST_US, _LAST_US), good


def _from_texts(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    times, good = _parsed(column)
    return times, good & (times >= _FIRST_US)  # Arrow knows a year 0, Python does not


def _parsed(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return _from_times(column.cast(kind))
        except pa.ArrowInvalid:
            continue
    each = [_microseconds(text) for text in column.to_pylist()]
    good = np.array([time is not None for time in each], dtype=np.bool_)
    return np.array([time or 0 for time in each], dtype=np.int64), good


def _microseconds(text: str | None) -> int | None:
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    try:
        return (aware - _EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        return None
