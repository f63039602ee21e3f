"""The exact map of offsets, against the truth, and MirrorMaker 2's rule for telling of them."""

from __future__ import annotations

import random

from ottla.mirror.offset_map import CHUNK, OffsetMap, SyncRule


def test_any_offset_is_translated_to_the_next_record_that_was_copied_for_1000_random_logs() -> None:
    dice = random.Random(35)
    for _ in range(1_000):
        known, copied, upstream, downstream = OffsetMap(), {}, dice.randrange(5), dice.randrange(5)
        first = upstream
        for _ in range(dice.randrange(1, 12)):
            count = dice.randrange(1, 6)
            known.add(upstream, downstream, count)
            copied |= {upstream + each: downstream + each for each in range(count)}
            upstream, downstream = upstream + count, downstream + count
            upstream += dice.choice((0, 0, 1, 3))
        for offset in range(first, max(copied) + 1):
            following = min(each for each in copied if each >= offset)
            if following == offset or copied[following] == copied.get(following - 1, -1) + 1:
                assert known.translate(offset) == copied[following]
            assert (known.translate(offset) or 0) <= copied[following]
        assert known.translate(max(copied) + 1) == max(copied.values()) + 1
        assert known.translate(max(copied) + 100) == max(copied.values()) + 1


def test_a_group_below_the_first_record_copied_is_not_translated() -> None:
    known = OffsetMap()
    known.add(100, 0, 10)
    assert known.translate(99) is None
    assert known.translate(100) == 0


def test_records_of_others_in_the_mirror_never_bring_a_group_past_its_own() -> None:
    known = OffsetMap()
    known.add(0, 0, 10)
    known.add(10, 15, 10)  # five records of somebody else lie between
    assert [known.translate(offset) for offset in (9, 10, 12)] == [9, 15, 17]
    known.add(25, 40, 5)  # left out at the source: 20 to 24
    assert known.translate(22) in range(25, 41)


def test_a_log_without_gaps_has_one_break_and_each_gap_adds_one() -> None:
    known = OffsetMap()
    assert known.add(0, 0, 76)
    assert not known.add(76, 76, 76)
    assert known.add(153, 152, 10)
    assert len(known) == 2


def test_breaks_of_records_that_the_source_has_deleted_are_dropped_by_chunks_and_the_rest_translates_on() -> None:
    known = OffsetMap()
    for number in range(3 * CHUNK):
        known.add(3 * number, 2 * number, 2)
    truth = [known.translate(offset) for offset in range(9 * CHUNK)]
    known.forget_below(3 * 2 * CHUNK + 1)
    assert (known.dropped, len(known)) == (2 * CHUNK, 3 * CHUNK)
    assert known.translate(6 * CHUNK - 1) is None
    assert [known.translate(offset) for offset in range(6 * CHUNK, 9 * CHUNK)] == truth[6 * CHUNK :]
    again = OffsetMap(upstream_end=known.upstream_end, downstream_end=known.downstream_end, dropped=known.dropped)
    again.take_chunk(known.chunk(2), 3 * CHUNK)
    assert again.translate(8 * CHUNK) == truth[8 * CHUNK]


def test_offsets_are_told_of_first_after_gaps_and_as_often_as_the_lag_allows() -> None:
    rule = SyncRule(100)
    assert rule.copied(0, 0, 50) == [(0, 0)]
    assert rule.copied(50, 50, 50) == []
    assert rule.copied(100, 100, 50) == [(149, 149)]
    assert rule.copied(151, 150, 10) == [(151, 150)]
    assert rule.copied(161, 160, 1) == []
    assert rule.copied(162, 3, 1) == [(162, 3)]


def test_every_batch_is_told_of_where_no_lag_is_allowed() -> None:
    rule = SyncRule(0)
    assert [rule.copied(at, at, 1) for at in range(3)] == [[(0, 0)], [(1, 1)], [(2, 2)]]
