"""The page: the picture, its figures as a table and where they come from, in one file. Comes from picture.py."""

from __future__ import annotations

import base64
import math
from html import escape
from pathlib import Path

from ottla.demo.delays import BLOCKS, HOURS, WEATHER, Delays
from ottla.demo.flights import SOURCE
from ottla.demo.lake import Audit

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.25; } img { width: 100%; height: auto; } p, figcaption { color: #555; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0; } figure { margin: 1.5rem 0; }
th, td { padding: 0.2rem 0.45rem; text-align: right; } th:first-child { text-align: left; white-space: nowrap; }
tbody tr:nth-child(odd) { background: #f6f6f6; } .wide { overflow-x: auto; }
"""


def write(delays: Delays, audits: list[Audit], rates: dict[str, str], picture: Path, page: Path) -> None:
    """Write the HTML file; it needs nothing beside it."""
    image = base64.b64encode(picture.read_bytes()).decode("ascii")
    title = escape(delays.finding())
    page.write_text(
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>Departures from New York, 2013</h1>
<p>{int(delays.answer["flights"].sum()):,} scheduled departures from New York's three airports in 2013 went through
topics; Spark joined them with airlines and weather while they came, and put them into a Parquet lake.</p>
<figure><img alt="Heat map of mean departure delay by airline and scheduled hour. {title}."
src="data:image/png;base64,{image}"></figure>
<h2>Mean departure delay, minutes</h2>
{blocks_table(delays)}
<div class="wide">{hours_table(delays)}</div>
<h2>By weather in the hour of departure</h2>
{weather_table(delays)}
<h2>Every row is in the lake</h2>
{audit_table(audits)}
<p>{escape("; ".join(f"{name}: {rate}" for name, rate in rates.items()))}.</p>
<p>Source: {escape(SOURCE)}. {delays.cancelled():,} flights that never departed have no delay and are left out of the
means; early departures count as negative; a mean of fewer than 20 departures is not shown.</p>
</body></html>
""",
        encoding="utf-8",
    )


def blocks_table(delays: Delays) -> str:
    """All airlines by time of day: the figures of the title."""
    heads = [f"{first} to {end} h" for first, end in BLOCKS]
    return table(["", *heads, "all day"], [["All airlines", *map(minutes, (*delays.by_block(), delays.overall()))]])


def hours_table(delays: Delays) -> str:
    """The heat map as figures."""
    overall = delays.by_airline()
    rows = [
        [airline, *(minutes(value) for value in hours), minutes(overall[airline])]
        for airline, hours in zip(delays.airlines(), delays.by_airline_and_hour().to_numpy(), strict=True)
    ]
    rows.append(["All airlines", *(minutes(value) for value in delays.by_hour()), minutes(delays.overall())])
    return table(["scheduled hour", *(str(hour) for hour in HOURS), "all day"], rows)


def weather_table(delays: Delays) -> str:
    """Each kind of weather and its bands."""
    rows = [
        [f"{kind}: {name}", minutes(value)]
        for kind, (column, bands) in WEATHER.items()
        for name, value in delays.by_weather(column, bands).items()
    ]
    return table(["", "minutes"], rows)


def audit_table(audits: list[Audit]) -> str:
    """Counts and checksums, file against lake."""
    rows = [
        [audit.topic, f"{audit.in_file:,}", f"{audit.in_lake:,}", audit.checksum_of_file, audit.checksum_of_lake]
        for audit in audits
    ]
    return table(["topic", "rows in the CSV", "rows in the lake", "checksum of the CSV", "of the lake"], rows)


def minutes(value: float) -> str:
    """One decimal, or nothing where there is no mean."""
    return "" if math.isnan(value) else f"{value:.1f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """An HTML table whose first column names the row."""
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
