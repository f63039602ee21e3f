"""The meaning of `--partition-by` in a table: time units of the record's timestamp in UTC, and fields as they are."""

from __future__ import annotations

from urllib.parse import quote

from ottla.lake.tables.base import TIME_UNITS
from ottla.stores.base import LakeRefused

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
TIME_COLUMNS = {"month": ("month",), "day": ("date",), "hour": ("date", "hour")}
"""The text columns that a Delta table has for a time unit: month YYYY-MM, date YYYY-MM-DD, hour HH."""


def partition_columns(partition_by: tuple[str, ...]) -> tuple[str, ...]:
    """The partition columns of a Delta table, in order."""
    check_partition_by(partition_by)
    names = [name for entry in partition_by for name in TIME_COLUMNS.get(entry, (entry,))]
    return tuple(dict.fromkeys(names))


def partition_folder(values: tuple[tuple[str, str | None], ...]) -> str:
    """The folder of a partition's files, as Hive names it; polars takes the values from there."""
    return "/".join(f"{name}={NO_VALUE if value is None else quote(value, safe='')}" for name, value in values)


def time_unit(partition_by: tuple[str, ...]) -> str | None:
    """The finest time unit named, which is the one that an Iceberg table has a transform for."""
    return max((entry for entry in partition_by if entry in TIME_UNITS), key=TIME_UNITS.index, default=None)


def check_partition_by(partition_by: tuple[str, ...]) -> None:
    """LakeRefused where an entry is named twice."""
    for entry in partition_by:
        if partition_by.count(entry) > 1:
            raise LakeRefused(f"'{entry}' stands twice in the partitions")
