"""Rounds over many ids, in parts, which pause while the wall clock is in doubt (rule B9)."""

from __future__ import annotations

from ottla.kernel.retention import ExpiryRounds

RETENTION_MS = 1000


def rounds(most: int = 2) -> ExpiryRounds:
    begun = ExpiryRounds(most)
    begun.begin(0, 0)
    return begun


def test_a_round_goes_over_the_ids_that_there_were_at_its_beginning_in_parts():
    looking, ids = rounds(), ["a", "b", "c"]
    assert looking.next_part(ids, 1, 1, RETENTION_MS) == ["a", "b"]
    assert looking.is_under_way
    assert looking.next_part(["d"], 2, 2, RETENTION_MS) == ["c"]
    assert not looking.is_under_way
    assert looking.next_part(["d"], 3, 3, RETENTION_MS) == ["d"]


def test_no_round_begins_while_the_wall_clock_is_ahead_and_one_under_way_ends():
    looking = rounds()
    assert looking.next_part("abc", 1, 1, RETENTION_MS) == ["a", "b"]
    assert looking.next_part("abc", 502, 2, RETENTION_MS) == ["c"]
    assert looking.next_part("abc", 503, 3, RETENTION_MS) == []
    assert not looking.is_under_way
    assert looking.next_part("abc", 1100, 600, RETENTION_MS) == ["a", "b"], "the jump has passed"
