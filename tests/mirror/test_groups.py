"""Offsets of groups, translated and committed."""

from __future__ import annotations

from tests.mirror.lanes import SOURCE, TARGET, a_lane

from ottla.client import CommittedOffset, TopicPartition
from ottla.mirror.formats import Checkpoint
from ottla.mirror.groups import advances, checkpoints
from ottla.mirror.lane import LaneState


def test_offsets_are_translated_with_their_metadata_and_partitions_that_are_not_mirrored_are_left_out() -> None:
    lane = a_lane(LaneState(0, 0))
    lane.place.map.add(10, 4, 20)
    committed = {SOURCE: CommittedOffset(12, "m"), TopicPartition("elsewhere", 0): CommittedOffset(1)}
    assert checkpoints("g", committed, {SOURCE: lane}) == [Checkpoint("g", *TARGET, 12, 6, "m")]
    assert checkpoints("g", {SOURCE: CommittedOffset(9)}, {SOURCE: lane}) == []  # before the first record copied


def test_a_group_is_brought_forward_and_never_back() -> None:
    translated = [Checkpoint("g", "t", number, 100, 50) for number in range(3)]
    present = {TopicPartition("t", 0): CommittedOffset(49), TopicPartition("t", 1): CommittedOffset(50)}
    assert advances(translated, present) == {
        TopicPartition("t", 0): CommittedOffset(50),
        TopicPartition("t", 2): CommittedOffset(50),
    }
