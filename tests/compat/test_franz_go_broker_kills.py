"""franz-go's members of a consumer group (KIP-848) while their coordinator is killed with kill -9, again and again."""

from __future__ import annotations

from pathlib import Path

import pytest
from franz_go import compiled, coordinator, go_on_through
from moving_leaders import THREEFOLD
from three_brokers import NUMBERS, TemporaryCluster

pytestmark = pytest.mark.compat

KILLS = 6


def test_franz_gos_members_go_on_while_their_coordinator_is_killed(tmp_path: Path) -> None:
    """They read each value once, in the same epoch of the group, and keep their partitions."""
    franz = compiled(tmp_path / "franz")
    with TemporaryCluster({"offsets.topic.num.partitions": "5", **THREEFOLD}) as cluster:
        bootstrap = ",".join(cluster.address(number) for number in NUMBERS)
        dead: list[int] = []

        def start_again() -> None:
            while dead:
                cluster.start(dead.pop())

        def kill() -> None:
            start_again()
            dead.append(coordinator(bootstrap, "g"))
            cluster.kill(dead[0])

        def kill_for_a_moment() -> None:
            kill()
            start_again()

        go_on_through([kill, kill_for_a_moment] * (KILLS // 2), franz, bootstrap, "g", len(NUMBERS))
