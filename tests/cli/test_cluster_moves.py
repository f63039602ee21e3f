"""Moves of replicas: a partition that may not move does not hold up the others, and is told of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from ottla.cli.cluster_moves import move
from ottla.client.model import PartitionView, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """Two partitions, led by broker 3; moves into what `refuses` names are refused."""

    def __init__(self, *refuses: TopicPartition) -> None:
        self.refuses = refuses
        self.moving: dict[TopicPartition, Any] = {}
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {FIRST: (3, 1), SECOND: (3, 2)}
        self.elected: list[TopicPartition] = []

    def alter_reassignments(self, wanted: Mapping[TopicPartition, tuple[int, ...]]) -> dict[TopicPartition, Any]:
        fault = ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker: 7")
        self.replicas |= {place: replicas for place, replicas in wanted.items() if place not in self.refuses}
        return {place: fault if place in self.refuses else None for place in wanted}

    def list_reassignments(self) -> dict[TopicPartition, Any]:
        return self.moving

    def list_topics(self) -> dict[str, TopicView]:
        views = {
            place.partition: PartitionView(place.partition, 3, 0, replicas, replicas, ())
            for place, replicas in self.replicas.items()
        }
        return {"t": TopicView("t", bytes(16), False, views)}

    def elect_leaders(self, election: object, places: Collection[TopicPartition]) -> dict[TopicPartition, None]:
        self.elected += places
        return dict.fromkeys(places)


def test_what_may_move_is_moved_and_led_from_its_new_place() -> None:
    cluster = Cluster()
    planned = {FIRST: (2, 1), SECOND: (1, 2)}
    assert move(cluster, planned, set(planned), 10)  # type: ignore[arg-type]
    assert (cluster.replicas, cluster.elected) == (planned, [FIRST, SECOND])


def test_a_partition_that_may_not_move_does_not_hold_up_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(FIRST)
    planned = {FIRST: (2, 1), SECOND: (1, 2)}
    assert not move(cluster, planned, set(planned), 10)  # type: ignore[arg-type]
    assert cluster.replicas == {FIRST: (3, 1), SECOND: (1, 2)}
    assert cluster.elected == [SECOND], "the other one's preferred replica is still the broker to be emptied"
    assert "t-0 is not moved: " in capsys.readouterr().err


def test_a_partition_that_may_not_move_is_told_of_though_the_others_take_too_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(FIRST)
    planned = {FIRST: (2, 1), SECOND: (1, 2)}
    cluster.moving = {SECOND: None}
    assert not move(cluster, planned, set(planned), -1)  # type: ignore[arg-type]
    assert cluster.elected == []
    told = capsys.readouterr().err
    assert "not all is moved yet" in told
    assert "t-0 is not moved: " in told
