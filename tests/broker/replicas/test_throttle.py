"""Moved replicas catch up as fast as the throttle allows, and other fetches do not wait for them (KIP-73)."""

from __future__ import annotations

import pytest
from one_topic import create, reassign, state, try_to_produce
from sim_cluster import SimCluster

from ottla.broker.replicas.throttle import Throttle, names
from ottla.broker.waiting import Deadlines
from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.sim.loop import SimLoop

RATE = 20_000
BATCH, BATCHES = 10_000, 20
TOPIC, BROKER = 2, 4


def test_bytes_that_have_passed_hold_up_the_next_for_as_long_as_they_are_worth():
    loop = SimLoop(1)
    throttle = Throttle(Deadlines(loop), 1000)
    called: list[int] = []
    assert not throttle.exceeded()
    throttle.took(500)
    assert throttle.exceeded()
    throttle.when_free(lambda: called.append(loop.mono_ms()))
    loop.run_for(499)
    assert throttle.exceeded()
    assert not called
    loop.run_for(1)
    assert not throttle.exceeded()
    assert len(called) == 1
    throttle.rate = (1 << 63) - 1
    throttle.took(1 << 40)
    assert not throttle.exceeded()


def test_who_is_throttled_is_said_by_partition_and_broker_or_by_a_star():
    assert names(("0:1", "3:2"), 3, 2)
    assert not names(("0:1", "3:2"), 3, 1)
    assert names(("*",), 3, 1)
    assert not names((), 3, 1)


class Place:
    """A topic on brokers 1 and 2 that is about to move to 3 and 2."""

    def __init__(self) -> None:
        self.cluster = SimCluster(3)
        create(self.cluster, 1, 2)
        for _ in range(BATCHES):
            assert self.produce() == ErrorCode.NONE

    @property
    def in_sync(self) -> list[int]:
        return sorted(state(self.cluster).in_sync)

    def produce(self) -> int:
        return try_to_produce(self.cluster, state(self.cluster).leader, bytes(BATCH), acks=-1)

    def configure(self, kind: int, name: str, **options: str) -> None:
        configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in options.items()]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        answer = self.cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message

    def move(self) -> float:
        """Move the partition; return the seconds until broker 3 is in sync."""
        began = self.cluster.loop.mono_ms()
        reassign(self.cluster, 3, 2)
        self.cluster.until(lambda: self.in_sync == [2, 3], within_ms=120_000)
        return (self.cluster.loop.mono_ms() - began) / 1000


def test_what_is_not_throttled_moves_at_once():
    assert Place().move() < 2


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_takes_its_time(side):
    place = Place()
    for broker in (1, 2, 3):
        place.configure(BROKER, str(broker), **{f"{side}_replication_throttled_rate": str(RATE)})
    throttled = "0:1,0:2" if side == "leader" else "0:3"
    place.configure(TOPIC, "t", **{f"{side}_replication_throttled_replicas": throttled})
    took = place.move()
    least = BATCHES * BATCH / RATE
    assert least * 0.8 < took < least * 1.5


def test_clients_and_replicas_in_sync_are_not_held_back():
    place = Place()
    for broker in (1, 2, 3):
        place.configure(
            BROKER, str(broker), leader_replication_throttled_rate="1", follower_replication_throttled_rate="1"
        )
    place.configure(TOPIC, "t", leader_replication_throttled_replicas="*", follower_replication_throttled_replicas="*")
    began = place.cluster.loop.mono_ms()
    for _ in range(20):
        assert place.produce() == ErrorCode.NONE
    assert place.cluster.loop.mono_ms() - began < 1000
    assert place.in_sync == [1, 2]


def test_a_higher_rate_and_an_empty_list_take_effect_while_it_moves():
    place = Place()
    place.configure(BROKER, "3", follower_replication_throttled_rate="1000")
    place.configure(TOPIC, "t", follower_replication_throttled_replicas="0:3")
    reassign(place.cluster, 3, 2)
    place.cluster.loop.run_for(5000)
    assert 3 not in place.in_sync
    place.configure(TOPIC, "t", follower_replication_throttled_replicas="")
    place.cluster.until(lambda: place.in_sync == [2, 3], within_ms=60_000)


@pytest.mark.parametrize("text", ["1", "a:b", "1:2,3", "1:2:3", "*:1"])
def test_a_list_of_something_else_is_refused(text):
    cluster = SimCluster(1)
    cluster.create_topic()
    edit = AlterableConfig(name="leader.replication.throttled.replicas", value=text)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[edit])
    answer = cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource])).responses[0]
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "[partitionId]:[brokerId]" in answer.error_message


def test_a_rate_is_told_where_somebody_has_set_it():
    place = Place()
    name = "follower.replication.throttled.rate"

    def told() -> dict[str, str | None]:
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
        answer = place.cluster.ask(1, DescribeConfigsRequest(resources=[resource]))
        return {one.name: one.value for one in answer.results[0].configs}

    assert name not in told()
    place.configure(BROKER, "1", follower_replication_throttled_rate="7")
    assert told()[name] == "7"
