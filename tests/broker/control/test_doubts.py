"""Requests for leaders and coordinators wait a short time while a broker may have died, and then name the right one."""

from __future__ import annotations

from sim_cluster import SimCluster

from ottla.broker.control.doubts import SETTLED_IN_MS
from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import run_story
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic


class Doubting:
    """Three brokers; clients ask broker 1, and another broker leads the partition."""

    def __init__(self) -> None:
        self.cluster = SimCluster()
        topics = [CreatableTopic(name=f"t-{number}", num_partitions=1, replication_factor=3) for number in range(3)]
        self.cluster.ask(1, CreateTopicsRequest(topics=topics, timeout_ms=5000))
        self.node = self.cluster.node(1)
        self.topic = next(one for one in self.node.metadata.visible_topics() if one.partitions[0].leader != 1)
        self.leader = self.topic.partitions[0].leader
        self.looked = 0
        self.node.doubts.look_closer = self._look
        self.peer = self.cluster.peer(1)
        self.cluster.wait_for(self.peer.ask(MetadataRequest(topics=[])))
        self.cluster.loop.run_for(1000)

    def _look(self) -> None:
        self.looked += 1

    def ask(self):
        """Ask for metadata; return (leader, milliseconds until the answer)."""
        before_ms = self.cluster.loop.mono_ms()
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic.name)])
        answer = self.cluster.end_of(run_story(self.peer.ask(request)))
        return answer.topics[0].partitions[0].leader_id, self.cluster.loop.mono_ms() - before_ms


def test_nobody_waits_while_nothing_is_in_doubt():
    assert Doubting().ask()[1] < 10


def test_a_broker_that_is_cut_off_is_looked_at_and_metadata_waits_for_its_fence():
    doubting = Doubting()
    doubting.cluster.kill(doubting.leader)
    doubting.cluster.until(lambda: doubting.looked, 100)
    leader, waited_ms = doubting.ask()
    assert leader not in (doubting.leader, -1)
    assert waited_ms < SETTLED_IN_MS
    assert doubting.ask()[1] < 10


def test_no_client_is_sent_to_a_coordinator_that_has_just_died():
    doubting = Doubting()
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"group-{number}" for number in range(50)])
    before = doubting.cluster.ask(1, request).coordinators
    dead = next(each.node_id for each in before if each.node_id != 1)
    doubting.cluster.loop.run_for(1000)
    doubting.cluster.kill(dead)
    doubting.cluster.until(lambda: doubting.looked, 100)
    assert not doubting.node.metadata.brokers[dead].fenced, "its death is not known yet"
    after = doubting.cluster.end_of(run_story(doubting.peer.ask(request))).coordinators
    assert {each.error_code for each in after} == {ErrorCode.NONE}
    assert dead not in {each.node_id for each in after}


def test_the_answer_that_waited_for_the_fence_still_lists_the_dead_broker():
    """librdkafka drops a broker that is not listed in the middle of moving its partition (control/recently_dead.py)."""
    doubting = Doubting()
    doubting.cluster.kill(doubting.leader)
    doubting.cluster.until(lambda: doubting.looked, 100)
    named = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.15.1")
    doubting.cluster.wait_for(doubting.peer.ask(named))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=doubting.topic.name)])
    answer = doubting.cluster.end_of(run_story(doubting.peer.ask(request)))
    assert answer.topics[0].partitions[0].leader_id != doubting.leader
    assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]


def test_a_broker_that_lives_after_all_holds_metadata_up_for_a_moment_only():
    doubting = Doubting()
    epoch = doubting.node.metadata.brokers[doubting.leader].epoch
    doubting.node.doubts.cut_off(doubting.leader, epoch)
    leader, waited_ms = doubting.ask()
    assert leader == doubting.leader
    assert SETTLED_IN_MS <= waited_ms < SETTLED_IN_MS + 20
    assert doubting.ask()[1] < 10


def test_an_incarnation_that_is_known_to_be_over_raises_no_doubt():
    doubting = Doubting()
    doubting.node.doubts.cut_off(doubting.leader, doubting.node.metadata.brokers[doubting.leader].epoch - 1)
    assert doubting.looked == 0
    assert doubting.ask()[1] < 10
