"""No client is sent to a broker that died just before the client asked: brokers are asked for a sign of life first."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import SimCluster

from ottla.broker.control.signs_of_life import PATIENCE_MS
from ottla.kernel.story import run_story
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic


class Asking:
    """Three brokers; a client asks broker 1 for the leaders of partitions, of which each broker leads some."""

    def __init__(self, session_ms: int = 30) -> None:
        """`session_ms`: the time after which the store reports a death, much later than connections end."""
        self.cluster = SimCluster(session_ms=session_ms)
        self.cluster.create_topic("t", partitions=9, replicas=3)
        self.node = self.cluster.node(1)
        self.node.doubts.look_closer = _look
        self.peer = self.cluster.peer(1)
        assert self.leaders() == {1, 2, 3}
        self.cluster.loop.run_for(1000)

    def ask(self, request: Any) -> Any:
        return self.cluster.end_of(run_story(self.peer.ask(request)))

    def ask_as_broker_2_dies(self, request: Any) -> Any:
        """Ask when broker 2 does nothing any more, and its connections to other brokers are not closed yet."""
        self.cluster.machines[2].pause()
        slot = run_story(self.peer.ask(request))
        self.cluster.loop.run_for(3)
        self.cluster.kill(2)
        return self.cluster.end_of(slot)

    def leaders(self) -> set[int]:
        """The leaders that the client is told."""
        return {partition.leader_id for partition in self.ask(_METADATA).topics[0].partitions}

    def waited_ms(self) -> int:
        """The time for which the client waits for the leaders."""
        before_ms = self.cluster.loop.mono_ms()
        self.ask(_METADATA)
        return self.cluster.loop.mono_ms() - before_ms


_KEY = 23
"""OffsetForLeaderEpoch, without topics the request for a sign of life."""
_METADATA = MetadataRequest(topics=[MetadataRequestTopic(name="t")])


def _look() -> None:
    """The store is asked to look who is alive."""


def test_a_client_that_asks_before_a_death_is_noticed_is_told_the_new_leaders():
    answer = Asking().ask_as_broker_2_dies(_METADATA)
    assert {each.leader_id for each in answer.topics[0].partitions} == {1, 3}


def test_a_client_that_asks_for_all_topics_is_told_the_new_leaders_too():
    answer = Asking().ask_as_broker_2_dies(MetadataRequest(topics=None))
    assert {each.leader_id for topic in answer.topics for each in topic.partitions} == {1, 3}


@pytest.mark.parametrize("groups", [40, 200])
def test_a_member_that_asks_before_a_death_is_noticed_is_told_the_new_coordinator(groups):
    asking = Asking()
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"group-{number}" for number in range(groups)])
    assert {each.node_id for each in asking.ask(request).coordinators} == {1, 2, 3}
    asking.cluster.loop.run_for(1000)
    assert {each.node_id for each in asking.ask_as_broker_2_dies(request).coordinators} == {1, 3}


def test_a_broker_that_hangs_holds_up_those_who_ask_first_for_a_moment_and_then_nobody():
    asking = Asking(session_ms=10_000)
    assert asking.waited_ms() < 10
    asking.cluster.machines[2].pause()
    assert PATIENCE_MS <= asking.waited_ms() < PATIENCE_MS + 10
    assert asking.waited_ms() < 10


def test_clients_that_ask_at_once_share_one_request_to_a_broker():
    asking = Asking()
    clients = [asking.cluster.peer(1, f"client-{number}") for number in range(20)]
    for each in clients:
        asking.cluster.wait_for(each.ask(MetadataRequest(topics=[])))
    served = asking.cluster.node(2).dispatch.requests
    before = served[_KEY]
    slots = [run_story(each.ask(_METADATA)) for each in clients]
    asking.cluster.until(lambda: all(slot.full for slot in slots))
    assert 1 <= served[_KEY] - before < 10


def test_a_broker_that_is_alone_asks_nobody():
    cluster = SimCluster(1)
    cluster.create_topic("t")
    assert cluster.ask(1, _METADATA).topics[0].partitions[0].leader_id == 1
    assert cluster.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[0].node_id == 1
