"""Table formats: Delta and Iceberg. Plain Parquet needs none of this: there a file's name makes it visible."""

from __future__ import annotations

from ottla.lake.tables.base import Compacted, LakeTable, LoaderStanding, Table, TableFile, TableRound
from ottla.stores.base import LakeRefused

__all__ = [
    "FORMATS",
    "Compacted",
    "LakeTable",
    "LoaderStanding",
    "Table",
    "TableFile",
    "TableRound",
    "open_table",
]

FORMATS = ("delta", "iceberg")


def open_table(
    lake_url: str,
    format: str,
    topic: str,
    *,
    partition_by: tuple[str, ...] = (),
    catalog: str = "",
    namespace: str = "ottla",
) -> LakeTable:
    """A topic's table in a lake, whether it exists already or not.

    `partition_by` holds "month", "day" or "hour" and names of fields. `catalog` and `namespace` are Iceberg's.
    """
    try:
        if format == "delta":
            from ottla.lake.tables.delta import DeltaTopic

            return DeltaTopic(lake_url, topic, partition_by=partition_by)
        if format == "iceberg":
            from ottla.lake.tables.iceberg import IcebergTopic

            return IcebergTopic(lake_url, topic, partition_by=partition_by, catalog=catalog, namespace=namespace)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] not in ("deltalake", "pyiceberg", "pyarrow", "sqlalchemy"):
            raise
        raise LakeRefused(f"--format {format} needs {fault.name}: pip install 'ottla[lake]'") from fault
    raise LakeRefused(f"'{format}' is not a table format: give {' or '.join(FORMATS)}")
