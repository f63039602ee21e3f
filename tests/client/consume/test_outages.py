"""A consumer whose brokers are away: if they have answered before, a poll ends in time, and later ones go on."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.client.stories import VirtualTime, topic_led_by

from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.group_protocol import encode_assignment
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.effects import Ask
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import BrokerUnreachable, RequestTimedOut
from ottla.client.model import ClientSettings
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.find_coordinator import FindCoordinatorResponse
from ottla.messages.join_group import JoinGroupResponse
from ottla.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from ottla.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponsePartition, OffsetFetchResponseTopic
from ottla.messages.sync_group import SyncGroupResponse

PLACE = TopicPartition("t", 0)


class Broker(VirtualTime):
    """One broker that can be reached or not."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.refusal = ErrorCode.NONE
        """The error code for committed offsets."""
        self.joining = ErrorCode.NONE
        """The error code for those that join."""
        self.plan = ClusterPlan("b:1", ClientSettings(), lambda: self.time)

    def attempt(self, effect: Any) -> Any:
        if self.away:
            return BrokerUnreachable("refused")
        assert isinstance(effect, Ask)
        if effect.response is ListOffsetsResponse:
            part = ListOffsetsPartitionResponse(partition_index=0, offset=7, leader_epoch=0)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])
        if effect.response is FindCoordinatorResponse:
            return FindCoordinatorResponse(node_id=1, host="b", port=1)
        if effect.response is OffsetFetchResponse:
            code = int(self.refusal)
            found = OffsetFetchResponsePartition(partition_index=0, committed_offset=9, error_code=code)
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[found])])
        if effect.response is JoinGroupResponse:
            if self.joining:
                return JoinGroupResponse(error_code=int(self.joining))
            return JoinGroupResponse(generation_id=1, protocol_name="range", leader="you", member_id="me")
        if effect.response is SyncGroupResponse:
            return SyncGroupResponse(assignment=encode_assignment([PLACE]))
        return topic_led_by(1)

    def take_metadata(self) -> None:
        self.run(self.plan.refresh(["t"]))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("timeout_ms", [0, 1_000, 200_000])
def test_a_poll_ends_in_its_time_while_brokers_that_have_answered_are_away(shared: bool, timeout_ms: int) -> None:
    broker = Broker()
    broker.take_metadata()
    core = ConsumerCore(broker.plan, ConsumerSettings("g" if shared else None))
    if shared:
        core.subscribe(["t"])
    else:
        core.assign([PLACE])
    broker.away = True
    began = broker.time
    assert broker.run(core.poll(timeout_ms)) == []
    assert broker.time - began <= timeout_ms


def test_a_poll_goes_on_once_the_broker_is_back() -> None:
    broker = Broker()
    broker.take_metadata()
    core = ConsumerCore(broker.plan, ConsumerSettings())
    core.assign([PLACE])
    broker.away = True
    broker.run(core.poll(500))
    assert core.fetcher.readings[PLACE].position is None
    broker.away = False
    broker.run(core.poll(500))
    assert core.fetcher.readings[PLACE].position == 7


def test_an_outage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker()
    broker.take_metadata()
    core = ConsumerCore(broker.plan, ConsumerSettings())
    core.assign([PLACE])
    with caplog.at_level(logging.WARNING, "ottla.client"):
        for away in (True, True, False, True):
            broker.away = away
            core.fetcher.readings[PLACE].lose_position()
            broker.run(core.poll(2_000))
    assert len(caplog.records) == 2
    assert all(record.message.endswith("it is tried again with each poll") for record in caplog.records)


def test_brokers_that_have_never_answered_are_an_error() -> None:
    broker = Broker()
    broker.away = True
    core = ConsumerCore(broker.plan, ConsumerSettings())
    core.assign([PLACE])
    with pytest.raises(BrokerUnreachable):
        broker.run(core.poll(500))


def test_a_poll_ends_in_its_time_while_a_transaction_has_offsets_open() -> None:
    broker = Broker()
    broker.take_metadata()
    core = ConsumerCore(broker.plan, ConsumerSettings("g"))
    core.assign([PLACE])
    broker.refusal = ErrorCode.UNSTABLE_OFFSET_COMMIT
    for timeout_ms in (0, 500, 5_000, 200_000):
        began = broker.time
        assert broker.run(core.poll(timeout_ms)) == []
        assert broker.time - began <= max(timeout_ms, 1_000)
    broker.refusal = ErrorCode.NONE
    broker.run(core.poll(2_000))
    assert core.fetcher.readings[PLACE].position == 9


def test_a_poll_ends_in_its_time_while_the_coordinator_loads() -> None:
    broker = Broker()
    broker.take_metadata()
    broker.joining = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    core = ConsumerCore(broker.plan, ConsumerSettings("g"))
    core.subscribe(["t"])
    for timeout_ms in (0, 500, 5_000, 200_000):
        began = broker.time
        assert broker.run(core.poll(timeout_ms)) == []
        assert broker.time - began <= max(timeout_ms, 1_000)
    broker.joining = ErrorCode.NONE
    broker.run(core.poll(0))
    assert core.assignment == {PLACE}


def test_what_a_listener_raises_is_raised_by_the_poll_even_if_it_looks_like_an_outage() -> None:
    broker = Broker()
    broker.take_metadata()
    core = ConsumerCore(broker.plan, ConsumerSettings("g"))

    def refuse(_: list[TopicPartition]) -> None:
        raise RequestTimedOut("of a commit in the listener")

    core.subscribe(["t"], on_assign=refuse)
    with pytest.raises(RequestTimedOut, match="in the listener"):
        broker.run(core.poll(0))
