"""The client's stories driven by a script: brokers asked, requests repeated, requests given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.client.stories import VirtualTime

from ottla.client.consume import offsets
from ottla.client.core import transfer
from ottla.client.core.effects import Ask
from ottla.client.core.plan import ClusterPlan, parse_bootstrap
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, MetadataMissing, RequestTimedOut
from ottla.client.model import LATEST, ClientSettings, CommittedOffset, Destination, OffsetAtTime, Produced
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse, ProduceResponse, TopicProduceResponse

P0 = TopicPartition("t", 0)
Answer = Callable[[Any, Destination], Any]


class Script(VirtualTime):
    """The world of a story: one function answers all requests, each of which takes a millisecond."""

    def __init__(self, answer: Answer, **settings: int) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[tuple[str, str]] = []
        self.plan = ClusterPlan("boot:1", ClientSettings(**settings), lambda: self.time)

    def attempt(self, ask: Ask[Any]) -> Any:
        name = ask.request.__name__.removesuffix("Request")
        self.asked.append((name, str(ask.destination)))
        self.time += 1
        try:
            return self.answer(ask.build(8 if name == "OffsetFetch" else min(ask.max_version, 9)), ask.destination)
        except (ApiError, ClientError) as fault:
            return fault


def metadata(leader: int = 1, *, epoch: int = 0, topics: bool = True) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"b{node}", port=9) for node in (1, 2)],
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", partitions=[partition])] if topics else [],
    )


def an_offset(offset: int, error: int = 0) -> ListOffsetsResponse:
    part = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=error)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])


def kind(message: Any) -> str:
    return type(message).__name__.removesuffix("Request")


def test_a_bootstrap_address_is_host_and_port() -> None:
    assert parse_bootstrap("a:1, [::1]:2,PLAINTEXT://c:3") == [("a", 1, ""), ("::1", 2, ""), ("c", 3, "")]
    for wrong in ("a", "a:", ":x", "a:99999", ""):
        with pytest.raises(ValueError, match="bootstrap address"):
            parse_bootstrap(wrong)


def test_offsets_are_asked_of_the_leader_and_followed_where_it_moves() -> None:
    leader = [1]

    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "Metadata":
            return metadata(leader[0], epoch=leader[0])
        if where.host == "b1":
            leader[0] = 2
            return an_offset(-1, int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return an_offset(77)

    script = Script(answer)
    found = script.run(offsets.list_offsets(script.plan, [P0], LATEST))
    assert found == {P0: OffsetAtTime(77, -1, -1)}
    assert [step for step in script.asked if step[0] == "ListOffsets"] == [
        ("ListOffsets", "b1:9"),
        ("ListOffsets", "b2:9"),
    ]


def test_an_error_that_no_attempt_would_cure_is_raised_at_once() -> None:
    script = Script(
        lambda message, where: (
            metadata() if kind(message) == "Metadata" else an_offset(-1, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        )
    )
    with pytest.raises(ApiError, match="t-0"):
        script.run(offsets.list_offsets(script.plan, [P0], LATEST))
    assert script.time < 10


def test_attempts_end_with_the_time_that_the_call_may_take() -> None:
    script = Script(
        lambda message, where: (
            metadata() if kind(message) == "Metadata" else an_offset(-1, int(ErrorCode.LEADER_NOT_AVAILABLE))
        ),
        api_timeout_ms=5_000,
    )
    with pytest.raises(ApiError):
        script.run(offsets.list_offsets(script.plan, [P0], LATEST))
    assert 3_000 < script.time <= 6_000
    assert len([step for step in script.asked if step[0] == "ListOffsets"]) < 12, "pauses grow"


def test_a_topic_that_does_not_exist_is_named_soon_with_what_to_do() -> None:
    missing = MetadataResponseTopic(name="t", error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def answer(message: Any, where: Destination) -> Any:
        found = metadata(topics=False)
        found.topics = [missing]
        return found

    script = Script(answer)
    with pytest.raises(ApiError, match="ottla topic create t"):
        script.run(script.plan.topic("t"))
    assert script.time < 2_000


def test_a_partition_that_does_not_exist_is_told_from_a_topic_that_does_not() -> None:
    script = Script(lambda message, where: metadata())
    with pytest.raises(ApiError, match="1 partitions, 0 to 0"):
        script.run(script.plan.leader("t", 3))


def test_a_partition_that_was_added_is_found_though_metadata_was_taken_before() -> None:
    """Another member of a group may see it first, and assign it to this one."""
    counts = [1]

    def answer(message: Any, where: Destination) -> Any:
        if kind(message) != "Metadata":
            parts = [ListOffsetsPartitionResponse(partition_index=index, offset=7) for index in (0, 1)]
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=parts)])
        found = metadata()
        found.topics[0].partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(counts[0])
        ]
        return found

    for look in (
        lambda plan: plan.leader("t", 1),
        lambda plan: offsets.list_offsets(plan, [P0, TopicPartition("t", 1)], LATEST),
    ):
        counts[0] = 1
        script = Script(answer)
        script.run(script.plan.topic("t"))
        counts[0] = 2
        assert script.run(look(script.plan)) is not None


def test_where_no_broker_answers_the_error_names_the_addresses_and_the_way_out() -> None:
    def answer(message: Any, where: Destination) -> Any:
        raise BrokerUnreachable(f"cannot connect to {where}")

    script = Script(answer, bootstrap_timeout_ms=0)
    with pytest.raises(BrokerUnreachable, match=r"boot:1.*ottla start.*address of another, HOST:PORT"):
        script.run(script.plan.refresh())
    assert len(script.asked) == 1


def test_known_brokers_are_asked_in_turn_and_the_bootstrap_addresses_when_all_are_gone() -> None:
    alive = [True]

    def answer(message: Any, where: Destination) -> Any:
        if where.host != "boot" and not alive[0]:
            raise ConnectionLost("gone")
        return metadata()

    script = Script(answer)
    script.run(script.plan.refresh())
    alive[0] = False
    script.asked.clear()
    script.run(script.plan.refresh())
    assert [where for _, where in script.asked][-1] == "boot:1"
    assert {where for _, where in script.asked[:-1]} == {"b1:9", "b2:9"}


def test_a_broker_that_did_not_answer_is_the_last_to_be_asked_until_it_answers() -> None:
    hung = [True]

    def answer(message: Any, where: Destination) -> Any:
        if where.host == "b1" and hung[0]:
            raise RequestTimedOut("it hangs")
        return metadata()

    script = Script(answer)
    for _ in range(5):
        script.run(script.plan.refresh())
    assert [where for _, where in script.asked].count("b1:9") == 1
    script.plan.turns.answered(Destination("b1", 9))
    hung[0] = False
    for _ in range(4):
        script.run(script.plan.refresh())
    assert [where for _, where in script.asked].count("b1:9") == 3


def test_an_advertised_address_that_cannot_be_reached_is_explained() -> None:
    def answer(message: Any, where: Destination) -> Any:
        if where.host != "boot":
            raise BrokerUnreachable(f"cannot connect to {where}")
        return metadata()

    script = Script(answer, api_timeout_ms=1_000)
    with pytest.raises(BrokerUnreachable, match=r"advertised\.listeners"):
        script.run(offsets.list_offsets(script.plan, [P0], LATEST))


def committed(error: int) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=error)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


def test_the_coordinator_is_looked_up_again_where_it_moved() -> None:
    home = [1]

    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "FindCoordinator":
            at = Coordinator(key="g", node_id=home[0], host=f"b{home[0]}", port=9)
            return FindCoordinatorResponse(coordinators=[at])
        if where.host == "b1":
            home[0] = 2
            return committed(int(ErrorCode.NOT_COORDINATOR))
        return committed(0)

    script = Script(answer)
    assert script.run(offsets.commit_offsets(script.plan, "g", {P0: CommittedOffset(3)})) == {P0: None}
    assert [name for name, _ in script.asked] == ["FindCoordinator", "OffsetCommit"] * 2


def test_a_coordinator_is_looked_for_until_the_brokers_are_back() -> None:
    """A consumer once failed for good if it joined while its only broker was being restarted."""
    away = iter([True] * 3)

    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "Metadata":
            return metadata()
        if next(away, False):
            raise BrokerUnreachable(f"cannot connect to {where}")
        if kind(message) == "FindCoordinator":
            return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="b1", port=9)])
        return committed(0)

    script = Script(answer)
    script.run(script.plan.refresh())
    assert script.run(offsets.commit_offsets(script.plan, "g", {P0: CommittedOffset(3)})) == {P0: None}


def test_a_coordinator_that_loads_is_asked_again_without_looking_for_another() -> None:
    tries = iter([int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 2 + [0])

    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "FindCoordinator":
            return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="b1", port=9)])
        return committed(next(tries))

    script = Script(answer)
    script.run(offsets.commit_offsets(script.plan, "g", {P0: CommittedOffset(3)}))
    assert [name for name, _ in script.asked] == ["FindCoordinator"] + ["OffsetCommit"] * 3


def produced(error: int = 0, leader: int = -1) -> ProduceResponse:
    part = PartitionProduceResponse(index=0, base_offset=5, error_code=error)
    part.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=9)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[part])])


def test_a_partition_is_led_whether_or_not_others_of_its_topic_are() -> None:
    def answer(request: Any, _destination: Destination) -> Any:
        found = metadata(2)
        found.topics[0].partitions.append(MetadataResponsePartition(partition_index=1, leader_id=-1))
        return found

    script = Script(answer)
    assert script.run(script.plan.leader("t", 0)).id == 2
    assert script.run(script.plan.leader("t", 0)).id == 2
    assert script.asked == [("Metadata", "boot:1")], "and is not asked for again"
    with pytest.raises(MetadataMissing, match=r"no leader for partitions \[1\]"):
        script.run(script.plan.leader("t", 1))


def test_a_produce_goes_straight_to_the_leader_that_the_refusal_names() -> None:
    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "Metadata":
            return metadata(1)
        return produced(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), leader=2) if where.host == "b1" else produced()

    script = Script(answer)
    assert script.run(transfer.produce(script.plan, "t", 0, b"batch")) == Produced(5, -1, -1)
    assert [name for name, _ in script.asked] == ["Metadata", "Produce", "Produce"], "KIP-951: no second Metadata"


def test_without_retries_a_lost_connection_is_the_callers_to_judge() -> None:
    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "Metadata":
            return metadata(1)
        raise ConnectionLost("gone")

    script = Script(answer)
    with pytest.raises(ConnectionLost):
        script.run(transfer.produce(script.plan, "t", 0, b"batch", retries=False))
    assert [name for name, _ in script.asked].count("Produce") == 1


def test_offsets_of_partitions_with_a_leader_do_not_wait_for_those_without_one() -> None:
    """A topic whose partition 1 has lost its only broker."""

    def answer(request: Any, _destination: Destination) -> Any:
        if kind(request) != "Metadata":
            return an_offset(77)
        found = metadata(2)
        found.topics[0].partitions.append(MetadataResponsePartition(partition_index=1, leader_id=-1))
        return found

    script = Script(answer)
    assert script.run(offsets.list_offsets(script.plan, [P0], LATEST)) == {P0: OffsetAtTime(77, -1, -1)}
    assert script.time < 10
    p1 = TopicPartition("t", 1)
    found = script.run(offsets.list_offsets_each(script.plan, {P0: LATEST, p1: LATEST}))
    assert found[P0] == OffsetAtTime(77, -1, -1)
    assert isinstance(found[p1], MetadataMissing)
    assert [name for name, _ in script.asked].count("ListOffsets") == 2


def test_a_commit_does_not_wait_long_for_a_topic_that_was_deleted() -> None:
    """Once `poll` was blocked for a minute by each automatic commit after one of its topics was deleted."""

    def answer(message: Any, _where: Destination) -> Any:
        if kind(message) == "FindCoordinator":
            return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="b1", port=9)])
        return committed(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    script = Script(answer)
    (fault,) = script.run(offsets.commit_offsets(script.plan, "g", {P0: CommittedOffset(3)})).values()
    assert fault.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert 500 < script.time < 2_000, "a new topic may be unknown to the coordinator for a moment"


def test_a_coordinator_that_does_not_answer_is_looked_up_again_by_the_next_call() -> None:
    """A broker that hangs goes on to accept connections, so that only the time tells."""
    home = [1]

    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "FindCoordinator":
            at = Coordinator(key="g", node_id=home[0], host=f"b{home[0]}", port=9)
            return FindCoordinatorResponse(coordinators=[at])
        if where.host == "b1":
            raise RequestTimedOut(f"{where} did not answer")
        return committed(0)

    script = Script(answer)
    with pytest.raises(RequestTimedOut):
        script.run(offsets.commit_offsets(script.plan, "g", {P0: CommittedOffset(3)}))
    home[0] = 2
    assert script.run(offsets.commit_offsets(script.plan, "g", {P0: CommittedOffset(3)})) == {P0: None}


def test_a_controller_that_does_not_answer_is_looked_up_again_by_the_next_call() -> None:
    def answer(message: Any, where: Destination) -> Any:
        if kind(message) == "Metadata":
            return metadata()
        raise RequestTimedOut(f"{where} did not answer")

    script = Script(answer)
    for _ in range(2):
        with pytest.raises(RequestTimedOut):
            script.run(script.plan.ask_controller(ListOffsetsRequest, ListOffsetsResponse, lambda _: an_offset(1)))
    assert [name for name, _ in script.asked] == ["Metadata", "ListOffsets"] * 2
