"""Scenes of requests about groups and transactions that clients get wrong, played as those of groups are."""

from __future__ import annotations

from group_dialogue import Dialogue
from group_scenes import Scene, describe_as_consumer_group
from transactional_scenes import MEMBER, NOBODY, subscribed

from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.messages.leave_group import MemberIdentity

REFUSED_SCENES: list[Scene] = []


def scene(play: Scene) -> Scene:
    REFUSED_SCENES.append(play)
    return play


def _beat(talk: Dialogue, epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=talk.group, member_id=MEMBER, member_epoch=epoch)


@scene
def an_administrator_removes_a_member_of_a_consumer_group(talk: Dialogue):
    wire = talk.wire()
    epoch = subscribed(talk, wire, 0, "t").member_epoch
    for version in range(3):
        talk.ask(f"nobody leaves, version {version}", wire, version, talk.leave(member_id=NOBODY))
    left = talk.leave(MemberIdentity(member_id=MEMBER), MemberIdentity(member_id=NOBODY), MemberIdentity())
    talk.ask("leaves", wire, 5, left)
    talk.said.append(f"its heartbeat after that: {wire.ask(1, _beat(talk, epoch)).error_code}")
    talk.ask("leaves again", wire, 5, left)
    subscribed(talk, wire, 0, "t")
    talk.ask("leaves, version 1", wire, 1, talk.leave(member_id=MEMBER))
    talk.ask("leaves again, version 1", wire, 1, talk.leave(member_id=MEMBER))


@scene
def an_administrator_removes_a_static_member_of_a_consumer_group(talk: Dialogue):
    wire = talk.wire()
    subscribed(talk, wire, 0, "t", instance_id="one")
    other = MemberIdentity(member_id=NOBODY, group_instance_id="one")
    talk.ask("another member of that instance", wire, 5, talk.leave(other))
    talk.ask("another instance", wire, 5, talk.leave(MemberIdentity(member_id=MEMBER, group_instance_id="two")))
    talk.ask("another instance alone", wire, 5, talk.leave(MemberIdentity(group_instance_id="two")))
    talk.ask("the instance alone", wire, 5, talk.leave(MemberIdentity(group_instance_id="one")))
    talk.ask("again", wire, 5, talk.leave(MemberIdentity(group_instance_id="one")))
    subscribed(talk, wire, 0, "t", instance_id="one")
    talk.ask("both ids", wire, 5, talk.leave(MemberIdentity(member_id=MEMBER, group_instance_id="one")))


@scene
def a_consumer_group_with_a_member_is_described(talk: Dialogue):
    wire = talk.wire()
    found = subscribed(talk, wire, 0, "t").assignment
    assert found is not None
    talk.names[repr(found.topic_partitions[0].topic_id)] = "<id of t>"
    describe_as_consumer_group(talk, wire)
    talk.ask("a classic member of another type", wire, 9, talk.join(MEMBER, protocol_type="connect"))
    talk.ask("a classic member of that instance", wire, 9, talk.join(MEMBER, group_instance_id="one"))
