"""From the broker to the lake: ranges are contiguous, counts add up, and rows are there."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.lake.audit.proof import cluster_agrees, counts_agree, ranges_follow, rows_are_there
from ottla.lake.audit.upkeep import PartitionWhere
from ottla.lake.notes.history import Forgotten, History
from ottla.lake.notes.plans import Commit, LoadPlan, Publication, RangeCount
from ottla.lake.reports.status import Ends
from ottla.rows.plan import OffsetRange

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ID, OTHER = TopicId(b"0123456789abcdef"), TopicId(b"fedcba9876543210")


def a_round(number, *ranges, lost=None):
    spans = tuple(OffsetRange("a", partition, first, last, ID) for partition, first, last in ranges)
    counts = tuple(RangeCount(span, span.size, span.size) for span in spans)
    return Publication(LoadPlan(number, spans, lost or {}), (), (), counts)


def a_history(*rounds, forgotten=0):
    commit = Commit()
    for each in rounds[:forgotten]:
        commit = commit.after(each)
    known = Forgotten(commit)
    for each in rounds[forgotten:]:
        commit = commit.after(each)
    return History(commit, known, rounds[forgotten:])


def wrong(history):
    return ranges_follow(history, ["a"]).wrong + counts_agree(history, ["a"]).wrong


STEPS = st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 50), min_size=1), min_size=1, max_size=8)


def rounds_of(steps):
    ends, rounds = {}, []
    for number, sizes in enumerate(steps):
        ranges = []
        for partition, size in sizes.items():
            begin = ends.get(partition, 7)
            ends[partition] = begin + size
            ranges.append((partition, begin, begin + size))
        rounds.append(a_round(number, *ranges))
    return rounds


@given(STEPS, st.integers(0, 8))
def test_rounds_that_follow_one_another_prove_a_lake(steps, forgotten):
    history = a_history(*rounds_of(steps), forgotten=forgotten)
    assert wrong(history) == [] and ranges_follow(history, ["a"]).unknown == []


@given(STEPS, st.data())
def test_any_range_moved_by_one_is_found(steps, data):
    rounds = rounds_of(steps)
    round_ = data.draw(st.integers(0, len(rounds) - 1))
    place = data.draw(st.integers(0, len(rounds[round_].plan.ranges) - 1))
    by = data.draw(st.sampled_from([-1, 1]))
    publication, whole = rounds[round_], a_history(*rounds)
    spans = list(publication.plan.ranges)
    spans[place] = replace(spans[place], end=spans[place].end + by)
    rounds[round_] = replace(publication, plan=replace(publication.plan, ranges=tuple(spans)))
    assert ranges_follow(replace(whole, rounds=tuple(rounds)), ["a"]).wrong


def test_a_gap_and_an_overlap_are_named():
    history = a_history(a_round(0, (0, 0, 5)), a_round(1, (0, 7, 9)), a_round(2, (0, 8, 12)))
    assert wrong(history) == ["a-0: offsets 5-7 are missing before round 1", "a-0: offsets 8-9 came again in round 2"]


def test_what_retention_took_is_missing():
    history = a_history(a_round(0, (0, 0, 5)), a_round(1, (0, 7, 9), lost={A0: 2}))
    assert wrong(history) == ["a-0: retention took 2 offsets before round 1 could load them"]


def test_what_retention_took_of_a_partition_that_was_added_is_missing():
    history = a_history(a_round(0, (0, 0, 5)), a_round(1, (1, 4, 9), lost={A1: 4}))
    assert wrong(history) == ["a-1: retention took 4 offsets before round 1 could load them"]


def test_what_retention_took_is_missing_also_once_its_round_is_forgotten():
    rounds = [a_round(0, (0, 0, 5)), a_round(1, (0, 7, 9), lost={A0: 2}), a_round(2, (0, 9, 12))]
    history = a_history(*rounds)
    forgotten = Forgotten().and_also(rounds[:2], Commit().after(rounds[0]).after(rounds[1]))
    stored = Forgotten.from_json(json.loads(json.dumps(forgotten.to_json())))
    assert stored == forgotten
    later = replace(history, forgotten=stored, rounds=tuple(rounds[2:]))
    assert wrong(later) == ["a-0: retention took 2 offsets before they could be loaded"]


def test_a_round_that_is_missing_is_named():
    rounds = [a_round(0, (0, 0, 5)), a_round(1, (0, 5, 9)), a_round(2, (1, 0, 3))]
    whole = a_history(*rounds)
    assert "round 1 is missing" in wrong(replace(whole, rounds=(rounds[0], rounds[2])))
    assert "round 2 is missing" in wrong(replace(whole, rounds=tuple(rounds[:2])))


def test_rounds_forgotten_before_their_sum_was_kept_cannot_be_proved():
    rounds = [a_round(number, (0, 5 * number, 5 * number + 5)) for number in range(4)]
    history = replace(a_history(*rounds), forgotten=None, rounds=tuple(rounds[2:]))
    assert wrong(history) == []
    assert ranges_follow(history, ["a"]).unknown == ["rounds before 2 were forgotten before their sum was kept"]


def test_counts_that_do_not_add_up_are_named():
    good = a_round(0, (0, 0, 5))
    bad = replace(good, counts=(replace(good.counts[0], rows=4),))
    history = replace(a_history(good), rounds=(bad,))
    assert counts_agree(history, ["a"]).wrong == [
        "a-0: the counts of round 0 do not add up",
        "a-0: the rounds brought 4 rows, the commit says 5",
    ]
    assert counts_agree(history, ["b"]).wrong == []


COMMIT = Commit(0, {A0: 9}, {"a": ID}, {A0: 7})


def held(rows, in_table, *, plain=False, at_work=False):
    where = [PartitionWhere("a", 0, in_table, 9, rows)]
    found = rows_are_there(where, COMMIT, plain=plain, at_work=at_work)
    return found.wrong, found.unknown


def test_rows_of_a_table_are_held_against_the_commit():
    assert held(7, 9) == ([], [])
    assert held(6, 9) == (["a-0: 6 rows are in the lake, the commit says 7"], [])
    assert held(7, 8) == (["a-0: the lake goes to offset 8, the commit to 9"], [])
    assert held(7, 8, plain=True) == ([], [])
    assert held(7, 10, plain=True)[0]


def test_a_topic_that_has_only_begun_has_no_table_yet():
    begun = Commit(0, {A0: 9}, {"a": ID})
    for in_table, found in ((0, []), (5, ["a-0: the lake goes to offset 5, the commit to 9"])):
        where = [PartitionWhere("a", 0, in_table, 9, 0)]
        assert rows_are_there(where, begun, plain=False, at_work=False).wrong == found


def test_more_rows_while_a_round_is_published_cannot_be_judged_but_fewer_can():
    assert held(8, 10, at_work=True) == (
        [],
        ["a-0: 8 rows are in the lake, the commit says 7; a round is being published, ask again"],
    )
    assert held(6, 9, at_work=True)[0]


def test_a_topic_made_anew_or_shorter_than_the_lake_is_told():
    history = History(COMMIT, Forgotten(), ())
    assert cluster_agrees(history, ["a"], Ends(0, {A0: 0}, {A0: 9}, {"a": ID})).wrong == []
    assert cluster_agrees(history, ["a"], Ends(0, {}, {}, {})).unknown == ["a: the cluster has no such topic"]
    again = cluster_agrees(history, ["a"], Ends(0, {A0: 0}, {A0: 3}, {"a": OTHER}))
    assert again.wrong == [
        "a: the topic was deleted and created again since it was loaded",
        "a-0: ends at offset 3 but was loaded up to 9",
    ]


def test_records_that_were_removed_or_truncated_before_they_were_loaded_are_told():
    history = History(COMMIT, Forgotten(), ())
    gone = Ends(0, {A0: 30, A1: 4}, {A0: 30, A1: 4}, {"a": ID})
    assert cluster_agrees(history, ["a"], gone).wrong == [
        "a-0: offsets 9-30 were removed before they were loaded",
        "a-1: offsets 0-4 were removed before they were loaded",
    ]
    cut = Ends(0, {A0: 0}, {A0: 30}, {"a": ID}, truncated={A0: 7})
    assert cluster_agrees(history, ["a"], cut).wrong == ["a-0: was truncated to offset 7 and was loaded up to 9"]
    assert cluster_agrees(history, ["b"], cut).wrong == []
