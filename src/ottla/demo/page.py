"""The page: the picture, its figures as a table and where they come from, in one file. Comes from picture.py."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ottla.demo.delays import BLOCKS, HOURS, WEATHER, Delays
from ottla.demo.flights import SOURCE
from ottla.demo.lake import Audit
from ottla.demo.running import FILE

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin-top: 2rem; }
p, li { color: #444; } figure { margin: 1.5rem 0; } img { width: 100%; min-width: 44rem; height: auto; }
.wide { overflow-x: auto; } code, pre { font: 0.9rem/1.6 ui-monospace, monospace; color: #222; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f3f5f7; border-radius: 6px; padding: 0.7rem 1rem; }
li code { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0; } tr { background: #fff; }
th, td { padding: 0.2rem 0.45rem; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: inherit; }
tbody tr:nth-child(odd) { background: #f6f6f6; }
"""
NEXT = (
    ("ottla pipeline graph {folder}/flights.yaml", "the pipeline as a picture of arrows"),
    ("ottla pipeline run {folder}/flights.yaml", "the same again: no event is sent or loaded twice"),
    ("ottla start --data {folder}/broker", "the broker, with its topics; the rest in another terminal"),
    ("ottla topic list", "the topics"),
    ("ottla consume flights --from-beginning --count 3", "the first flights of the year"),
    ("ottla lake status --to {folder}/lake", "what the lake holds of each topic"),
    ("ottla lake picture --to {folder}/lake --out {folder}/lake.html", "the same as a page"),
    ("ottla doctor", "what a client sees of the broker"),
)
"""Commands to type after the demo, and what each shows."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The work that the demo did, and its speed."""

    folder: str
    topics: tuple[str, ...]
    events: int
    events_per_second: float
    loaded_rows: int
    load_s: float
    streamed_rows: int
    query_s: float


def write(delays: Delays, audits: list[Audit], ran: Ran, picture: Path, page: Path) -> None:
    """Write the HTML file; it needs nothing beside it."""
    image = base64.b64encode(picture.read_bytes()).decode("ascii")
    title = escape(delays.finding())
    page.write_text(
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>Departures from New York, 2013</h1>
<p>{int(delays.answer["flights"].sum()):,} scheduled departures from New York's three airports in 2013 went through
topics into a Parquet lake, and Spark joined them with airlines and weather as they came.</p>
<figure class="wide"><img alt="Heat map of mean departure delay by airline and scheduled hour. {title}."
src="data:image/png;base64,{image}"></figure>
<h2>What ran</h2>
{what_ran(ran)}
<h2>The whole pipeline</h2>
<p><code>ottla pipeline run {escape(ran.folder)}/{escape(FILE.name)}</code> ran this file. Each
part is a process, and is begun again if it fails.</p>
<pre>{escape(FILE.read_text(encoding="utf-8").strip())}</pre>
<h2>What to type next</h2>
<p>Everything is kept. In the folder in which the demo ran, after <code>. .venv/bin/activate</code>:</p>
{what_next(ran)}
<h2>Mean departure delay, minutes</h2>
{blocks_table(delays)}
{hours_table(delays)}
<h2>By weather in the hour of departure</h2>
{weather_table(delays)}
<h2>Every row is in the lake</h2>
{audit_table(audits)}
<p>Source: {escape(SOURCE)}. {delays.cancelled():,} flights that never departed have no delay and are left out of the
means; early departures count as negative; a mean of fewer than 20 departures is not shown.</p>
</body></html>
""",
        encoding="utf-8",
    )


def what_ran(ran: Ran) -> str:
    """The three steps with their speeds."""
    topics = ", ".join(ran.topics)
    return f"""<ul>
<li>A producer wrote {ran.events:,} events to {len(ran.topics)} topics ({escape(topics)}), each acknowledged when it was
on disk: {ran.events_per_second:,.0f} records a second.</li>
<li>A load put {ran.loaded_rows:,} rows into the lake in {ran.load_s:.0f} s.</li>
<li>Beside it a streaming query joined {ran.streamed_rows:,} flights with weather and airlines in {ran.query_s:.0f} s:
{ran.streamed_rows / max(ran.query_s, 0.001):,.0f} a second.</li>
</ul>"""


def what_next(ran: Ran) -> str:
    """Commands that go on from here."""
    commands = [(command.format(folder=ran.folder), told) for command, told in NEXT]
    lines = "\n".join(f"# {told}\n{command}" for command, told in commands)
    return f"<pre>{escape(lines)}</pre>"


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
    return f'<div class="wide"><table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>'
