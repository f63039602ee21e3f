"""The judge finds answers of a broker without a lease, or in another epoch than the request's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.sim.checkers.answers import answered, asked
from ottla.sim.coordination import CALM
from ottla.sim.drawing import draw_plan
from ottla.sim.machine import Machine
from ottla.sim.setting import KnownTopic
from ottla.sim.world import World

LONGER_THAN_A_SESSION_US = 10_000_000


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Three brokers that have served for a while."""
    world = World(draw_plan(3, brokers=3)._replace(faults=(), busy_ms=300, transactions=None, decays=False))
    assert world.run().anomalies == []
    yield world


@pytest.fixture
def topic(world: World) -> KnownTopic:
    return next(topic for topic in world.workload.topics() if topic.plan.stable)


@pytest.fixture
def leader(world: World, topic: KnownTopic) -> Machine:
    """The machine whose broker leads the topic's first partition."""
    state = world.machines[BrokerId(1)].serving.node.metadata.partition(topic.topic_id, 0)
    return world.machines[state.leader]


def a_fetch(topic: KnownTopic, epoch: int) -> FetchRequest:
    part = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=100)
    topics = [FetchTopic(topic=topic.plan.name, topic_id=topic.topic_id, partitions=[part])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=100, topics=topics, forgotten_topics_data=[])


def an_answer(topic: KnownTopic, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    part = PartitionData(partition_index=0, error_code=error, high_watermark=0, records=None)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[part])])


def kinds(leader: Machine, topic: KnownTopic, epoch: int, error: ErrorCode = ErrorCode.NONE) -> list[str]:
    question = asked(leader, a_fetch(topic, epoch))
    assert question is not None
    return [anomaly.kind for anomaly in answered(question, an_answer(topic, error))]


def epoch_of(leader: Machine, topic: KnownTopic) -> int:
    return leader.serving.node.replicas.by_id[topic.topic_id, 0].leader_epoch


def test_an_answer_in_the_epoch_that_was_asked_for_is_sound(leader: Machine, topic: KnownTopic):
    assert kinds(leader, topic, epoch_of(leader, topic)) == []
    assert kinds(leader, topic, -1) == []


def test_an_answer_in_another_epoch_is_found(leader: Machine, topic: KnownTopic):
    another = epoch_of(leader, topic) + 1
    assert kinds(leader, topic, another) == ["other-epoch"]
    assert kinds(leader, topic, another, ErrorCode.FENCED_LEADER_EPOCH) == []


def test_an_answer_of_a_broker_that_has_not_heard_from_the_store_for_a_session_is_found(
    world: World, leader: Machine, topic: KnownTopic
):
    leader.set_coordination(CALM, cut=True)
    until_us = world.loop.now_us + LONGER_THAN_A_SESSION_US
    while world.loop.next_us is not None and world.loop.next_us < until_us:
        world.loop.turn()
    question = asked(leader, a_fetch(topic, -1))
    assert question is not None
    assert [anomaly.kind for anomaly in answered(question, an_answer(topic))] == ["without-lease"]
    assert list(answered(question, an_answer(topic, ErrorCode.NOT_LEADER_OR_FOLLOWER))) == []
