"""Rounds over many ids, in parts."""

from __future__ import annotations

from ottla.kernel.retention import ExpiryRounds


def test_a_round_goes_over_the_ids_that_there_were_at_its_beginning_in_parts():
    looking, ids = ExpiryRounds(2), ["a", "b", "c"]
    assert looking.next_part(ids) == ["a", "b"]
    assert looking.is_under_way
    assert looking.next_part(["d"]) == ["c"]
    assert not looking.is_under_way
    assert looking.next_part(["d"]) == ["d"]
