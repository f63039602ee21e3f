"""The audit of the lake finds a missing row, a doubled one and a changed value."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.demo.flights import Events
from ottla.demo.lake import audit

ROWS = pd.DataFrame(
    {
        "hour": [5, 6, 7],
        "dep_delay": pd.array([1, None, -3], dtype="Int64"),
        "tailnum": ["N1", None, "N3"],
        "time_hour": ["2013-01-01T10:00:00Z", "2013-01-01T11:00:00Z", "2013-01-01T12:00:00Z"],
    }
)
EVENTS = Events("flights", ROWS, [b""] * 3, [b""] * 3, [0] * 3)


def in_lake(folder: Path, rows: pd.DataFrame) -> Path:
    table = pa.table(
        {
            "value_hour": pa.array(rows["hour"], pa.int64()),
            "dep_delay": pa.array(rows["dep_delay"], pa.int64()),
            "tailnum": pa.array(rows["tailnum"], pa.string()),
            "time_hour": pa.array(pd.to_datetime(rows["time_hour"]).dt.tz_localize(None), pa.timestamp("s")),
            "offset": pa.array(range(len(rows)), pa.int64()),
        }
    )
    path = folder / "topic=flights" / "date=2013-01-01" / "hour=10"
    path.mkdir(parents=True)
    pq.write_table(table, path / "flights-0-0-2.parquet")
    return folder


def test_the_same_rows_in_another_order_are_whole(tmp_path: Path) -> None:
    assert audit(EVENTS, in_lake(tmp_path, ROWS.iloc[[2, 0, 1]])).whole


@pytest.mark.parametrize(
    "rows",
    [
        ROWS.iloc[:2],
        ROWS.iloc[[0, 1, 2, 2]],
        ROWS.iloc[[0, 1, 1]],
        ROWS.assign(tailnum=["N1", None, "N4"]),
        ROWS.assign(dep_delay=pd.array([1, 0, -3], dtype="Int64")),
    ],
    ids=["missing", "doubled", "exchanged", "changed text", "null became zero"],
)
def test_a_lake_that_differs_is_not_whole(tmp_path: Path, rows: pd.DataFrame) -> None:
    assert not audit(EVENTS, in_lake(tmp_path, rows)).whole
