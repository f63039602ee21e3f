"""Lists, courses of numbers, pictures, addresses and parameters: the small pure parts of pages."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.console.records import batch

from ottla.console.change import assignments
from ottla.console.lag_times import age_shown, time_at
from ottla.console.lists import listing
from ottla.console.samples import KEPT, Samples
from ottla.console.schemas import side_by_side
from ottla.console.sparkline import shown, size_shown, sparkline
from ottla.console.urls import url
from ottla.console.view import PageQuery, View
from ottla.web.exchange import HttpError

ROWS = [{"name": f"t{at:03}", "rate": None if at == 5 else float(at % 7)} for at in range(120)]


def test_a_list_is_filtered_sorted_and_cut_here() -> None:
    found = listing(ROWS, PageQuery({"q": "T0", "sort": "-rate", "page": "2"}), ("name", "rate"))
    assert (found.total, found.found, found.pages, len(found.rows)) == (120, 100, 2, 50)
    assert found.rows[-1]["name"] == "t005", "a row without a value comes last, whatever the order"
    first = listing(ROWS, PageQuery({"sort": "-rate"}), ("name", "rate")).rows
    assert [row["name"] for row in first[:3]] == ["t006", "t013", "t020"]


@pytest.mark.parametrize("given", [{"sort": "rat"}, {"page": "0"}, {"page": "4"}, {"page": "x"}])
def test_a_list_refuses_what_there_is_not(given: dict[str, str]) -> None:
    with pytest.raises(HttpError) as refusal:
        listing(ROWS, PageQuery(given), ("name", "rate"))
    assert refusal.value.status == 400


def test_two_looks_make_a_rate_and_a_new_topic_has_none_yet() -> None:
    samples = Samples()
    samples.look(1_000, {"a": 10, "b": 5}, {"g": 3})
    assert samples.topic_rates == {}
    samples.look(3_000, {"a": 30, "b": 2, "c": 9}, {"g": 1})
    assert samples.topic_rates == {"a": 10.0}, "b was made anew, c is new"
    assert samples.courses.of("lag") == [3.0, 1.0]
    assert samples.courses.of("group:g") == [3.0, 1.0]
    samples.look(4_000, {"c": 9}, {})
    assert samples.courses.of("topic:a") == []
    assert samples.courses.of("group:g") == []


def test_a_course_keeps_an_hour() -> None:
    samples = Samples()
    for at in range(KEPT + 50):
        samples.look(1_000 + at * 5_000, {"a": at}, {})
    assert len(samples.courses.of("records", 10_000)) == KEPT


def test_a_sparkline_is_a_picture_with_words() -> None:
    picture = ElementTree.fromstring(sparkline([0, 5, 10], 'lag of "<a>"'))
    assert picture.attrib["aria-label"] == 'lag of "<a>": 10 now, at most 10'
    points = [pair.split(",") for pair in picture[1].attrib["points"].split()]
    assert [float(y) for _, y in points] == [30.0, 16.0, 2.0], "greater values are higher"
    assert "not measured yet" in ElementTree.fromstring(sparkline([], "lag")).attrib["aria-label"]
    assert len(ElementTree.fromstring(sparkline([0, 0], "lag"))) == 2


def test_numbers_are_for_people() -> None:
    assert [shown(each) for each in (None, 0, 0.25, 1234, 56_700, 8_900_000)] == [
        "?",
        "0",
        "0.2",
        "1,234",
        "56.7 k",
        "8.9 M",
    ]
    assert [size_shown(each) for each in (None, 512, 1536, 3 << 30)] == ["?", "512 B", "1.5 KiB", "3.0 GiB"]


def test_an_address_holds_any_name() -> None:
    assert url("group", name="../a b&c=ü") == "/group?name=..%2Fa+b%26c%3D%C3%BC"
    assert url("topics", q="", page=None) == "/topics"


def test_large_numbers_are_text_in_json_and_hidden_fields_stay_out() -> None:
    assert View("", "", {"a": 2**53 + 1, "b": [True, 3], "c": {"d": (2**60,)}}).plain() == {
        "a": str(2**53 + 1), "b": [True, 3], "c": {"d": [str(2**60)]},
    }  # fmt: skip


def test_lines_of_assignments_are_read_and_a_wrong_one_is_named() -> None:
    assert assignments(" retention.ms = 7d\n\nx=a=b") == {"retention.ms": "7d", "x": "a=b"}
    for text in ("retention.ms", "=1", "a=1\na=2"):
        with pytest.raises(HttpError):
            assignments(text)


def test_versions_stand_side_by_side() -> None:
    assert side_by_side("a\nb\nc", "a\nB\nB2\nc\nd") == [
        ("same", "a", "a"), ("changed", "b", "B"), ("changed", "", "B2"), ("same", "c", "c"), ("new", "", "d"),
    ]  # fmt: skip
    assert side_by_side("a\nb", "b") == [("gone", "a", ""), ("same", "b", "b")]


def test_the_time_of_an_offset_is_that_of_the_first_record_from_it_on() -> None:
    view = batch([(None, b"a", ()), (None, b"b", ()), (None, b"c", ())]).view
    assert [time_at(view, offset) for offset in (0, 2, 3)] == [1_000, 1_002, None]
    torn = bytearray(view)
    torn[-1] = 255
    assert time_at(memoryview(torn), 0) is None, "a record that cannot be read has no time"


def test_an_age_is_told_in_its_two_largest_units() -> None:
    shown_ages = [age_shown(ms) for ms in (None, 999, 61_000, 3_600_000, 90_061_000)]
    assert shown_ages == ["?", "0 s", "1 min 1 s", "1 h 0 min", "1 d 1 h"]
