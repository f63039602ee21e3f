"""The offsets that were sent back, beside a plain set."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.jobs.done import MOST_METADATA, Done, ForeignPosition, read_done

ID = bytes(range(16))


@given(st.integers(0, 50), st.lists(st.tuples(st.integers(0, 120), st.integers(0, 9))))
def test_offsets_are_those_of_a_set_also_after_they_were_committed(begin: int, spans: list[tuple[int, int]]) -> None:
    done, expected = Done(begin), set(range(begin))
    for first, more in spans:
        done.add(first, first + more)
        expected |= set(range(first, first + more + 1))
    read = read_done(done.through, done.metadata(ID), ID)
    assert read is not None
    for each in (done, read):
        assert {offset for offset in range(200) if offset in each} == expected
        assert each.through not in each
        assert each.through == min(set(range(201)) - expected)


def test_every_second_of_a_million_letters_fits_beside_an_offset() -> None:
    bits = int.from_bytes(b"\xaa" * 125_000, "little")
    assert len(Done(0, bits).metadata(ID)) < MOST_METADATA


def test_twenty_thousand_letters_chosen_at_random_fit_beside_an_offset() -> None:
    assert len(Done(0, random.Random(1).getrandbits(20_000) & ~1).metadata(ID)) < MOST_METADATA


def test_a_topic_that_was_made_anew_has_no_letters_sent() -> None:
    assert read_done(7, Done(7).metadata(ID), bytes(16)) is None


def test_a_position_of_another_program_is_refused() -> None:
    for metadata in ("", "something", Done(3, 6).metadata(ID)[:-3]):
        with pytest.raises(ForeignPosition):
            read_done(3, metadata, ID)
