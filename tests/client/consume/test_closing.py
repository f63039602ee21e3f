"""Closing a consumer ends in the time that it is given, whichever brokers answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.consume.members import PLACE, a_member
from tests.client.stories import VirtualTime

from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.group import GroupMember
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.effects import Ask
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import BrokerUnreachable, ClientError, RequestTimedOut
from ottla.client.model import ClientSettings
from ottla.messages.find_coordinator import FindCoordinatorRequest


class Brokers(VirtualTime):
    """Brokers that refuse connections at once, or take them and never answer."""

    def __init__(self, *, hang: bool) -> None:
        super().__init__()
        self.asked: list[type[Any]] = []
        self._hang = hang

    def attempt(self, effect: Any) -> Exception:
        assert isinstance(effect, Ask)
        self.asked.append(effect.request)
        if not self._hang:
            return BrokerUnreachable("refused")
        self.time += effect.timeout_ms or 30_000
        return RequestTimedOut("no answer")


def a_committing_member(brokers: Brokers) -> tuple[ConsumerCore, GroupMember]:
    """A member whose listener commits when its partitions are revoked."""
    core, member = a_member(lambda: brokers.time)
    member.on_revoke = lambda _: brokers.run(core.commit())
    return core, member


@pytest.mark.parametrize("hang", [False, True])
def test_a_consumer_whose_brokers_are_gone_closes_in_its_time(hang: bool) -> None:
    brokers = Brokers(hang=hang)
    core, _ = a_committing_member(brokers)
    with pytest.raises(RequestTimedOut):  # of the commit in the listener
        brokers.run(core.close(2_000))
    assert brokers.time <= 2_000
    assert set(brokers.asked) == {FindCoordinatorRequest}
    assert not core.assignment


def test_a_closed_consumer_does_not_join_its_group_again() -> None:
    brokers = Brokers(hang=False)
    core, member = a_committing_member(brokers)
    member.on_revoke = lambda _: None
    brokers.run(core.close(0))
    brokers.asked.clear()
    for story in (core.poll(0), core.commit(), core.position(PLACE)):
        with pytest.raises(ClientError, match="closed"):
            brokers.run(story)
    for call in (lambda: core.subscribe(["t"]), lambda: core.assign([PLACE])):
        with pytest.raises(ClientError, match="closed"):
            call()
    assert brokers.asked == []


def test_a_consumer_without_a_group_reads_nothing_once_it_is_closed() -> None:
    brokers = Brokers(hang=False)
    core = ConsumerCore(ClusterPlan("b:1", ClientSettings(), lambda: brokers.time), ConsumerSettings())
    core.assign([PLACE])
    brokers.run(core.close(0))
    assert core.assignment == set()
    with pytest.raises(ClientError, match="closed"):
        brokers.run(core.poll(0))
