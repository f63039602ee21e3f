"""Coordinators hear of the leaderships of their topic's partitions, and of no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.leading import Coordinators
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.kernel.ids import NO_LEADER, BrokerId

ME, OTHER, GONE = BrokerId(1), BrokerId(2), BrokerId(3)
NOW_MS, LEASE_MS = 1_000, 6_000


class Told:
    """A coordinator that records its calls."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.answers_from_ms: Any = None

    def lead(self, partition: Any, *, not_before_ms: int) -> None:
        self.said.append(("lead", partition.index, not_before_ms))

    def resign(self, index: int) -> None:
        self.said.append(("resign", index))

    def resume(self, partition: Any) -> None:
        self.said.append(("resume", partition.index))

    def lay_down(self) -> None:
        self.said.append("lay down")

    def take_up(self, led: list[Any]) -> None:
        self.said.append(("take up", [each.index for each in led]))

    def close(self) -> None:
        self.said.append("close")


def a_partition(topic: str, index: int = 0, adding: tuple[BrokerId, ...] = ()) -> Any:
    return SimpleNamespace(topic=topic, topic_id=topic.encode(), index=index, adding=adding)


class Place:
    """Both coordinators of broker 1; broker 2 is live, broker 3 is not registered."""

    def __init__(self) -> None:
        self.groups, self.transactions = Told(), Told()
        self.led: list[Any] = []
        self.state = SimpleNamespace(replicas=(ME, OTHER), adding=(), removing=())
        metadata = SimpleNamespace(
            partition=lambda topic_id, index: self.state, brokers={ME: None, OTHER: SimpleNamespace(fenced=False)}
        )
        around: Any = SimpleNamespace(
            broker=ME,
            metadata=metadata,
            clock=SimpleNamespace(mono_ms=lambda: NOW_MS),
            follow=SimpleNamespace(lease=SimpleNamespace(length_ms=LEASE_MS)),
        )
        groups: Any = self.groups
        transactions: Any = self.transactions
        self.coordinators = Coordinators(around, groups, transactions, lambda: self.led)


def test_each_coordinator_hears_of_its_own_topic() -> None:
    place = Place()
    topics = (OFFSETS_TOPIC, TRANSACTION_TOPIC, "t")
    for topic in topics:
        place.coordinators.started_leading(a_partition(topic), NO_LEADER)
        place.coordinators.stopped_leading(a_partition(topic))
    assert place.groups.said == place.transactions.said == [("lead", 0, 0), ("resign", 0)]
    assert [place.coordinators.is_for(topic) for topic in topics] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("before", "waits"), [(NO_LEADER, False), (ME, False), (OTHER, False), (GONE, True)],
    ids=["nobody", "ourselves", "a live replica", "a broker that was unregistered"],
)  # fmt: skip
def test_a12_a_lease_is_waited_for_where_nobody_waits_for_the_former_leader(before: BrokerId, waits: bool) -> None:
    place = Place()
    place.coordinators.started_leading(a_partition(OFFSETS_TOPIC), before)
    assert place.groups.said == [("lead", 0, NOW_MS + LEASE_MS if waits else 0)]


@pytest.mark.parametrize("adding", [(), (GONE,)], ids=["cancelled", "redirected"])
def test_a12_a_lease_is_waited_for_where_a_reassignment_no_longer_adds_a_live_leader(
    adding: tuple[BrokerId, ...],
) -> None:
    place = Place()
    place.state = SimpleNamespace(replicas=(ME, *adding), adding=adding, removing=())
    place.coordinators.started_leading(a_partition(OFFSETS_TOPIC, adding=(OTHER,)), OTHER)
    assert place.groups.said == [("lead", 0, NOW_MS + LEASE_MS)]


@pytest.mark.parametrize("adding", [(), (ME,)], ids=["it removed none", "it had added us"])
def test_no_lease_is_waited_for_where_the_former_leader_has_completed_a_reassignment(
    adding: tuple[BrokerId, ...],
) -> None:
    """It has stopped coordinating before it completed the reassignment."""
    place = Place()
    place.state = SimpleNamespace(replicas=(ME,), adding=(), removing=())
    place.coordinators.started_leading(a_partition(OFFSETS_TOPIC, adding=adding), OTHER)
    assert place.groups.said == [("lead", 0, 0)]


def test_all_is_laid_down_and_only_what_is_led_here_still_is_taken_up() -> None:
    place = Place()
    place.led = [a_partition(OFFSETS_TOPIC, 4), a_partition("t", 1), a_partition(TRANSACTION_TOPIC, 2)]
    place.coordinators.lay_down()
    place.coordinators.take_up()
    assert place.groups.said == ["lay down", ("take up", [4])]
    assert place.transactions.said == ["lay down", ("take up", [2])]


def test_one_partition_is_laid_down_and_taken_up_alone() -> None:
    place = Place()
    place.coordinators.lay_down_one(a_partition(TRANSACTION_TOPIC, 3))
    place.coordinators.take_up_one(a_partition(TRANSACTION_TOPIC, 3))
    assert place.transactions.said == [("resign", 3), ("resume", 3)]
    assert place.groups.said == []


def test_both_wait_for_the_lease_of_brokers_that_were_fenced_early() -> None:
    place = Place()
    place.coordinators.wait_for_fenced(lambda: 7)
    assert place.groups.answers_from_ms() == place.transactions.answers_from_ms() == 7
