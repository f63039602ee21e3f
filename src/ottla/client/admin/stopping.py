"""Finds the partitions that would suffer if a broker stopped. Pure: views in, losses out.

`ottla cluster drain` uses it to tell whether stopping the broker is safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.placement import Placement
from ottla.client.model import TopicView
from ottla.kernel.ids import TopicPartition


class Loss(NamedTuple):
    """A partition that cannot spare a broker."""

    place: TopicPartition
    in_sync: int
    """Replicas in sync that would be left."""
    needed: int
    """Replicas in sync without which writes with acks=all are refused."""

    @property
    def text(self) -> str:
        if not self.in_sync:
            return f"{self.place} would have no replica in sync: neither reads nor writes until the broker is back"
        have = "1 replica" if self.in_sync == 1 else f"{self.in_sync} replicas"
        return f"{self.place} would have {have} in sync: writes with acks=all need {self.needed} and would be refused"


def losses(broker: int, topics: Iterable[TopicView], minimum: Mapping[str, int]) -> list[Loss]:
    """The partitions that a stop of the broker would cost their last replica in sync, or the minimum of these.

    `minimum` has `min.insync.replicas` by topic; a partition needs no more than it has replicas. A partition whose
    replica on the broker is out of sync loses nothing, unless no other replica is in sync either.
    """
    found = []
    for topic in sorted(topics, key=lambda each: each.name):
        for index, view in sorted(topic.partitions.items()):
            left = len(set(view.isr) - {broker})
            needed = min(minimum[topic.name], len(view.replicas))
            if broker in view.replicas and (not left or (broker in view.isr and left < needed)):
                found.append(Loss(TopicPartition(topic.name, index), left, needed))
    return found


def moved(topics: Iterable[TopicView], after: Placement) -> list[TopicView]:
    """Topics as they will be once partitions have these replicas: new replicas count as in sync."""
    found = []
    for topic in topics:
        views = {}
        for index, view in topic.partitions.items():
            replicas = after.get(TopicPartition(topic.name, index), view.replicas)
            in_sync = tuple(one for one in replicas if one in view.isr or one not in view.replicas)
            views[index] = view._replace(replicas=replicas, isr=in_sync)
        found.append(topic._replace(partitions=views))
    return found


def stuck(after: Placement, broker: int, others: Collection[int]) -> dict[TopicPartition, int]:
    """The partitions that have nowhere to go from a broker, with the number of brokers that are missing beside it."""
    return {
        place: len(replicas) - len(others)
        for place, replicas in after.items()
        if broker in replicas and set(others) <= set(replicas)
    }
