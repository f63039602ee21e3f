"""Headers of dead letters, written and read, and conditions on them."""

from __future__ import annotations

import pytest

from ottla.jobs.letter_filter import Condition, WrongCondition, condition
from ottla.jobs.letters import (
    REDRIVEN,
    Cause,
    DeadLetter,
    Style,
    UnreadableLetter,
    error_headers,
    lost_parts,
    read_letter,
    redriven_headers,
)

OWN = [("trace-id", b"77"), ("empty", None)]
OURS = Cause(topic="orders", partition=2, offset=41, reason="'x1' is no number")
CONNECTS = Cause(
    topic="orders", partition=2, offset=41, reason="Unknown magic byte!", connector="files", task=0,
    stage="VALUE_CONVERTER", at_class="org.apache.kafka.connect.json.JsonConverter",
    exception="org.apache.kafka.connect.errors.DataException", trace="…",
)  # fmt: skip


def test_headers_of_either_style_are_read_back_and_taken_off() -> None:
    for cause, style in ((OURS, Style.OTTLA), (CONNECTS, Style.CONNECT)):
        letter = read_letter([*OWN, *error_headers(cause, style)])
        assert letter == DeadLetter(cause, tuple(OWN))


def test_a_reason_that_is_not_unicode_is_written_all_the_same() -> None:
    for style in Style:
        assert read_letter(error_headers(Cause("t", 0, 1, "\ud800 is no text"), style)).cause.reason == "? is no text"


def test_connect_writes_ten_headers_and_an_unknown_one_as_null() -> None:
    headers = dict(error_headers(Cause(topic="t", partition=0, offset=7), Style.CONNECT))
    assert len(headers) == 10
    assert headers["__connect.errors.offset"] == b"7"
    assert headers["__connect.errors.exception.stacktrace"] is None


def test_a_record_that_is_refused_again_has_its_last_cause_and_counts_how_often_it_was_sent_back() -> None:
    first = read_letter([*OWN, *error_headers(OURS, Style.OTTLA)])
    again = [*redriven_headers(first), *error_headers(Cause("orders", 0, 99, "no such day"), Style.OTTLA)]
    second = read_letter(again)
    assert (second.redriven, second.cause.offset, second.headers) == (1, 99, tuple(OWN))
    assert redriven_headers(second)[-1] == (REDRIVEN, b"2")


def test_a_record_without_error_headers_has_no_origin() -> None:
    assert read_letter(OWN).origin is None


def test_a_letter_that_is_not_whole_says_so() -> None:
    lost = lost_parts(b"key", b"v" * 100, 10, headers=2)
    assert lost == [("ottla.value.bytes", b"100"), ("ottla.headers", b"2")]
    assert read_letter([*error_headers(OURS, Style.OTTLA), *lost]).shortened
    assert not lost_parts(b"k", None, 10, headers=0)


def test_an_offset_that_is_no_number_is_not_guessed() -> None:
    with pytest.raises(UnreadableLetter, match=r"ottla\.offset"):
        read_letter([("ottla.topic", b"t"), ("ottla.offset", b"4x")])


def test_reasons_that_differ_in_values_alone_are_of_one_kind() -> None:
    first, second = Cause(reason="field 'a' is 12, not a day"), Cause(reason="field 'b' is 3, not a day")
    assert first.kind == second.kind == "field '…' is N, not a day"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("topic=orders", True),
        ("topic = payments, orders", True),
        ("topic!=orders", False),
        ("partition=0,2", True),
        ("offset>=41", True),
        ("offset<41", False),
        ("offset!=40", True),
        ("reason~MAGIC", True),
        ("reason!~magic", False),
        ("reason=Unknown magic byte!", True),
        ("stage=VALUE_CONVERTER", True),
        ("exception~DataException", True),
        ("connector=files", True),
        ("task=0", True),
        ("redriven<1", True),
        ("time>=-1h", True),
        ("time<2026-01-01T00:00Z", False),
    ],
)
def test_conditions_choose_letters(text: str, holds: bool) -> None:
    now_ms = 1_800_000_000_000
    assert condition(text, now_ms).holds(DeadLetter(CONNECTS, ()), now_ms - 60_000) is holds


def test_a_letter_without_the_value_passes_only_what_is_negated() -> None:
    nowhere = DeadLetter(Cause(), ())
    for text, holds in (("offset<9", False), ("offset=0", False), ("stage!=X", True), ("reason!~x", True)):
        assert condition(text, 0).holds(nowhere, 0) is holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("orders", "write NAME=VALUE"),
        ("topik=orders", "did you mean topic"),
        ("topic>orders", "is text"),
        ("offset~4", "is a number"),
        ("offset=4x", "not a number"),
        ("time>=soon", "yesterday"),
        ("topic=", "lacks a value"),
    ],
)
def test_a_condition_that_is_not_understood_is_refused_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(WrongCondition, match=says):
        condition(text, 0)


def test_the_time_of_a_letter_is_that_of_its_record() -> None:
    dated = DeadLetter(Cause(timestamp=5), ())
    assert Condition("time", "=", (5,)).holds(dated, 1_000)
