"""A shard that is loaded without damaged records serves: other groups as before, and those it lacks records of anew."""

from __future__ import annotations

import random

import pytest
from tests.groups.classic_client import ClassicClient
from tests.groups.consumer_desk import Client, ConsumerDesk, SomeTopics

from ottla.groups.values import ConsumerGroupSettings, MigrationPolicy

STEPS = 40


def step(client: Client | ClassicClient) -> None:
    if isinstance(client, ClassicClient):
        client.step()
    else:
        client.beat()
        client.settle()


def a_history(chance: random.Random) -> tuple[ConsumerDesk, list[Client | ClassicClient]]:
    """Members of both protocols join, leave, grow topics and commit in one group; the log has what they left."""
    desk = ConsumerDesk(
        consumer=ConsumerGroupSettings(assignment_interval_ms=0),
        topics=SomeTopics(t=3, u=2),
        migration_policy=MigrationPolicy.BIDIRECTIONAL,
    )
    clients: list[Client | ClassicClient] = []
    for number in range(STEPS):
        what = chance.random()
        if what < 0.15 or not clients:
            classic = chance.random() < 0.4
            instance = f"i{number}" if chance.random() < 0.3 else None
            clients.append(
                ClassicClient(desk, "t", "u", instance=instance, cooperative=True)
                if classic
                else Client(desk, f"m{number}", "t", "u", instance=instance)
            )
        elif what < 0.2:
            desk.topics.make("t", min(8, 3 + number // 8))
        elif what < 0.3:
            desk.commit({("t", 0): number}, group="other")
        step(chance.choice(clients))
        desk.pass_ms(chance.choice([0, 0, 500]))
    return desk, clients


@pytest.mark.parametrize("seed", range(40))
def test_a_shard_without_some_of_its_records_serves_all_groups(seed: int) -> None:
    chance = random.Random(seed)
    desk, clients = a_history(chance)
    desk.commit({("t", 0): 1000}, group="untouched")
    kept = len(desk.log)
    lost = set(chance.sample(range(kept - 1), chance.randint(1, max(1, kept // 3))))
    desk.log = [record for number, record in enumerate(desk.log) if number not in lost]
    desk.fail_over()
    assert desk.committed(group="untouched") == {("t", 0): 1000}
    newcomer = Client(desk, "newcomer", "t")
    for number in range(STEPS):
        step(chance.choice([*clients, newcomer]))
        desk.commit({("t", 0): number}, group="other")
        desk.describe_consumer()
        desk.pass_ms(chance.choice([0, 1000, 20_000]))
    desk.pass_ms(600_000)
    desk.fail_over()
    assert desk.committed(group="other") == {("t", 0): STEPS - 1}
