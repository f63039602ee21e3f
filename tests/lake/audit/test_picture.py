"""The picture of a lake's completeness."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.lake.audit.grid import MOST_LINES, LakeFacts, grids
from ottla.lake.audit.picture import page, shade
from ottla.lake.columns.windows import WINDOW_US, Tally
from ottla.lake.commands.load import command
from ottla.lake.notes.history import Forgotten, History
from ottla.lake.notes.plans import Commit
from ottla.lake.reports.periods import Periods
from ottla.lake.reports.status import TopicStatus
from ottla.lake.reports.tiers import Compared, Judgement
from ottla.records.reader import Record

DAY = 144
DAY_US = DAY * WINDOW_US
MISSING = Compared("producer", "t", DAY, 9, 4, Judgement.MISSING)


class Cells(HTMLParser):
    """The cells of a page by their titles, and every address in it."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.addresses, self.open = {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        if tag == "td" and "title" in given:
            self.cells[given["title"]] = set(given["class"].split())
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def seen(tally, through=None, compared=(), topic="t"):
    status = TopicStatus(topic, sum(tally.rows), 1, None, 0, sum(tally.dead), None)
    history = History(Commit(), Forgotten(windows={topic: tally}), ())
    return LakeFacts(history, (status,), {topic: through}, compared)


def drawn(*arguments, unit="day", **rest):
    return Cells(page("lake", "now", grids(seen(*arguments, **rest), Periods(unit, "UTC"))))


def test_a_cell_says_whether_its_day_is_complete_and_what_is_wrong_with_it():
    tally = Tally((0, DAY, 2 * DAY), (100, 4, 1), (0, 2, 0), (0, 0, 0))
    assert drawn(tally, 2 * DAY_US, (MISSING,)).cells == {
        "1970-01-01: 100 rows, complete": {"s5"},
        "1970-01-02: 4 rows, 2 dead, 5 missing, not complete": {"s1", "dead", "missing"},
        "1970-01-03: 1 rows, not complete": {"s1", "open"},
    }


def test_a_day_of_which_the_lake_has_nothing_is_shown_where_producers_counted():
    assert drawn(Tally(), 9 * DAY_US, (MISSING,)).cells == {
        "1970-01-02: 0 rows, 5 missing, not complete": {"s0", "missing"}
    }


@given(
    st.dictionaries(st.integers(0, 10**6), st.integers(1, 99), min_size=1, max_size=30),
    st.sampled_from(["month", "day", "hour"]),
)
def test_every_row_is_in_one_cell_or_in_a_line_that_is_left_out(counts, unit):
    windows = tuple(sorted(counts))
    tally = Tally(windows, tuple(counts[each] for each in windows), (0,) * len(windows), (0,) * len(windows))
    (grid,) = grids(seen(tally), Periods(unit, "UTC"))
    assert len(grid.lines) <= MOST_LINES
    assert all(len(line.cells) == len(grid.columns) for line in grid.lines)
    shown = sum(cell.rows for line in grid.lines for cell in line.cells if cell is not None)
    assert shown == sum(counts.values()) if not grid.left_out else shown < sum(counts.values())


def test_wild_times_make_no_endless_page():
    windows = tuple(range(0, 100 * 30 * DAY, 30 * DAY))
    (grid,) = grids(seen(Tally(windows, (1,) * 100, (0,) * 100, (0,) * 100)), Periods("day", "UTC"))
    assert len(grid.lines) == MOST_LINES and grid.left_out > 0
    assert grid.lines[-1].name == "1978-02"


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_rows_are_never_paler(one, other):
    few, many = sorted((one, other))
    assert shade(few, 10**9) <= shade(many, 10**9) <= 5
    assert (shade(few, 10**9) == 0) == (few == 0)


def test_the_page_needs_nothing_else_and_names_are_no_markup():
    text = page("<lake>", "now", grids(seen(Tally((0,), (1,), (0,), (0,)), topic="a<b>&"), Periods("day", "UTC")))
    found = Cells(text)
    assert found.addresses == [] and "url(" not in text and "@import" not in text
    assert "a&lt;b&gt;&amp;" in text and "<lake>" not in text
    assert found.open == ["html"][1:] and "prefers-color-scheme: dark" in text


def test_every_colour_of_the_light_page_has_one_for_the_dark():
    text = page("lake", "now", [])
    dark_block = re.compile(r"@media \(prefers-color-scheme: dark\) \{ :root \{([^}]*)\} \}")
    dark = set(re.findall(r"(--\w+):", " ".join(dark_block.findall(text))))
    light = set(re.findall(r"(--\w+):", dark_block.sub("", text)))
    assert light == dark and light


@pytest.mark.slow
def test_the_picture_of_a_lake_that_was_loaded(load, topics, bootstrap, tmp_path, capsys):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, day * 86_400_000, None, b"v") for day in (1, 1, 2)])
    load(topic)
    out = tmp_path / "lake.html"
    assert command(["picture", "--to", str(tmp_path / "lake"), "--out", str(out)]) == 0
    assert ": 1 topic\n" in capsys.readouterr().out
    alone = Cells(out.read_text("utf-8")).cells
    assert alone == {"1970-01-02: 2 rows, complete": {"s5"}, "1970-01-03: 1 rows, not complete": {"s4", "open"}}
    assert command(["picture", "--to", str(tmp_path / "lake"), "--out", str(out), "-b", bootstrap, "--by", "hour"]) == 0
    asked = Cells(out.read_text("utf-8")).cells
    assert sorted(asked) == ["1970-01-02 00:00: 2 rows, complete", "1970-01-03 00:00: 1 rows, complete"]
