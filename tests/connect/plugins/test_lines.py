"""Bytes cut into lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.plugins.lines import Lines


def test_positions_count_bytes_not_characters():
    lines = Lines()
    lines.feed("Grüße\nnoch".encode())
    assert lines.take(10) == [("Grüße".encode(), 8)]
    assert lines.position == 8


def test_a_line_without_its_end_waits_for_it():
    lines = Lines(100)
    lines.feed(b"one\ntw")
    assert lines.take(10) == [(b"one", 104)]
    lines.feed(b"o\n")
    assert lines.take(10) == [(b"two", 108)]


def test_a_carriage_return_at_the_end_waits_for_the_byte_behind_it():
    lines = Lines()
    lines.feed(b"one\r")
    assert lines.take(10) == []
    lines.feed(b"\ntwo\rthree\n")
    assert lines.take(10) == [(b"one", 5), (b"two", 9), (b"three", 15)]


def test_no_more_lines_are_taken_than_were_asked_for():
    lines = Lines()
    lines.feed(b"a\nb\nc\n")
    assert lines.take(2) == [(b"a", 2), (b"b", 4)]
    assert lines.take(2) == [(b"c", 6)]


@pytest.mark.parametrize("end", [b"", b"\r"])
def test_the_last_line_of_an_ended_file_is_handed_out_without_its_end(end):
    lines = Lines()
    lines.feed(b"last" + end)
    assert lines.rest() == [(b"last", 4 + len(end))]
    assert lines.rest() == []


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\xc3\xbc"])), st.integers(1, 3))
def test_pieces_of_any_size_give_the_same_lines(parts, size):
    content = b"".join(parts) + b"\n"
    whole, pieces = Lines(), Lines()
    whole.feed(content)
    found = []
    for start in range(0, len(content), size):
        pieces.feed(content[start : start + size])
        found += pieces.take(100)
    assert found == whole.take(1000)
    assert found[-1][1] == len(content)
