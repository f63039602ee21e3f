"""Letters that a topic does not take whole say what they lack, so that nobody sends them back as records."""

from __future__ import annotations

from ottla.jobs.letters import Cause, Style, error_headers, read_letter
from ottla.lake.rounds.dead_letters import _dated, _shortened

HEADERS = [("own", b"x" * 900), *error_headers(Cause("orders", 0, 7, "no number"), Style.OTTLA)]


def test_a_letter_without_its_own_headers_or_the_end_of_its_value_is_marked() -> None:
    for value, most in ((b"v", 10), (b"v" * 20, 10)):
        _, _, left, headers = _shortened((0, b"k", value, HEADERS), most)
        letter = read_letter(headers)
        assert (left, letter.headers, letter.shortened) == (value[:most], (), True)
        assert letter.cause.offset == 7


def test_a_letter_that_lacks_nothing_is_not_marked() -> None:
    timestamp, _, _, headers = _dated(_shortened((5, None, b"v", HEADERS[1:]), 10))
    letter = read_letter(headers)
    assert (letter.shortened, letter.cause.timestamp, timestamp > 5) == (False, 5, True)
