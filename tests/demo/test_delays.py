"""Mean delays are weighted by the number of departures, and left out if there were too few."""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path

import pandas as pd
import pytest

from ottla.demo import flights, page, picture, terminal
from ottla.demo.delays import FEWEST, RAIN, VISIBILITY, WIND, Delays
from ottla.demo.lake import Audit
from ottla.demo.running import FILE
from ottla.pipeline.reading import read_pipeline

COLUMNS = ["airline", "hour", "wind", "visibility", "rain", "flights", "departed", "minutes"]
RAN = page.Ran("demo", ("airlines", "flights"), 1_216, 9_000.4, 1_216, 7.6, 1_200, 4.0)
CALM = (WIND[0], VISIBILITY[0], RAIN[0])
STORM = (WIND[3], VISIBILITY[3], RAIN[3])


@pytest.fixture
def delays() -> Delays:
    rows = [
        ("Early Inc.", 6, *CALM, 110, 100, 0),
        ("Early Inc.", 20, *STORM, 100, 100, 3000),
        ("Late Co.", 6, *CALM, 200, 200, 1000),
        ("Late Co.", 20, *CALM, 100, 100, 5000),
        ("Late Co.", 7, *CALM, FEWEST, FEWEST - 1, 900),
    ]
    return Delays(pd.DataFrame(rows, columns=COLUMNS))


def test_a_mean_counts_each_departure_once(delays: Delays) -> None:
    assert delays.by_airline()["Early Inc."] == 15
    assert delays.between(6, 6) == pytest.approx(1000 / 300)
    assert delays.by_weather("wind", WIND)[WIND[3]] == 30


def test_airlines_go_from_the_least_to_the_most_late(delays: Delays) -> None:
    assert delays.airlines() == ["Early Inc.", "Late Co."]


def test_too_few_departures_have_no_mean(delays: Delays) -> None:
    assert math.isnan(delays.by_airline_and_hour().loc["Late Co.", 7])
    assert delays.by_airline_and_hour().loc["Late Co.", 6] == 5


def test_cancelled_flights_are_counted_but_have_no_minutes(delays: Delays) -> None:
    assert delays.cancelled() == 11


def test_the_finding_follows_the_figures(delays: Delays) -> None:
    assert "6.0 minutes late from 5 to 9 h, 40.0 from 17 to 21 h" in delays.finding()
    even = delays.answer.assign(minutes=delays.answer["departed"] * 10)
    assert "at all hours alike" in Delays(even).finding()


def test_the_picture_the_page_and_the_table_are_drawn_from_the_same_figures(delays: Delays, tmp_path: Path) -> None:
    png, html = tmp_path / "delays.png", tmp_path / "index.html"
    picture.draw(delays, png)
    page.write(delays, [Audit("flights", 5, 5, "a1", "a1")], RAN, png, html)
    assert png.read_bytes().startswith(b"\x89PNG")
    text = html.read_text()
    assert delays.finding() in text and "<td>40.0</td>" in text and "data:image/png;base64," in text
    assert "http://" not in text and "https://" not in text
    table = terminal.delays_table(delays)
    said = re.findall(r"\d+\.\d", delays.finding())
    assert len(said) == 2
    assert all(f"<td>{figure}</td>" in text and f" {figure} " in table for figure in said), "one number, everywhere"
    assert [line.split()[0] for line in table.splitlines()] == ["mean", "Early", "Late", "All"]
    assert "30.0" in table


def test_the_page_says_what_ran_and_how_fast() -> None:
    text = re.sub(r"\s+", " ", page.what_ran(RAN))
    assert "1,216 events to 2 topics (airlines, flights)" in text
    assert "9,000 records a second" in text
    assert "1,216 rows into the lake in 8 s" in text
    assert "joined 1,200 flights with weather and airlines in 4 s: 300 a second" in text


@pytest.mark.parametrize("command", [command for command, _ in page.NEXT])
def test_the_commands_on_the_page_are_those_that_the_program_has(command: str) -> None:
    words = command.format(topics="flights", folder="demo").split()
    reference = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md").read_text("utf-8")
    helps = dict(re.findall(r"^##+ (ottla [a-z ]+)\n\n```\n(.*?)```", reference, re.MULTILINE | re.DOTALL))
    known = max((name for name in helps if f"{' '.join(words)} ".startswith(f"{name} ")), key=len)
    assert all(word in helps[known] for word in words if word.startswith("--"))
    assert len(known.split()) > 1


def test_the_page_shows_the_pipeline_that_ran_and_that_file_can_work(delays: Delays, tmp_path: Path) -> None:
    pipeline, flows, findings = read_pipeline(FILE)
    assert not findings
    assert [part.label for part in pipeline.parts if part.after] == ["program delays", "lake months"]
    assert set(flows["lakes", "months"].reads) == set(flights.SCHEMAS)
    html, png = tmp_path / "index.html", tmp_path / "delays.png"
    png.write_bytes(b"")
    page.write(delays, [], RAN, png, html)
    assert all(escape(line) in html.read_text() for line in FILE.read_text().splitlines())


def test_a_wide_table_scrolls_by_itself_on_a_phone() -> None:
    made = page.table(["", "a"], [["b", "c"]])
    assert made.startswith('<div class="wide"><table>') and made.endswith("</table></div>")
    assert ".wide { overflow-x: auto; }" in page.STYLE
