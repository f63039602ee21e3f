"""The order in which brokers are asked."""

from __future__ import annotations

from ottla.client.core.turns import Turns
from ottla.client.model import Broker, Destination

BROKERS = [Broker(number, "b", number) for number in (1, 2, 3)]
BOOT = [Destination("boot", 9)]


def order(turns: Turns) -> list[int]:
    """The ports, in the order in which they are asked."""
    return [where.port for where in turns.order(BROKERS, BOOT)]


def test_brokers_take_turns_before_the_bootstrap_addresses() -> None:
    turns = Turns()
    assert [order(turns) for _ in range(3)] == [[2, 3, 1, 9], [3, 1, 2, 9], [1, 2, 3, 9]]


def test_brokers_that_owe_an_answer_come_last_and_the_longest_silent_one_at_the_end() -> None:
    turns = Turns()
    turns.asked(BROKERS[2].destination(), 5)
    turns.asked(BROKERS[1].destination(), 7)
    turns.asked(BROKERS[2].destination(), 9)
    assert [order(turns) for _ in range(3)] == [[1, 9, 2, 3]] * 3
    turns.answered(BROKERS[2].destination())
    assert order(turns) == [3, 1, 9, 2]
