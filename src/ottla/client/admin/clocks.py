"""The clocks of brokers of ottla, and an administrator's word about the time. Brokers of other kinds tell nothing."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from ottla.client.admin import admin
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.admin.troubles import states
from ottla.client.core.plan import ClusterPlan
from ottla.config.describe import BROKER_CLOCK
from ottla.kernel.errors import ApiError

ACCEPTED = "ottla.clock.accepted.ms"


class BrokerClock(NamedTuple):
    """One broker's clock, and the time by which things have an age there (docs/decisions/0029-trusted-time.md)."""

    broker: int
    wall_ms: int
    proven_ms: int
    ahead_ms: int
    """The part of the clock's time that no other witness has proven; 0 where that is less than ten minutes."""
    behind_ms: int
    settled: bool
    """False for a new broker that the others have not told the time yet."""

    @property
    def in_doubt(self) -> bool:
        return bool(self.ahead_ms or self.behind_ms) or not self.settled


async def broker_clocks(plan: ClusterPlan, brokers: Collection[int]) -> list[BrokerClock]:
    """Ask each of these brokers; one that does not answer, or does not know the question, is left out."""
    told = await states(plan, brokers, BROKER_CLOCK)
    return [_parsed(broker, text) for broker, text in sorted(told.items()) if text]


def _parsed(broker: int, text: str) -> BrokerClock:
    fields = json.loads(text)
    return BrokerClock(
        broker, fields["wall_ms"], fields["proven_ms"], fields["ahead_ms"], fields["behind_ms"], bool(fields["settled"])
    )


async def accept_time(plan: ClusterPlan, time_ms: int) -> None:
    """Tell all brokers that it is `time_ms`. A broker whose clock agrees goes by its clock again."""
    brokers = Resource(ResourceType.BROKER, "")
    answers = await admin.alter_configs(plan, {brokers: [(ACCEPTED, ConfigOperation.SET, str(time_ms))]})
    if isinstance(fault := answers[brokers], ApiError):
        raise fault
