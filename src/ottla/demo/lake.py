"""The proof that no row of the Parquet lake is missing. Comes from produce.py, and the pipeline's load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds

from ottla.demo.flights import Events
from ottla.lake.columns.json_columns import RESERVED


@dataclass(frozen=True, slots=True)
class Audit:
    """One topic in the lake beside the file that it came from."""

    topic: str
    in_file: int
    in_lake: int
    checksum_of_file: str
    checksum_of_lake: str

    @property
    def whole(self) -> bool:
        """True if every row is there once, with every value as it was."""
        return self.in_file == self.in_lake and self.checksum_of_file == self.checksum_of_lake


def audit(events: Events, lake: Path) -> Audit:
    """Read the topic's Parquet files with pyarrow and compare them with the CSV, all columns of all rows."""
    columns = {name: f"value_{name}" if name in RESERVED else name for name in events.rows}
    files = ds.dataset(lake / f"topic={events.topic}", format="parquet")
    found = files.to_table(columns=list(columns.values())).to_pandas(timestamp_as_object=False)
    found.columns = list(columns)
    return Audit(events.topic, len(events.rows), len(found), checksum(events.rows), checksum(found))


def checksum(rows: pd.DataFrame) -> str:
    """The sum of all rows' hashes: the same whatever their order, another one if a value differs."""
    plain = pd.DataFrame({name: comparable(rows[name]) for name in sorted(rows)})
    return f"{int(pd.util.hash_pandas_object(plain, index=False).sum()) & (1 << 64) - 1:016x}"


def comparable(column: pd.Series) -> pd.Series:
    """Numbers as float64, times as the files write them, a missing text as the empty one."""
    if isinstance(column.dtype, pd.DatetimeTZDtype) or column.dtype.kind == "M":
        return column.dt.strftime("%Y-%m-%dT%H:%M:%SZ").astype(object)
    if pd.api.types.is_numeric_dtype(column):
        return column.astype("float64")
    return column.astype(object).where(column.notna(), "")
