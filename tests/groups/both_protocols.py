"""Members of both protocols in one group: they run side by side, and no two of them ever read one partition."""

from __future__ import annotations

from typing import Any

from tests.groups.classic_client import places
from tests.groups.consumer_desk import Client, ConsumerDesk

ALL = {("t", index) for index in range(4)}
"""The partitions of the desk's topic."""


def live(desk: ConsumerDesk, *clients: Any, rounds: int = 12, ms: int = 1_000) -> None:
    """Let clients of both protocols run; check that no two of them ever read one partition."""
    for _ in range(rounds):
        for client in clients:
            client.beat() if isinstance(client, Client) else client.step()
            nobody_shares(*clients)
            client.settle()
        desk.pass_ms(ms)


def nobody_shares(*clients: Any) -> None:
    read = [place for client in clients for place in places(client)]
    assert len(read) == len(set(read)), [(client.member_id, client.owned) for client in clients]


def kinds(desk: ConsumerDesk) -> set[str]:
    """The kind of the group, here and in a replay of the log."""
    kinds = {each.group_type for each in desk.list()}
    replayed = desk.replayed()
    assert kinds == {group.kind.value for group in replayed.all_groups()}
    return kinds
