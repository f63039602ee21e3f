"""Syslog messages and frames, by the examples of their RFCs."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from ottla.connect.plugins.syslog.framing import BadFrame, Frames
from ottla.connect.plugins.syslog.message import parsed, timestamp_ms

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def read(text, now=NOW, **more):
    return parsed(text if isinstance(text, bytes) else text.encode(), now=now, **more)


def test_the_first_example_of_rfc_5424():
    found = read("<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed")
    assert found == {
        "format": "rfc5424", "facility": "auth", "severity": "crit", "priority": 34,
        "timestamp": "2003-10-11T22:14:15.003000+00:00", "host": "mymachine.example.com", "app": "su",
        "message_id": "ID47", "message": "'su root' failed",
    }  # fmt: skip
    assert timestamp_ms(found) == 1065910455003


def test_structured_data_with_escapes_and_no_message():
    found = read(
        '<165>1 2003-10-11T22:14:15.003Z h evntslog - ID47 [exampleSDID@32473 iut="3" event="App\\"l\\]"][p x="1"]'
    )
    assert found["structured"] == {"exampleSDID@32473": {"iut": "3", "event": 'App"l]'}, "p": {"x": "1"}}
    assert found["message"] == ""


def test_the_first_example_of_rfc_3164_is_of_the_year_before_as_it_would_lie_ahead():
    found = read("<34>Oct 11 22:14:15 mymachine su: 'su root' failed on /dev/pts/8")
    assert (found["format"], found["timestamp"]) == ("rfc3164", "2025-10-11T22:14:15+00:00")
    assert (found["host"], found["app"], found["message"]) == ("mymachine", "su", "'su root' failed on /dev/pts/8")


def test_new_years_eve_is_of_the_year_before_and_a_zone_counts():
    found = read("<13>Dec 31 23:59:59 h sshd[42]: bye", zone=ZoneInfo("Europe/Berlin"))
    assert (found["timestamp"], found["process"]) == ("2025-12-31T23:59:59+01:00", "42")


@pytest.mark.parametrize(
    "text",
    [
        "plain text", "<192>1 - - - - - - x", "<13>no time at all", "<13>Feb 30 00:00:00 h a: b",
        "<34>1 2003-10-11T22:14:15 h a - - - no zone", '<34>1 - h a - - [x y="1" broken',
    ],
)  # fmt: skip
def test_text_of_neither_form_is_kept_as_it_came(text):
    assert read(text) == {"format": "raw", "message": text}


def test_bytes_that_are_no_text_stay_visible():
    assert read(b"<13>1 - - - - - - a\xffb\n")["message"] == "a\\xffb"


def cut(*pieces, most=100):
    frames = Frames(most)
    found = [frame for piece in pieces for frame in frames.feed(piece)]
    return [*found, *frames.end()]


def test_frames_are_cut_by_octets_and_by_newlines_wherever_the_pieces_end():
    stream = b"11 <1>with\nline<2>one\n<3>two\n5 <4>ab<5>last"
    for size in range(1, len(stream)):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert cut(*pieces) == [b"<1>with\nlin", b"e<2>one", b"<3>two", b"<4>ab", b"<5>last"]


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (b"101 x", "more than max.message.bytes=100"), (b"<1>" + b"x" * 100, "more than max.message.bytes=100"),
        (b"12345678901 ", "neither with < nor with its length"), (b"1x <", "neither"), (b"9 <1>", "inside a message"),
    ],
)  # fmt: skip
def test_a_stream_that_is_no_syslog_is_refused(stream, sentence):
    with pytest.raises(BadFrame, match=sentence):
        cut(stream)
