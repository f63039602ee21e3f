"""A consumer's positions and commits, driven by hand without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.consume.members import PLACE, a_member, beat, committing, run
from tests.client.stories import topic_led_by

from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.plan import ClusterPlan
from ottla.client.model import ClientSettings, CommittedOffset, GroupMetadata
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse


def test_a_removed_member_commits_as_what_it_was_so_that_it_is_refused() -> None:
    core, member = a_member()
    assert member.metadata == GroupMetadata("g", 3, "me")
    beat(member, ErrorCode.UNKNOWN_MEMBER_ID)
    assert member.metadata == GroupMetadata("g", 3, "me")
    (request,) = run(core.commit({PLACE: CommittedOffset(5)}), lambda _: committing(ErrorCode.NONE))
    assert (request.generation_id_or_member_epoch, request.member_id) == (3, "me")


def test_a_static_member_that_a_commit_finds_fenced_does_not_join_again() -> None:
    core, _ = a_member(instance_id="i")
    for story in (core.commit(), core.poll(0)):
        with pytest.raises(ApiError) as raised:
            run(story, lambda _: committing(ErrorCode.FENCED_INSTANCE_ID))
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_poll_does_not_look_for_the_position_in_a_partition_without_a_leader() -> None:
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), ConsumerSettings())
    core.plan.metadata.take(topic_led_by(1, -1), 0.0, everything=False)
    core.assign([PLACE, TopicPartition("t", 1)])
    end = ListOffsetsPartitionResponse(partition_index=0, offset=7)
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[end])])
    run(core.poll(0), lambda _: answer)
    assert [reading.position for reading in core.fetcher.readings.values()] == [7, None]


def test_a_member_of_a_group_is_given_no_partitions_by_hand() -> None:
    core, _ = a_member()
    with pytest.raises(ValueError, match="a consumer of their own"):
        core.assign([PLACE])
    assert core.assignment == {PLACE}


def test_a_commit_names_the_leader_epoch_of_the_record_before_the_position() -> None:
    core, _ = a_member()
    core.fetcher.readings[PLACE].seek(5, 2)
    (request,) = run(core.commit(), lambda _: committing(ErrorCode.NONE))
    (part,) = request.topics[0].partitions
    assert (part.committed_offset, part.committed_leader_epoch) == (5, 2)


@pytest.mark.parametrize("topics", ["birds", [], ()])
def test_text_and_no_topics_cannot_be_subscribed_to(topics: Any) -> None:
    """The letters of a text once became topics, which the broker made."""
    core, member = a_member()
    with pytest.raises(ValueError, match="list of topics"):
        core.subscribe(topics)
    assert member.wanted.names == ["t"]


def test_a_negative_offset_is_refused() -> None:
    core, _ = a_member()
    with pytest.raises(ValueError, match="negative"):
        core.seek(PLACE, -1)
    assert core.fetcher.readings[PLACE].position == 5


def test_a_reset_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"auto_offset_reset is .* not 'smallest'"):
        ConsumerSettings(auto_offset_reset="smallest")
    with pytest.raises(ValueError, match="max_poll_records is a whole number, from 1"):
        ConsumerSettings(max_poll_records=0)


def test_partitions_chosen_by_hand_are_not_told_as_revoked_by_a_group() -> None:
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), ConsumerSettings("g"))
    core.assign([PLACE])
    core.subscribe(["t"])
    assert core.assignment == set()


def test_a_consumer_without_a_group_says_which_call_needs_one() -> None:
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), ConsumerSettings())
    core.assign([PLACE])
    core.seek(PLACE, 5)
    with pytest.raises(ValueError, match="commit needs a group: give group_id"):
        run(core.commit(), lambda _: committing(ErrorCode.NONE))
    with pytest.raises(ValueError, match="or assign partitions by hand"):
        core.subscribe(["t"])


def test_a_consumer_with_a_group_and_partitions_chosen_by_hand_commits_as_it_closes_but_leaves_no_group() -> None:
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), ConsumerSettings("g", instance_id="i"))
    core.assign([PLACE])
    core.seek(PLACE, 5)
    assert core.require_member("group_metadata").metadata == GroupMetadata("g")
    (commit,) = run(core.close(1_000), lambda _: committing(ErrorCode.NONE))
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (-1, "")
