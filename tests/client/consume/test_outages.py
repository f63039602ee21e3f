"""A consumer whose brokers are away: if they have answered before, a poll ends in time, and later ones go on."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.client.stories import drive

from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.effects import Ask, AskAll, First, Pause, Start
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import BrokerUnreachable
from ottla.client.model import ClientSettings
from ottla.kernel.ids import TopicPartition
from ottla.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from ottla.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

PLACE = TopicPartition("t", 0)


class Broker:
    """One broker, in virtual time, that can be reached or not."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.away = False
        self.plan = ClusterPlan("b:1", ClientSettings(), lambda: self.now_ms)

    def carry_out(self, effect: Any) -> Any:
        if isinstance(effect, Pause):
            self.now_ms += effect.ms
            return None
        if isinstance(effect, AskAll):
            return [self.carry_out(ask) for ask in effect.asks]
        if isinstance(effect, First):
            self.now_ms += effect.timeout_ms
            return None
        if self.away:
            return BrokerUnreachable("refused")
        if isinstance(effect, Start):
            return object()
        assert isinstance(effect, Ask)
        if effect.response is ListOffsetsResponse:
            part = ListOffsetsPartitionResponse(partition_index=0, offset=7, leader_epoch=0)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])
        led = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="b", port=1)],
            topics=[MetadataResponseTopic(name="t", partitions=[led])],
        )

    def take_metadata(self) -> None:
        drive(self.plan.refresh(["t"]), self.carry_out)


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
    began = broker.now_ms
    assert drive(core.poll(timeout_ms), broker.carry_out) == []
    assert broker.now_ms - began <= timeout_ms


def test_a_poll_goes_on_once_the_broker_is_back() -> None:
    broker = Broker()
    broker.take_metadata()
    core = ConsumerCore(broker.plan, ConsumerSettings())
    core.assign([PLACE])
    broker.away = True
    drive(core.poll(500), broker.carry_out)
    assert core.fetcher.readings[PLACE].position is None
    broker.away = False
    drive(core.poll(500), broker.carry_out)
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
            drive(core.poll(500), broker.carry_out)
    assert [record.message for record in caplog.records] == ["refused; it is tried again with each poll"] * 2


def test_brokers_that_have_never_answered_are_an_error() -> None:
    broker = Broker()
    broker.away = True
    core = ConsumerCore(broker.plan, ConsumerSettings())
    core.assign([PLACE])
    with pytest.raises(BrokerUnreachable):
        drive(core.poll(500), broker.carry_out)
