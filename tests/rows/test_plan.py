import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.rows.plan import (
    DataLoss,
    Edge,
    OffsetRange,
    RangeOptions,
    SourceOffset,
    SpecificOffsets,
    Timestamps,
    added_partitions,
    between,
    check_limits,
    gathered,
    questions,
    resolved,
    share_limit,
    should_wait,
    split,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW = TopicId(b"0123456789abcdef"), TopicId(b"fedcba9876543210")


def test_a_stream_offset_is_sparks_json_beside_the_identity_of_its_topics():
    offset = SourceOffset({A1: 5, A0: 3}, {"a": OLD}, {A0: 2}, "q")
    stored = json.loads(json.dumps(offset.to_json()))
    identity = stored.pop("/ottla")
    assert stored == {"a": {"0": 3, "1": 5}}
    assert identity["epochs"] == {"a": {"0": 2}}
    assert SourceOffset.from_json({**stored, "/ottla": identity}) == offset


def test_a_stream_offset_keeps_the_layout_of_its_batch_and_where_new_partitions_begin():
    offset = SourceOffset({A0: 3}, {"a": OLD}, {}, "q", RangeOptions(None, 7, 20), {A0: 1})
    stored = json.loads(json.dumps(offset.to_json()))
    assert stored["/ottla"]["layout"] == [None, 7, 20] and stored["/ottla"]["begins"] == {"a": {"0": 1}}
    assert SourceOffset.from_json(stored) == offset


def test_an_offset_of_sparks_own_connector_is_understood():
    assert SourceOffset.from_json({"a": {"0": 3}}) == SourceOffset({A0: 3})


def test_an_offset_that_has_not_moved_is_the_same_text():
    one = SourceOffset({A0: 1, A1: 2, B0: 3}, {"a": OLD, "b": NEW}, {B0: 1, A0: 1}, "q")
    other = SourceOffset({B0: 3, A1: 2, A0: 1}, {"b": NEW, "a": OLD}, {A0: 1, B0: 1}, "q")
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_edges_are_asked_for_every_partition_and_given_offsets_for_none():
    assert questions(Edge.EARLIEST, [A0, A1], option="startingOffsets") == {A0: -2, A1: -2}
    assert questions(SpecificOffsets({A0: 7, A1: -1}), [A1, A0], option="startingOffsets") == {A1: -1}
    assert questions(Timestamps(99), [A0], option="startingTimestamp") == {A0: 99}


def test_an_explicit_offset_of_zero_is_an_offset_and_not_a_question():
    limit = SpecificOffsets({A0: 0, A1: -2})
    assert questions(limit, [A0, A1], option="startingOffsets") == {A1: -2}
    assert resolved(limit, [A0, A1], {A1: 5}, starting=True) == {A0: 0, A1: 5}


def test_specific_offsets_must_name_every_partition():
    with pytest.raises(
        ValueError, match=r"you must specify all TopicPartitions.*Specified: \[a-0\] Assigned: \[a-0, a-1\]"
    ):
        questions(SpecificOffsets({A0: 7}), [A0, A1], option="startingOffsets")


def test_a_starting_time_after_the_last_record_fails_unless_latest_is_the_strategy():
    with pytest.raises(ValueError, match="No offset matched from request of topic-partition a-0 and timestamp 50"):
        resolved(Timestamps(50), [A0], {A0: -1}, starting=True)
    assert resolved(Timestamps(50, latest_where_none=True), [A0], {A0: -1}, starting=True) == {A0: -1}
    assert resolved(Timestamps(50), [A0], {A0: -1}, starting=False) == {A0: -1}


def test_a_start_behind_its_end_is_refused_before_the_cluster_is_asked():
    with pytest.raises(ValueError, match="start offset 9 is greater than the end offset 4 for topic a partition 0"):
        check_limits(SpecificOffsets({A0: 9}), SpecificOffsets({A0: 4}))
    with pytest.raises(ValueError, match="should have the same topic-partitions"):
        check_limits(SpecificOffsets({A0: 9}), SpecificOffsets({A1: 14}))
    check_limits(SpecificOffsets({A0: 9}), SpecificOffsets({A0: -1}))


def test_an_empty_range_is_no_error_and_is_read_by_nobody():
    check_limits(SpecificOffsets({A0: 4, A1: 0}), SpecificOffsets({A0: 4, A1: 0}))
    check_limits(Timestamps({A0: 50}), Timestamps({A0: 50}))
    plan = between(SourceOffset({A0: 4, A1: 6}), SourceOffset({A0: 4, A1: 7}), {})
    assert plan.ranges == [OffsetRange("a", 1, 6, 7)] and plan.losses == []


def test_an_end_at_zero_is_checked_and_an_edge_is_not():
    with pytest.raises(ValueError, match="start offset 9 is greater than the end offset 0 for topic a partition 0"):
        check_limits(SpecificOffsets({A0: 9}), SpecificOffsets({A0: 0}))
    check_limits(SpecificOffsets({A0: 0}), SpecificOffsets({A0: -1}))
    check_limits(SpecificOffsets({A0: -1}), SpecificOffsets({A0: -2}))


def test_the_limit_is_shared_in_proportion_and_nobody_starves():
    ends = share_limit(100, {A0: 0, A1: 0, B0: 5}, {A0: 900, A1: 100, B0: 6})
    assert ends == {A0: 89, A1: 9, B0: 6}
    assert share_limit(100, {A0: 0, A1: 5}, {A0: 40, A1: 5}) == {A0: 40, A1: 5}


@given(
    st.integers(1, 50),
    st.dictionaries(st.sampled_from([A0, A1, B0]), st.tuples(st.integers(0, 90), st.integers(0, 300)), min_size=1),
)
@settings(max_examples=60, deadline=None)
def test_a_shared_limit_always_goes_forward_and_never_past_the_end(limit, partitions):
    start = {partition: first for partition, (first, _) in partitions.items()}
    latest = {partition: first + waiting for partition, (first, waiting) in partitions.items()}
    ends = share_limit(limit, start, latest)
    assert all(start[partition] <= ends[partition] <= latest[partition] for partition in latest)
    moved = sum(ends[partition] - start[partition] for partition in ends)
    assert moved <= limit + len(ends)
    assert moved > 0 or latest == start


def test_a_trigger_waits_for_the_least_number_but_not_for_ever():
    assert should_wait(10, {A0: 0}, {A0: 9}, waited_ms=100, max_delay_ms=1000)
    assert not should_wait(10, {A0: 0}, {A0: 10}, waited_ms=100, max_delay_ms=1000)
    assert not should_wait(10, {A0: 0}, {A0: 9}, waited_ms=1000, max_delay_ms=1000)


def test_new_partitions_begin_at_their_earliest_offset():
    start, end = SourceOffset({A0: 5}), SourceOffset({A0: 8, A1: 3})
    assert added_partitions(start, end) == [A1]
    plan = between(start, end, {A1: 0})
    assert [(span.topic_partition, span.start, span.end) for span in plan.ranges] == [(A0, 5, 8), (A1, 0, 3)]
    assert plan.losses == []
    assert between(start, end, {A1: 2}).losses == ["Added partition a-1 starts from 2 instead of 0."]


def test_deleted_partitions_and_offsets_that_went_back_are_losses():
    plan = between(SourceOffset({A0: 5, B0: 1}), SourceOffset({A0: 4}), {})
    assert plan.ranges == []
    assert plan.losses == [
        "Partitions [b-0] have been deleted.",
        "Partition a-0 offset was changed from 5 to 4.",
    ]


def test_a_topic_created_again_is_a_loss_and_is_read_from_its_beginning():
    start, end = SourceOffset({A0: 5}, {"a": OLD}), SourceOffset({A0: 9}, {"a": NEW}, {A0: 4})
    plan = between(start, end, {A0: 0})
    assert plan.losses == ["Topic a has been deleted and created again."]
    assert plan.ranges == [OffsetRange("a", 0, 0, 9, NEW, 4)]


def test_ranges_are_split_by_the_longest_and_by_the_least_number():
    ranges = [OffsetRange("a", 0, 0, 1000), OffsetRange("a", 1, 10, 11), OffsetRange("b", 0, 4, 4)]
    assert len(split(ranges, min_partitions=None, max_records=None)) == 2
    assert [span.size for span in split(ranges, min_partitions=None, max_records=300)] == [250] * 4 + [1]
    assert [span.size for span in split(ranges, min_partitions=6, max_records=None)] == [200] * 5 + [1]


def test_the_tasks_of_a_range_are_rounded_to_its_nearest_share():
    """700 of 1,000 offsets get 3.5 of five tasks, and 300 get 1.5: four and two, as in Spark's own connector."""
    ranges = [OffsetRange("a", 0, 0, 700), OffsetRange("a", 1, 0, 300)]
    assert [span.size for span in split(ranges, min_partitions=5, max_records=None)] == [175] * 4 + [150] * 2


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 200)), max_size=5),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 50),
)
@settings(max_examples=80, deadline=None)
def test_split_ranges_cover_every_offset_once(spans, least, longest):
    ranges = [OffsetRange("a", number, first, first + size) for number, (first, size) in enumerate(spans)]
    pieces = split(ranges, min_partitions=least, max_records=longest)
    covered = [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.end)]
    assert covered == [(span.partition, offset) for span in ranges for offset in range(span.start, span.end)]
    assert all(piece.size > 0 and (longest is None or piece.size <= longest) for piece in pieces)


def test_small_ranges_share_a_task_and_large_ones_do_not():
    ranges = [OffsetRange("a", number, 0, size) for number, size in enumerate((3, 4, 10, 5, 5))]
    tasks = [[span.partition for span in task] for task in gathered(ranges, 10)]
    assert tasks == [[0, 1], [2], [3, 4]]
    assert [len(task) for task in gathered(ranges, 0)] == [1] * 5


def test_data_loss_says_which_option_accepts_it():
    assert "failOnDataLoss" in str(DataLoss("Partitions [b-0] have been deleted."))
