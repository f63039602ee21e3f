import json
from dataclasses import replace

import pytest

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.lake.columns.layout import Layout
from ottla.lake.columns.windows import Tally
from ottla.lake.notes.plans import (
    Commit,
    HeldRows,
    LoadPlan,
    Publication,
    RangeCount,
    WrittenFile,
    bundles,
    counted,
    named_files,
    next_plan,
    still_whole,
    totals,
)
from ottla.lake.reports.counts import audit_lines
from ottla.rows.plan import OffsetRange, SourceOffset
from ottla.stores import LakeRefused

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ID, OTHER = TopicId(b"0123456789abcdef"), TopicId(b"fedcba9876543210")
WITHIN = {"most": 1000, "accept_loss": False}


def latest(offsets, topic_id=ID):
    return SourceOffset(offsets, {"a": topic_id}, dict.fromkeys(offsets, 3))


def spans(plan):
    return [(span.topic_partition, span.start, span.end) for span in plan.ranges]


def a_file(topic, values, *held, name="x"):
    return WrittenFile(topic, name, values, sum(each.rows for each in held), 99, held)


def test_files_are_named_by_topic_round_and_number_within_their_folders():
    files = [
        a_file("b", ("1970-01-01",), HeldRows(0, 1, 0, 0)),
        a_file("a", ("1970-01-02",), HeldRows(0, 1, 5, 5)),
        a_file("a", ("1970-01-01",), HeldRows(1, 1, 0, 0)),
        a_file("a", ("1970-01-01",), HeldRows(0, 1, 0, 0)),
    ]
    assert [(file.final, file.written.held[0].partition) for file in named_files(7, files, Layout())] == [
        ("topic=a/date=1970-01-01/a-00000007-00000.parquet", 0),
        ("topic=a/date=1970-01-01/a-00000007-00001.parquet", 1),
        ("topic=a/date=1970-01-02/a-00000007-00002.parquet", 0),
        ("topic=b/date=1970-01-01/b-00000007-00000.parquet", 0),
    ]


def test_a_plan_goes_on_where_the_lake_stands_and_new_partitions_begin_at_the_beginning():
    committed = Commit(4, {A0: 10}, {"a": ID})
    plan = next_plan(committed, latest({A0: 15, A1: 7}), {A0: 2, A1: 0}, **WITHIN)
    assert plan.number == 5
    assert spans(plan) == [(A0, 10, 15), (A1, 0, 7)]
    assert plan.ranges[0].topic_id == ID and plan.ranges[0].leader_epoch == 3


def test_nothing_new_is_an_empty_plan():
    assert next_plan(Commit(0, {A0: 5}, {"a": ID}), latest({A0: 5}), {A0: 0}, **WITHIN).ranges == ()


def test_a_round_is_bounded():
    plan = next_plan(Commit(), latest({A0: 900, A1: 100}), {A0: 0, A1: 0}, **{**WITHIN, "most": 100})
    assert spans(plan) == [(A0, 0, 90), (A1, 0, 10)]


def test_a_partition_with_little_gets_on_in_every_bounded_round():
    plan = next_plan(Commit(), latest({A0: 1_000_000, A1: 3}), {A0: 0, A1: 0}, **{**WITHIN, "most": 100_000})
    assert spans(plan) == [(A0, 0, 99_999), (A1, 0, 1)]


def ranges(*sizes):
    return [OffsetRange("a", partition, 10, 10 + size) for partition, size in enumerate(sizes)]


def test_small_ranges_share_a_task_and_big_ones_are_cut():
    (task,) = bundles(ranges(100, 200, 300), tasks=4, longest=10**9)
    assert [span.size for span in task] == [100, 200, 300]
    shared = bundles(ranges(400_000, 10), tasks=4, longest=10**9)
    assert [sum(span.size for span in task) for task in shared] == [50_000] * 7 + [50_000, 10]
    assert all(span.size <= 30_000 for task in bundles(ranges(10**6), tasks=1, longest=30_000) for span in task)


def test_a_thousand_small_partitions_make_few_tasks():
    shared = bundles(ranges(*[100] * 1000), tasks=2, longest=10**9)
    assert len(shared) == 4
    assert [span for task in shared for span in task] == ranges(*[100] * 1000)


def test_rounds_end_although_little_waits_beside_much():
    committed = Commit()
    ends = {A0: 1_000_000, A1: 3}
    for _ in range(50):
        plan = next_plan(committed, latest(ends), {A0: 0, A1: 0}, **{**WITHIN, "most": 100_000})
        if not plan.ranges:
            break
        counts = tuple(RangeCount(span, span.size, span.size) for span in plan.ranges)
        committed = committed.after(Publication(plan, (), (), counts))
    assert committed.offsets == ends


def test_a_topic_created_again_is_refused():
    with pytest.raises(LakeRefused, match="topic a was deleted and created again"):
        next_plan(Commit(0, {A0: 5}, {"a": ID}), latest({A0: 9}, OTHER), {A0: 0}, **WITHIN)


def test_logs_of_the_same_topics_must_hold_what_was_loaded():
    committed = Commit(0, {A0: 5, A1: 7}, {"a": ID}, epochs={A0: 2})
    loaded = still_whole(committed, latest({A0: 9, A1: 9}))
    assert (loaded.offsets, loaded.epochs) == ({A0: 5, A1: 7}, {A0: 2})
    assert not still_whole(committed, latest({A0: 9}, OTHER)).offsets


def test_a_log_that_became_shorter_is_refused():
    with pytest.raises(LakeRefused, match="a-0 ends at 4 but was loaded up to 5"):
        next_plan(Commit(0, {A0: 5}, {"a": ID}), latest({A0: 4}), {A0: 0}, **WITHIN)


def test_what_retention_took_is_an_error_or_on_demand_a_note():
    arguments = (Commit(0, {A0: 5}, {"a": ID}), latest({A0: 20}), {A0: 12})
    with pytest.raises(LakeRefused, match="deleted 7 offsets of a-0 before they were loaded: --accept-loss"):
        next_plan(*arguments, **WITHIN)
    plan = next_plan(*arguments, **{**WITHIN, "accept_loss": True})
    assert spans(plan) == [(A0, 12, 20)] and plan.lost == {A0: 7}


def test_a_partition_of_which_nothing_is_left_moves_on_to_its_end():
    committed, now = Commit(0, {A0: 5, A1: 3}, {"a": ID}), latest({A0: 12, A1: 9})
    plan = next_plan(committed, now, {A0: 12, A1: 0}, most=2, accept_loss=True)
    assert spans(plan) == [(A0, 12, 12), (A1, 3, 5)] and plan.lost == {A0: 7}


def test_records_that_came_and_went_between_two_looks_are_lost_ones():
    committed = Commit(0, {A0: 5}, {"a": ID})
    plan = next_plan(committed, latest({A0: 12}), {A0: 15}, most=2, accept_loss=True)
    assert spans(plan) == [(A0, 15, 15)] and plan.lost == {A0: 10}


def test_where_an_empty_partition_begins_is_noted_with_the_first_records_of_its_topic():
    plan = next_plan(Commit(), latest({A0: 2, A1: 7}), {A0: 0, A1: 7}, **WITHIN)
    assert spans(plan) == [(A0, 0, 2), (A1, 7, 7)]
    assert not next_plan(Commit(), latest({A0: 0, A1: 7}), {A0: 0, A1: 7}, **WITHIN).ranges


def test_the_first_records_of_an_added_partition_are_missed():
    arguments = (Commit(0, {A0: 5}, {"a": ID}), latest({A0: 5, A1: 9}), {A0: 0, A1: 4})
    with pytest.raises(LakeRefused, match="deleted 4 offsets of a-1 before they were loaded: --accept-loss"):
        next_plan(*arguments, **WITHIN)


def a_publication():
    plan = LoadPlan(7, (OffsetRange("a", 0, 0, 10, ID, 2), OffsetRange("a", 1, 3, 8, ID, 0)), {A0: 2})
    counts = (RangeCount(plan.ranges[0], 9, 7, 1, 1, 1), RangeCount(plan.ranges[1], 5, 5))
    files = named_files(
        7, [a_file("a", ("1970-01-01", None), HeldRows(0, 7, 0, 9), HeldRows(1, 5, 3, 7))], Layout(("day", "f"))
    )
    windows = {"a": Tally((3, 9), (7, 5), (0, 1), (70, 60), {0: 99, 1: 5})}
    return Publication(plan, files, ("d",), counts, {"a": "c2NoZW1h"}, "_ottla/tmp/7-ab/", windows)


def test_rows_are_counted_from_the_files_and_the_rest_from_the_tasks():
    plan = LoadPlan(0, (OffsetRange("a", 0, 0, 10),))
    pieces = [RangeCount(OffsetRange("a", 0, 6, 10), 4, 0, 1), RangeCount(OffsetRange("a", 0, 0, 6), 5, 0, 0, 0, 1)]
    files = [a_file("a", (), HeldRows(0, 3, 0, 2)), a_file("a", (), HeldRows(0, 5, 3, 9))]
    assert counted(plan, pieces, files) == (RangeCount(plan.ranges[0], 9, 8, 1, 0, 1),)
    with pytest.raises(LakeRefused, match="a-0: offsets 0-10 were planned, others were read"):
        counted(plan, pieces[:1], files)


def test_all_that_is_written_down_is_read_again_as_it_was():
    publication = a_publication()
    assert Publication.from_json(json.loads(json.dumps(publication.to_json()))) == publication
    assert LoadPlan.from_json(json.loads(json.dumps(publication.plan.to_json()))) == publication.plan
    commit = Commit().after(publication)
    assert Commit.from_json(json.loads(json.dumps(commit.to_json()))) == commit
    assert commit.offsets == {A0: 10, A1: 8} and commit.rows == {A0: 7, A1: 5}
    assert commit.latest == {A0: 99, A1: 5} and commit.epochs == {A0: 2, A1: 0}


def test_a_state_of_another_format_is_refused():
    with pytest.raises(LakeRefused, match="format 99"):
        Commit.from_json({"format": 99})


def test_the_audit_adds_up_or_says_where_it_does_not():
    publication = a_publication()
    lines = audit_lines(publication.counts, Commit().after(publication))
    assert lines[-1] == "audit: 14 records = 12 in files + 1 dead letter + 1 aborted: adds up"
    short = RangeCount(publication.plan.ranges[0], 9, 6, 1, 1, 1)
    assert "DOES NOT ADD UP in a-0" in audit_lines([short], Commit())[-1]


def test_more_records_than_offsets_do_not_add_up():
    assert not RangeCount(OffsetRange("a", 0, 0, 5), 6, 6).adds_up
    assert RangeCount(OffsetRange("a", 0, 0, 5), 3, 3).absent == 2


def test_offsets_that_hold_a_marker_or_nothing_are_no_records():
    count = RangeCount(OffsetRange("a", 0, 0, 10), records=6, rows=6, markers=3)
    assert count.absent == 1 and count.adds_up
    assert not replace(count, markers=5).adds_up, "11 things at 10 offsets"


def test_an_aborted_record_is_accounted_for_and_is_not_a_row():
    count = RangeCount(OffsetRange("a", 0, 0, 9), records=9, rows=5, aborted=4)
    assert count.adds_up
    assert not replace(count, aborted=3).adds_up and not replace(count, aborted=5).adds_up


def test_the_parts_of_a_range_add_up_number_by_number():
    first = RangeCount(OffsetRange("a", 0, 0, 100), 90, 50, 20, 13, 4, 7)
    second = RangeCount(OffsetRange("a", 0, 100, 150), 40, 20, 9, 6, 3, 5)
    other = RangeCount(OffsetRange("a", 1, 0, 1), 1, 1)
    assert totals([second, other, first]) == {
        A0: RangeCount(OffsetRange("a", 0, 0, 150), 130, 70, 29, 19, 7, 12),
        A1: other,
    }


def test_the_audits_table_shows_markers_aborted_and_absent_of_both_parts():
    counts = [
        RangeCount(OffsetRange("a", 0, 0, 100), 90, 77, 0, 13, 4),
        RangeCount(OffsetRange("a", 0, 100, 150), 40, 34, 0, 6, 3),
    ]
    heads, row, verdict = (line.split() for line in audit_lines(counts, Commit()))
    assert row[:4] == ["a", "0", "0-150", "130"]
    assert heads[-6:-2] == ["dead", "aborted", "markers", "absent"] and row[-5:-1] == ["0", "19", "7", "13"]
    assert " ".join(verdict).endswith("111 in files + 0 dead letters + 19 aborted: adds up")


def test_a_commit_never_goes_back():
    plan = LoadPlan(8, (OffsetRange("a", 0, 4, 8, ID, 2),))
    after = Commit(7, {A0: 10}, {"a": ID}, {A0: 9}).after(Publication(plan, (), (), (RangeCount(plan.ranges[0]),)))
    assert after.offsets == {A0: 10} and after.rows == {A0: 9}


def test_files_of_the_longest_topic_have_names_that_a_disk_takes():
    (file,) = named_files(7, [a_file("t" * 249, ("1970-01-01",), HeldRows(0, 1, 0, 0))], Layout())
    assert max(len(part) for part in file.final.split("/")) == 255
    assert file.final.endswith(f"/{'t' * 180}-00000007-00000.parquet")


def test_filtered_records_are_part_of_the_sum_and_are_read_again_as_they_were_written():
    span = OffsetRange("a", 0, 0, 10, ID, 2)
    count = RangeCount(span, 9, 4, 1, 1, 1, 3)
    assert count.adds_up and not RangeCount(span, 9, 4, 1, 1, 1, 2).adds_up
    publication = Publication(LoadPlan(7, (span,)), (), (), (count,))
    assert Publication.from_json(json.loads(json.dumps(publication.to_json()))) == publication
    assert (
        audit_lines([count], Commit())[-1]
        == "audit: 9 records = 4 in files + 3 filtered + 1 dead letter + 1 aborted: adds up"
    )
    pieces = [RangeCount(replace(span, end=6), 5, filtered=2), RangeCount(replace(span, start=6), 4, filtered=1)]
    assert counted(LoadPlan(7, (span,)), pieces, []) == (RangeCount(span, 9, filtered=3),)


def test_a_round_without_a_filter_is_written_down_as_before_there_was_one():
    assert a_publication().to_json()["counts"] == [[9, 7, 1, 1, 1], [5, 5, 0, 0, 0]]
