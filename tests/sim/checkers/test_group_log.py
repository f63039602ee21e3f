"""The judge of consumer groups' records finds epochs that fall or pass their limit, and targets that are not whole."""

from __future__ import annotations

import pytest
from logged_groups import LoggedDesk
from tests.groups.consumer_desk import Client, SomeTopics

from ottla.groups import consumer_entries as write
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_values import LEAVING_FOR_A_WHILE, ConsumerMember
from ottla.groups.values import GroupEntry
from ottla.sim.checkers.group_log import GroupLog, Place, target_faults
from ottla.sim.checkers.history import Anomaly
from ottla.sim.checkers.replayed import check_shard

TOPIC = bytes(15) + b"\1"
MORE, LESS = 3, 1


def group(epoch: int) -> GroupEntry:
    return write.epoch_entry("g", epoch, 0)


def target(epoch: int) -> GroupEntry:
    return write.target_epoch_entry("g", epoch, 1)


def member(epoch: int, name: str = "a") -> GroupEntry:
    return write.current_entry("g", ConsumerMember(name, epoch=epoch))


def gone(name: str = "a") -> list[GroupEntry]:
    return list(write.departure_entries("g", name))


END = list(write.group_tombstones(ConsumerGroup("g")))


def judged(*entries: GroupEntry) -> list[Anomaly]:
    log = GroupLog()
    found = [anomaly for entry in entries for anomaly in log.take(entry)]
    return found + list(log.ended())


@pytest.mark.parametrize(
    "entries",
    [
        [group(2), target(2), member(2), group(3), member(2), target(3), member(3)],
        [group(2), target(2), member(2), *gone(), group(3), target(3), member(0), member(3)],
        [group(5), target(5), member(5), *gone(), *END, group(2), target(2), member(2)],
        [group(3), target(3), member(3), member(LEAVING_FOR_A_WHILE), *gone(), member(0), member(3)],
        [target(2), member(2), group(3), target(3), member(3)],
        [member(2), target(4), member(3), group(4)],
    ],
    ids=["steps", "member comes back", "group comes back", "static member", "compacted group", "compacted target"],
)
def test_epochs_that_rise_within_their_limits_are_sound(entries: list[GroupEntry]):
    assert judged(*entries) == []


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([group(3), group(2)], "the group is in epoch 2, and was in 3"),
        ([group(3), target(3), group(4), target(2)], "the target is in epoch 2, and was in 3"),
        ([group(3), target(4)], "the target is in epoch 4, and may be in 3 at most"),
        ([group(3), target(2), member(3)], "a is in epoch 3, and may be in 2 at most"),
        ([group(3), target(3), member(3), member(2)], "a is in epoch 2, and was in 3"),
        ([group(3), target(3), member(3), member(0)], "a is in epoch 0, and was in 3"),
        ([group(3), member(3)], "a is in epoch 3, and ends above the target's 0"),
        ([target(3), member(3)], "the target is in epoch 3, and ends above the group's 0"),
    ],
)
def test_each_epoch_that_is_wrong_is_called_by_its_owner(entries: list[GroupEntry], said: str):
    found = judged(*entries)
    assert [each.kind for each in found] == ["group-epoch"] * len(found)
    assert f"g: {said}" in [each.what for each in found]


# Targets

A0, A1, A2, A3 = [(TOPIC, index) for index in range(4)]
OTHER: Place = (bytes(16), 0)
ALL = {A0, A1, A2, A3}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"a": [A0, A1], "b": [A2, A3]}, None),
        ({"a": [A0, A1], "b": [A2]}, "1 partitions have no owner"),
        ({"a": [A0, A1], "b": [A1, A2, A3]}, "1 partitions have two owners"),
        ({"a": [A0, A1, A2], "b": [A3]}, "the members have 1, 3 partitions"),
        ({"a": [A0, A1, A2, A3]}, "the members have 0, 4 partitions"),
        ({"a": [A0, A1], "b": [A2, A3], "c": []}, "c is not a member"),
        ({"a": [A0, A1, OTHER], "b": [A2, A3]}, "a has partitions that it does not subscribe to"),
    ],
)
def test_a_target_is_whole_and_balanced(given: dict[str, list[Place]], fault: str | None):
    found = list(target_faults({"a": ALL, "b": ALL}, given, uniform=True))
    assert found == [] if fault is None else fault in found


def test_only_the_uniform_assignor_and_equal_subscriptions_make_equal_shares():
    given = {"a": [A0, A1, A2], "b": [A3]}
    assert list(target_faults({"a": ALL, "b": ALL}, given, uniform=False)) == []
    assert list(target_faults({"a": ALL, "b": {A3}}, given, uniform=True)) == []


def a_settled_desk() -> LoggedDesk:
    desk = LoggedDesk(topics=SomeTopics(t=4, u=2))
    clients = [Client(desk, "a"), Client(desk, "b", "t", "u"), Client(desk, "c", "t", "absent")]
    for _ in range(6):
        for client in clients:
            client.beat()
            client.settle()
    assert desk.group().state_name == "Stable"
    return desk


def of_groups(desk: LoggedDesk) -> list[str]:
    return [each.what for each in check_shard(desk.shard, desk.whole) if each.kind.startswith("group-")]


def test_groups_that_the_broker_has_led_are_sound():
    desk = a_settled_desk()
    assert of_groups(desk) == []
    desk.topics.make("t", 9)
    assert of_groups(desk) == [], "the target is of the time before"


@pytest.mark.parametrize("share", [MORE, LESS])
def test_a_target_in_the_log_that_leaves_a_partition_out_is_found(share: int):
    desk = a_settled_desk()
    mine = desk.group().target["b"]
    wrong = {topic: frozenset(sorted(indexes)[:-1] if share == LESS else indexes | {0, 1, 2, 3})
             for topic, indexes in mine.items()}  # fmt: skip
    desk.put([group(99), write.target_entry("g", "b", wrong), target(99)])
    desk.put([write.epoch_entry("g", 100, desk.group().subscribed_hash(desk.topics)), target(100)])
    assert any("epoch 100" in each and "partitions" in each for each in of_groups(desk))


def test_a_target_of_a_classic_group_that_was_taken_over_is_not_judged():
    desk = a_settled_desk()
    hashed = desk.group().subscribed_hash(desk.topics)
    desk.put([write.target_entry("g", "b", {}), write.epoch_entry("g", 100, hashed)])
    desk.put([write.target_epoch_entry("g", 100, 0)])
    assert of_groups(desk) == []
    desk.put([write.target_epoch_entry("g", 100, 1)])
    assert of_groups(desk) != []
