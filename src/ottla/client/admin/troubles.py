"""States that brokers of ottla report of themselves: troubles of replicas, and how they read records.

Brokers of other kinds report none.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from ottla.client.admin import admin
from ottla.client.admin.admin import Resource, ResourceType
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError
from ottla.config.describe import RECORD_DECODER, REPLICA_TROUBLES
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition


class ReplicaTrouble(NamedTuple):
    """A replica that is not fully served, with the reason; a folder that a start has set aside; or a log directory."""

    broker: int
    partition: TopicPartition
    path: str
    reason: str
    set_aside: bool
    advice: str
    """The remedy, unless it is the one for damage."""

    @property
    def is_directory(self) -> bool:
        """True if a whole log directory is in trouble."""
        return not self.partition.topic and not self.set_aside


async def replica_troubles(plan: ClusterPlan, brokers: Collection[int]) -> list[ReplicaTrouble]:
    """Ask each of these brokers; one that does not answer, or may not, is left out."""
    told = await states(plan, brokers, REPLICA_TROUBLES)
    return [trouble for broker, text in told.items() for trouble in _parsed(broker, text or "[]")]


async def record_decoders(plan: ClusterPlan, brokers: Collection[int]) -> dict[int, str]:
    """The record decoder of each of these brokers: compiled, or pure Python with the reason."""
    return await states(plan, brokers, RECORD_DECODER)


async def states(plan: ClusterPlan, brokers: Collection[int], name: str) -> dict[int, str]:
    """Ask each of these brokers for a state by its name; those that do not answer, or do not know it, are left out."""
    found: dict[int, str] = {}
    for broker in brokers:
        resource = Resource(ResourceType.BROKER, str(broker))
        try:
            answers = await admin.describe_configs(plan, [resource], keys=[name])
        except (ClientError, ApiError):
            continue
        configs = answers[resource]
        for one in () if isinstance(configs, Exception) else configs:
            if one.name == name:
                found[broker] = one.value or ""
    return found


def _parsed(broker: int, text: str) -> list[ReplicaTrouble]:
    return [
        ReplicaTrouble(
            broker,
            TopicPartition(one["topic"], one["partition"]),
            one["path"],
            one["reason"],
            one["set_aside"],
            one.get("advice", ""),
        )
        for one in json.loads(text)
    ]
